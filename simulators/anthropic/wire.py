"""The shapes of Anthropic's objects, lists, result lines and errors on the wire."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256

import orjson
from starlette.responses import Response

from simulators.anthropic.records import BatchRecord
from simulators.claude.answering import Door
from simulators.claude.refusals import STATUS_BY_TYPE, RefusedError
from simulators.claude.rows import RowOutcome

WireObject = dict[str, object]

RESULTS_KEPT_SECONDS = 29 * 86_400
DOOR = Door(
    message_prefix="msg_01",
    tool_prefix="toolu_01",
    usage_extra={"service_tier": "batch", "inference_geo": "not_available"},
    served_model=str,
)


class ApiError(Exception):
    """A call that ends with Anthropic's error envelope."""

    def __init__(self, error_type: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        """Keep the envelope; the status follows from the type."""
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.status_code = STATUS_BY_TYPE[error_type]
        self.retry_after_seconds = retry_after_seconds


def error_body(error_type: str, message: str, request_id: str | None, error_code: str | None = None) -> WireObject:
    """The error envelope; a stable code stands in the details."""
    error: WireObject = {"type": error_type, "message": message}
    if error_code is not None:
        error["details"] = {"error_code": error_code}
    return {"type": "error", "error": error, **({"request_id": request_id} if request_id else {})}


def json_response(body: Mapping[str, object], status_code: int = 200) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(body), status_code=status_code, media_type="application/json")


def batch_object(batch: BatchRecord, results_base: str, now: float) -> WireObject:
    """A Message Batch; `results_base` is the URL under which batches stand, `now` decides about the archive."""
    archived_at = batch.created_at + RESULTS_KEPT_SECONDS
    archived = batch.ended_at is not None and now >= archived_at
    ended = batch.status == "ended"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": batch.status,
        "request_counts": {
            "processing": 0 if ended else batch.row_count,
            "succeeded": batch.succeeded_rows if ended else 0,
            "errored": batch.errored_rows if ended else 0,
            "canceled": batch.canceled_rows if ended else 0,
            "expired": batch.expired_rows + batch.unrun_rows if ended else 0,
        },
        "created_at": instant(batch.created_at),
        "expires_at": instant(batch.expires_at),
        "ended_at": _instant(batch.ended_at),
        "cancel_initiated_at": _instant(batch.cancel_initiated_at),
        "archived_at": instant(archived_at) if archived else None,
        "results_url": f"{results_base}/{batch.id}/results" if ended and not archived else None,
    }


def list_page(items: Sequence[WireObject], *, has_more: bool) -> WireObject:
    """One page of a list."""
    return {
        "data": list(items),
        "has_more": has_more,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
    }


def result_line(batch_id: str, outcome: RowOutcome) -> bytes:
    """One line of the results, ending in LF; a row that never ran has expired."""
    custom_id = outcome.row.custom_id
    result: WireObject = {"type": "expired"}
    if outcome.answer is not None:
        result = {"type": "succeeded", "message": outcome.answer.message}
    elif outcome.refusal is not None:
        result = {"type": "errored", "error": _row_error(outcome.refusal, f"{batch_id}/{custom_id}")}
    return _line(custom_id, result)


def dropped_line(custom_id: str, kind: str) -> bytes:
    """The line of a row that was `canceled` or has `expired`."""
    return _line(custom_id, {"type": kind})


def instant(at: float) -> str:
    """An instant (Unix seconds) in RFC 3339."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _row_error(refusal: RefusedError, name: str) -> WireObject:
    request_id = f"req_{sha256(name.encode()).hexdigest()[:24]}"
    return error_body(refusal.error_type, refusal.message, request_id, refusal.error_code)


def _line(custom_id: str, result: WireObject) -> bytes:
    return orjson.dumps({"custom_id": custom_id, "result": result}, option=orjson.OPT_APPEND_NEWLINE)


def _instant(at: float | None) -> str | None:
    return None if at is None else instant(at)
