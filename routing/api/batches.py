"""``/v1/batches``: accept a quote, watch, read the results and the receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from ninja import Query, Router

from accounts.selectors import Caller
from billing.schemas import ReceiptAnswer
from billing.selectors import receipt_for_batch
from ground.errors import InvalidRequest, NotFound
from ground.ids import is_public_id
from routing.api.answers import caller_of, errors_of, json_answer, sdk_try_of
from routing.api.downloads import METHODS, PUBLISHED, RESPONSES, download
from routing.batch_choice import PUBLISHED as FILTERS
from routing.batch_choice import batch_choice
from routing.collected import collected_results
from routing.domain.jsonl.checks import ENDPOINTS
from routing.domain.scoring import WorkflowProfile
from routing.file_schemas import FilesDeletedOut
from routing.models import Batch, BatchStatus, StoredFile, SubLane
from routing.retried_rows import UndoneChoice
from routing.schemas import BatchCreate, BatchListOut, BatchOut, UnpricedQuoteOut
from routing.sdk_tries import SdkTry
from routing.selectors import (
    PAGE_DEFAULT,
    batch_by_id,
    batch_page,
    kept_files,
    quote_by_id,
    sub_lanes_of,
    sub_lanes_of_batches,
)
from routing.services.batches import AcceptedBatch, accept_quote, checked_metadata
from routing.services.closing import cancel_batch
from routing.services.deletions import delete_batch_files, files_of
from routing.services.file_batches import create_file_batch
from routing.services.quotes import quote_answer
from routing.services.retries import request_retry
from routing.services.room import places_in_line
from routing.workflows import workflow_named

router = Router(tags=["batches"])
_WINDOW = "24h"


class UndoneOutcome(StrEnum):
    """How a row ended that may be done again."""

    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


_Codes = Annotated[list[str] | None, Query(max_length=20)]
_Outcomes = Annotated[list[UndoneOutcome] | None, Query(max_length=3)]


@router.post("", response={200: BatchOut, **errors_of(400, 402, 404, 413, 415)})
def create_batch(request: HttpRequest, body: BatchCreate) -> HttpResponse:
    """Accept a quote, or send an uploaded file to be priced and accepted at once.

    The quote may stand in `quote_id` or, for the stock SDK, in `metadata.quote_id`. Without one, `input_file_id`,
    `endpoint` and `completion_window` make a batch that is `validating` until its file is priced; it runs under the
    file's newest quote while that is valid, or under a new one, by `workflow` or `metadata.workflow` where one is
    named. What is wrong with the file, or missing credit, turns it `failed` with `errors`. What it puts out is kept for
    30 days, or as `output_expires_after` says.
    """
    caller = caller_of(request)
    metadata = checked_metadata(body.metadata)
    if body.completion_window not in {None, _WINDOW}:
        raise InvalidRequest(f"'completion_window' is {_WINDOW!r}; no other is sold.", param="completion_window")
    quote_id = body.quote_id or (metadata or {}).get("quote_id")
    if not quote_id:
        return _answer(_batch_of_file(caller, body, metadata, sdk_try=sdk_try_of(request)))
    quote = quote_by_id(organisation=caller.organisation, public_id=quote_id)
    if body.workflow and body.workflow != quote.workflow:
        raise InvalidRequest(f"The quote was made under the workflow {quote.workflow!r}.", param="workflow")
    if body.input_file_id not in {None, quote_id, quote.input_file_id or None}:
        raise InvalidRequest(
            "'input_file_id' is not the quote's file; leave it out or send the quote's own id.", param="input_file_id"
        )
    if quote.endpoint and body.endpoint not in {None, quote.endpoint}:
        raise InvalidRequest(f"The quote is for {quote.endpoint!r}.", param="endpoint")
    return _answer(
        accept_quote(
            caller=caller,
            quote_id=quote_id,
            metadata=metadata,
            output_kept_for=_output_kept_for(body),
            quote=quote,
        )
    )


def _answer(accepted: AcceptedBatch) -> HttpResponse:
    sub_lanes: Sequence[SubLane] = accepted.sub_lanes or ()
    # Before its file is priced it has none.
    if accepted.sub_lanes is None and accepted.batch.status != BatchStatus.VALIDATING:
        sub_lanes = sub_lanes_of(accepted.batch)
    response = json_answer(batch_object(accepted.batch, sub_lanes, places_in_line(sub_lanes)))
    if accepted.is_replay:
        response["idempotent-replayed"] = "true"
    return response


@router.get("", response={200: BatchListOut, **errors_of(400, 404)}, openapi_extra=FILTERS)
def list_batches(request: HttpRequest, after: str | None = None, limit: int = PAGE_DEFAULT) -> HttpResponse:
    """Give a page of batches, newest first; only those that match, if `status`, `created_at` or `metadata` is named."""
    chosen = batch_choice(request.GET)
    page = batch_page(organisation=caller_of(request).organisation, after=after, limit=limit, chosen=chosen)
    sub_lanes = sub_lanes_of_batches(page.batches)
    places = places_in_line(chain.from_iterable(sub_lanes.values()))
    data = [batch_object(batch, sub_lanes[batch.pk], places) for batch in page.batches]
    return json_answer(
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": page.has_more,
        }
    )


@router.get("/{batch_id}", response={200: BatchOut, **errors_of(404)})
def get_batch(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Give one batch."""
    batch = batch_by_id(organisation=caller_of(request).organisation, public_id=batch_id)
    sub_lanes = sub_lanes_of(batch)
    return json_answer(batch_object(batch, sub_lanes, places_in_line(sub_lanes)))


