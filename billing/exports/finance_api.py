"""``/v1/finance/exports``: files of the house's figures for programs of our own staff."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Annotated, Any, cast

from django.http import HttpRequest, HttpResponseBase
from ninja import Field, Query, Router, Schema

from accounts.domain.staff_scopes import StaffScope
from accounts.models import User
from accounts.services.staff_keys import StaffCaller
from billing.exports import downloads
from billing.exports.reading import export_by_id, export_page
from billing.exports.schemas import ExportAnswer
from billing.services.exports import ExportWish, cancel_export, create_export

router = Router(tags=["finance"])
# Not in the published OpenAPI, which is for customers; docs/finance-api.md has it.
_get = partial(router.get, include_in_schema=False)
_post = partial(router.post, include_in_schema=False)


class HouseExportIn(Schema):
    """What to export; days are UTC's unless a zone is named."""

    kind: str
    format: str = "csv"
    since: date | None = None
    until: date | None = None
    zone: str | None = None
    filters: dict[str, str] = Field(default_factory=dict)


@_post("/exports")
def create_house_export(request: HttpRequest, body: HouseExportIn) -> dict[str, Any]:
    """Make an export of all customers' figures; ask for it until it is completed."""
    wish = ExportWish(
        kind=body.kind,
        file_format=body.format,
        first_day=body.since,
        last_day=body.until,
        zone=body.zone,
        filters=body.filters,
    )
    made = create_export(None, wish, made_by=_person(request, StaffScope.FINANCE_WRITE))
    return ExportAnswer.of(made).model_dump(mode="json")


@_get("/exports")
def list_house_exports(
    request: HttpRequest, after: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> dict[str, Any]:
    """Give a page of the house's exports, newest first."""
    _person(request, StaffScope.FINANCE_READ)
    page, has_more = export_page(None, after=after, limit=limit)
    data = [ExportAnswer.of(export).model_dump(mode="json") for export in page]
    return {"object": "list", "data": data, "has_more": has_more}


@_get("/exports/{export_id}")
def get_house_export(request: HttpRequest, export_id: str) -> dict[str, Any]:
    """Give one of them."""
    _person(request, StaffScope.FINANCE_READ)
    return ExportAnswer.of(export_by_id(None, export_id)).model_dump(mode="json")


@_get("/exports/{export_id}/content")
def get_house_export_content(request: HttpRequest, export_id: str) -> HttpResponseBase:
    """Stream its file."""
    _person(request, StaffScope.FINANCE_READ)
    return downloads.download(export_by_id(None, export_id))


@_post("/exports/{export_id}/cancel")
def cancel_house_export(request: HttpRequest, export_id: str) -> dict[str, Any]:
    """End one that is not finished; one that is stays as it is."""
    _person(request, StaffScope.FINANCE_WRITE)
    cancel_export(export_by_id(None, export_id))
    return ExportAnswer.of(export_by_id(None, export_id)).model_dump(mode="json")


def _person(request: HttpRequest, scope: StaffScope) -> User:
    caller = cast(StaffCaller, request.auth)  # type: ignore[attr-defined]  # django-ninja adds it
    caller.check(scope)
    return caller.user
