"""``/v1/finance/exports``: files of the house's figures for programs of our own staff."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Final, cast

from django.http import HttpRequest, HttpResponseBase
from ninja import Field, Query, Router, Schema

from accounts.models import User
from accounts.services.staff_keys import StaffCaller
from billing.exports import downloads
from billing.exports.reading import export_by_id, export_page
from billing.exports.schemas import ExportAnswer, ExportListAnswer
from billing.services.exports import ExportWish, cancel_export, create_export

router = Router(tags=["finance"])
_FILE: Final[dict[str, Any]] = {
    "text/csv": {}, "application/jsonl": {}, "application/vnd.apache.parquet": {}, "text/plain": {},
}  # fmt: skip


class HouseExportIn(Schema):
    """What to export; days are UTC's unless a zone is named."""

    kind: str
    format: str = "csv"
    since: date | None = None
    until: date | None = None
    zone: str | None = None
    filters: dict[str, str] = Field(default_factory=dict)


@router.post("/exports", response=ExportAnswer)
def create_house_export(request: HttpRequest, body: HouseExportIn) -> ExportAnswer:
    """Make an export of all customers' figures; ask for it until it is completed."""
    wish = ExportWish(
        kind=body.kind,
        file_format=body.format,
        first_day=body.since,
        last_day=body.until,
        zone=body.zone,
        filters=body.filters,
    )
    made = create_export(None, wish, made_by=_person(request))
    return ExportAnswer.of(made)


@router.get("/exports", response=ExportListAnswer)
def list_house_exports(
    request: HttpRequest, after: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ExportListAnswer:
    """Give a page of the house's exports, newest first."""
    page, has_more = export_page(None, after=after, limit=limit)
    return ExportListAnswer(
        data=[ExportAnswer.of(export) for export in page],
        first_id=page[0].public_id if page else None,
        last_id=page[-1].public_id if page else None,
        has_more=has_more,
    )


@router.get("/exports/{export_id}", response=ExportAnswer)
def get_house_export(request: HttpRequest, export_id: str) -> ExportAnswer:
    """Give one of them."""
    return ExportAnswer.of(export_by_id(None, export_id))


@router.get(
    "/exports/{export_id}/content", response={200: None}, openapi_extra={"responses": {200: {"content": _FILE}}}
)
def get_house_export_content(request: HttpRequest, export_id: str) -> HttpResponseBase:
    """Stream its file."""
    return downloads.download(export_by_id(None, export_id))


@router.post("/exports/{export_id}/cancel", response=ExportAnswer)
def cancel_house_export(request: HttpRequest, export_id: str) -> ExportAnswer:
    """End one that is not finished; one that is stays as it is."""
    cancel_export(export_by_id(None, export_id))
    return ExportAnswer.of(export_by_id(None, export_id))


def _person(request: HttpRequest) -> User:
    return cast("StaffCaller", request.auth).user  # type: ignore[attr-defined]  # django-ninja adds it