@router.post("/{batch_id}/cancel", response={200: BatchOut, **errors_of(400, 404)})
def cancel(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Ask for a batch to end. What finished is kept, delivered and charged; the rest is not."""
    organisation = caller_of(request).organisation
    cancel_batch(organisation=organisation, public_id=batch_id)
    batch = batch_by_id(organisation=organisation, public_id=batch_id)
    sub_lanes = sub_lanes_of(batch)
    return json_answer(batch_object(batch, sub_lanes, places_in_line(sub_lanes)))


@router.post("/{batch_id}/retry", response={202: UnpricedQuoteOut, **errors_of(400, 404)})
def retry_batch(
    request: HttpRequest,
    batch_id: str,
    workflow: str | None = None,
    code: _Codes = None,
    outcome: _Outcomes = None,
) -> HttpResponse:
    """Ask for a quote of the rows of an ended batch that were not done: those that failed, expired or were cancelled.

    It has their lines as they were sent, with the same `custom_id`s, and `retry_of`; when it is `ready` it is accepted
    as any quote. `workflow` is the batch's own unless another one is named. `code` and `outcome`, each also several
    times, choose rows: those with one of the codes, and with one of the outcomes.
    """
    caller = caller_of(request)
    profile = workflow_named(caller.organisation, workflow) if workflow else None
    choice = UndoneChoice(codes=tuple(code or ()), outcomes=tuple(each.value for each in outcome or ()))
    quote = request_retry(caller=caller, public_id=batch_id, workflow=profile, choice=choice)
    response = json_answer(quote_answer(caller, quote), status=202)
    response["Location"] = f"/v1/quotes/{quote.public_id}"
    return response


@router.delete("/{batch_id}/files", response={200: FilesDeletedOut, **errors_of(400, 404)})
def delete_files_of_batch(request: HttpRequest, batch_id: str) -> HttpResponse:
    """Delete all that an ended batch was given and put out: output, error and results file, and its rows.

    The receipt and the batch itself stay, and the audit log says who did it. Asked again, the answer is the same. The
    file that was uploaded for the batch is deleted by `DELETE /v1/files/{file_id}`.
    """
    batch = delete_batch_files(organisation=caller_of(request).organisation, public_id=batch_id)
    return json_answer(
        {
            "id": batch.public_id,
            "object": "batch.files",
            "deleted": True,
            "deleted_at": _unix(batch.files_deleted_at),
            "files": [
                {
                    "kind": kind,
                    "id": stored.public_id,
                    "filename": stored.filename,
                    "bytes": stored.size_bytes,
                    "sha256": bytes(stored.sha256).hex(),
                }
                for kind, stored in files_of(batch).items()
            ],
        }
    )


@router.api_operation(METHODS, "/{batch_id}/results", response=RESPONSES, openapi_extra=PUBLISHED)
def get_batch_results(request: HttpRequest, batch_id: str, after: str | None = None) -> HttpResponseBase:
    """Stream every row's line once, in the order of the input.

    While the batch runs, and whenever `after` is given, rows come in the order they were collected, which never
    changes: ask again with the last `X-Last-Line` as `after` for what came since. `X-Incomplete` says whether more
    will come. Once it has ended, the whole has an `ETag`, its SHA-256 as `Repr-Digest`, and ranges.
    """
    organisation = caller_of(request).organisation
    batch = batch_by_id(organisation=organisation, public_id=batch_id)
    if batch.files_deleted_at is not None:
        raise NotFound("The files of the batch were deleted.", param="batch_id")
    if batch.results_file is None:
        return _partial(request, batch, after)
    # Once they are deleted or over their time, nothing of them is given in any order.
    stored = kept_files(organisation).filter(public_id=batch.results_file.public_id).first()
    if stored is None:
        raise NotFound("The results of the batch were deleted, or their time is over.", param="batch_id")
    if after is not None:
        return _partial(request, batch, after)
    response = download(request, stored)
    response["X-Incomplete"] = "false"
    return response


@router.get("/{batch_id}/receipt", response={200: ReceiptAnswer, **errors_of(404)})
def get_batch_receipt(request: HttpRequest, batch_id: str) -> ReceiptAnswer:
    """Give what the batch was charged, line by line."""
    organisation = caller_of(request).organisation
    batch = batch_by_id(organisation=organisation, public_id=batch_id)
    if not batch.receipt_id:
        raise NotFound(f"The batch is {batch.status}; it has no receipt yet.", param="batch_id")
    return ReceiptAnswer.of(receipt_for_batch(organisation, batch.public_id))


def _partial(request: HttpRequest, batch: Batch, after: str | None) -> HttpResponseBase:
    found = collected_results(batch, after=after)
    lines = () if request.method == "HEAD" else found.lines
    response = StreamingHttpResponse(lines, content_type="application/jsonl")
    response["Accept-Ranges"] = "none"
    response["X-Incomplete"] = "true" if found.is_incomplete else "false"
    response["X-Last-Line"] = found.last_line
    return response


def _batch_of_file(
    caller: Caller, body: BatchCreate, metadata: dict[str, str] | None, *, sdk_try: SdkTry | None
) -> AcceptedBatch:
    """Make a batch of an uploaded file; shape and file are refused at once, content and credit later."""
    if body.input_file_id is None:
        raise _missing("quote_id", "Name the quote to accept in 'quote_id', or a file in 'input_file_id'.")
    if is_public_id(body.input_file_id, "qt_"):
        quote_by_id(organisation=caller.organisation, public_id=body.input_file_id)
        raise _missing("quote_id", "To accept a quote, name it in 'quote_id'; 'input_file_id' alone names a file.")
    for name in ("endpoint", "completion_window"):
        if getattr(body, name) is None:
            raise _missing(name, f"{name!r} is required beside 'input_file_id'.")
    endpoint = ENDPOINTS.get(body.endpoint or "")
    if endpoint is None:
        raise InvalidRequest(f"'endpoint' is one of {', '.join(ENDPOINTS)}.", param="endpoint")
    return create_file_batch(
        caller=caller,
        file_id=body.input_file_id,
        endpoint=endpoint,
        metadata=metadata,
        workflow=_workflow_of(caller, body, metadata),
        output_kept_for=_output_kept_for(body),
        sdk_try=sdk_try,
    )


def _output_kept_for(body: BatchCreate) -> timedelta | None:
    """Give how long what the batch puts out is kept; None where it says nothing."""
    return None if body.output_expires_after is None else timedelta(seconds=body.output_expires_after.seconds)


def _workflow_of(caller: Caller, body: BatchCreate, metadata: dict[str, str] | None) -> WorkflowProfile | None:
    """Give the workflow that is named in the body or, for the stock SDK, in the metadata; None where none is."""
    named = body.workflow or (metadata or {}).get("workflow")
    return workflow_named(caller.organisation, named) if named else None


def _missing(param: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, code="missing_required_parameter", param=param)


def batch_object(batch: Batch, sub_lanes: Sequence[SubLane], places: Mapping[int, int]) -> dict[str, Any]:
    """Give OpenAI's batch object with our fields; no id issued by a provider is in it.

    ``places`` are those of sub-lanes that wait for room, by their key.
    """
    slugs = {sub_lane.model_slug for sub_lane in sub_lanes}
    return {
        "id": batch.public_id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": slugs.pop() if len(slugs) == 1 else None,
        "input_file_id": batch.input_file_id or batch.quote_id,
        "completion_window": batch.completion_window,
        "status": batch.status,
        "created_at": _unix(batch.created_at),
        "errors": None if batch.errors is None else {"object": "list", "data": batch.errors},
        "output_file_id": _file_id(batch.output_file),
        "error_file_id": _file_id(batch.error_file),
        "in_progress_at": _unix(batch.in_progress_at),
        "expires_at": _unix(batch.expires_at),
        "finalizing_at": _unix(batch.finalizing_at),
        "completed_at": _unix(batch.completed_at),
        "failed_at": _unix(batch.failed_at),
        "expired_at": _unix(batch.expired_at),
        "cancelling_at": _unix(batch.cancelling_at),
        "cancelled_at": _unix(batch.cancelled_at),
        "request_counts": {
            "total": batch.row_count,
            "completed": batch.completed_count,
            "failed": batch.failed_count,
        },
        "usage": _usage(batch),
        "metadata": batch.metadata,
        "quote_id": batch.quote_id,
        "retry_of": batch.retry_of or None,
        "files_deleted_at": _unix(batch.files_deleted_at),
        "lanes": [_lane(sub_lane, places.get(sub_lane.pk)) for sub_lane in sub_lanes],
        "receipt_id": batch.receipt_id or None,
        "charge_micro_usd": batch.charge_micro_usd,
    }


def _lane(sub_lane: SubLane, place: int | None) -> dict[str, Any]:
    return {
        "lane_id": sub_lane.lane_id,
        "model": sub_lane.model_slug,
        "status": sub_lane.state,
        "reason": f"{sub_lane.reason}: place {place} in line" if place else sub_lane.reason or None,
        "row_count": sub_lane.row_count,
        "completed_count": sub_lane.completed_count,
        "failed_count": sub_lane.failed_count,
        "moved_out_count": sub_lane.moved_out_count,
        "re_dispatched_count": sub_lane.re_dispatched_count,
        "reported_count": sub_lane.reported_count,
        "charge_micro_usd": sub_lane.charge_micro_usd,
    }


def _usage(batch: Batch) -> dict[str, Any] | None:
    """Give the usage of charged rows, in OpenAI's words; None until the batch has ended."""
    if batch.charge_micro_usd is None:
        return None
    return {
        "input_tokens": batch.input_tokens,
        "input_tokens_details": {"cached_tokens": batch.cached_input_tokens},
        "output_tokens": batch.output_tokens,
        "output_tokens_details": {"reasoning_tokens": batch.reasoning_tokens},
        "total_tokens": batch.input_tokens + batch.output_tokens,
    }


def _unix(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp())


def _file_id(stored: StoredFile | None) -> str | None:
    return None if stored is None else stored.public_id
