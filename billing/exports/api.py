"""``/v1/exports``: files of an organisation's figures, as its pages give them."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from ninja import Query, Router

from accounts.selectors import Caller
from billing.exports import downloads, focus
from billing.exports.reading import export_by_id, export_page, file_name_of, file_of
from billing.exports.schemas import ExportAnswer, ExportCreate, ExportListAnswer
from billing.exports.scope import ExportKind
from billing.services.exports import ExportWish, cancel_export
from billing.services.exports import create_export as make_export
from ground.errors import NotFound

router = Router(tags=["exports"])
_FILE: Final[dict[str, Any]] = {"text/csv": {}, "application/jsonl": {}, "application/vnd.apache.parquet": {}}


@router.post("/exports", response={201: ExportAnswer})
def create_export(request: HttpRequest, body: ExportCreate) -> HttpResponse:
    """Make an export. Up to 10,000 rows it is completed at once; ask for larger ones until they are.

    `filters` are those of the pages: `kind` for the ledger; `model`, `key` and `lane` for usage; `text` and `state` for
    receipts.
    """
    caller = _caller(request)
    wish = ExportWish(
        kind=body.kind,
        file_format=body.format,
        first_day=body.since,
        last_day=body.until,
        zone=body.zone,
        filters=body.filters,
    )
    made = make_export(caller.organisation, wish, api_key=caller.api_key)
    return HttpResponse(ExportAnswer.of(made).model_dump_json(), status=201, content_type="application/json")


@router.get("/exports", response=ExportListAnswer)
def list_exports(
    request: HttpRequest, after: str | None = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ExportListAnswer:
    """Give a page of the caller's exports, newest first."""
    page, has_more = export_page(_caller(request).organisation, after=after, limit=limit)
    return ExportListAnswer(
        data=[ExportAnswer.of(export) for export in page],
        first_id=page[0].public_id if page else None,
        last_id=page[-1].public_id if page else None,
        has_more=has_more,
    )


@router.get("/exports/{export_id}", response=ExportAnswer)
def get_export(request: HttpRequest, export_id: str) -> ExportAnswer:
    """Give one of the caller's exports."""
    return ExportAnswer.of(export_by_id(_caller(request).organisation, export_id))


@router.post("/exports/{export_id}/cancel", response=ExportAnswer)
def end_export(request: HttpRequest, export_id: str) -> ExportAnswer:
    """End an export that is not finished; one that is stays as it is."""
    export = export_by_id(_caller(request).organisation, export_id)
    cancel_export(export)
    return ExportAnswer.of(export_by_id(_caller(request).organisation, export_id))


@router.get(
    "/exports/{export_id}/content", response={200: None}, openapi_extra={"responses": {200: {"content": _FILE}}}
)
def get_export_content(request: HttpRequest, export_id: str) -> HttpResponseBase:
    """Stream an export's file, with its SHA-256 as `Repr-Digest` and `ETag`."""
    return downloads.download(export_by_id(_caller(request).organisation, export_id))


@router.get("/exports/{export_id}/metadata", response=dict[str, Any])
def get_export_metadata(request: HttpRequest, export_id: str) -> dict[str, Any]:
    """Give what FOCUS wants beside a file of kind `focus`: version, schema, time of making."""
    export = export_by_id(_caller(request).organisation, export_id)
    if export.kind != ExportKind.FOCUS:
        raise NotFound("Only exports of kind 'focus' have metadata.", param="export_id")
    file_of(export)
    return focus.metadata(made_at=export.finished_at or export.created_at, file_name=file_name_of(export))


def _caller(request: HttpRequest) -> Caller:
    return cast("Caller", request.auth)  # type: ignore[attr-defined]  # django-ninja adds it
