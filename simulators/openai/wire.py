"""The shapes of OpenAI's objects, lists and errors on the wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import orjson
from starlette.responses import Response

from simulators.openai.records import BatchRecord, FileRecord

WireObject = dict[str, object]


class ApiError(Exception):
    """A call that ends with OpenAI's error envelope."""

    def __init__(
        self,
        status_code: int,
        message: str,
        *,
        error_type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        detail: bool = False,
    ) -> None:
        """Keep the envelope; `detail` adds the second top-level key that refused uploads carry."""
        super().__init__(message)
        self.status_code = status_code
        self.body: WireObject = error_body(message, error_type, param, code)
        if detail:
            self.body["detail"] = {"message": message, "code": code}


def error_body(message: str, error_type: str, param: str | None, code: str | None) -> WireObject:
    """The error envelope; all four members are always there."""
    return {"error": {"message": message, "type": error_type, "param": param, "code": code}}


def json_response(body: Mapping[str, object], status_code: int = 200) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(body), status_code=status_code, media_type="application/json")


def file_object(record: FileRecord) -> WireObject:
    """A File object."""
    return {
        "object": "file",
        "id": record.id,
        "purpose": record.purpose,
        "filename": record.filename,
        "bytes": record.size_bytes,
        "created_at": int(record.created_at),
        "expires_at": _second(record.expires_at),
        "status": "processed",
        "status_details": None,
    }


def batch_object(record: BatchRecord) -> WireObject:
    """A Batch object; a file id shows only when the batch has ended and the file is not empty."""
    ended = record.status in {"completed", "expired", "cancelled"}
    return {
        "id": record.id,
        "object": "batch",
        "endpoint": record.endpoint,
        "model": record.model,
        "errors": {"object": "list", "data": list(record.errors)} if record.errors else None,
        "input_file_id": record.input_file_id,
        "completion_window": record.completion_window,
        "status": record.status,
        "output_file_id": record.output_file_id if ended and record.output_bytes else None,
        "error_file_id": record.error_file_id if ended and record.error_bytes else None,
        "created_at": int(record.created_at),
        "in_progress_at": _second(record.in_progress_at),
        "expires_at": int(record.expires_at),
        "finalizing_at": _second(record.finalizing_at),
        "completed_at": _second(record.completed_at),
        "failed_at": _second(record.failed_at),
        "expired_at": _second(record.expired_at),
        "cancelling_at": _second(record.cancelling_at),
        "cancelled_at": _second(record.cancelled_at),
        "request_counts": {
            "total": record.row_count,
            "completed": record.completed_rows,
            "failed": record.failed_rows,
        },
        "usage": {
            "input_tokens": record.input_tokens,
            "input_tokens_details": {"cached_tokens": record.cached_tokens},
            "output_tokens": record.output_tokens,
            "output_tokens_details": {"reasoning_tokens": record.reasoning_tokens},
            "total_tokens": record.input_tokens + record.output_tokens,
        },
        "metadata": None if record.metadata is None else dict(record.metadata),
    }


def list_page(items: Sequence[WireObject], *, has_more: bool) -> WireObject:
    """One page of a list."""
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOutcome:
    """What became of one row: an HTTP answer, or (without a body) an error of a row that never ran."""

    custom_id: str
    line_id: str
    request_id: str
    status_code: int
    body: Mapping[str, object] | None
    error_code: str | None = None
    error_message: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the row belongs into the output file."""
        return self.body is not None and self.status_code < HTTPStatus.MULTIPLE_CHOICES


def result_line(outcome: RowOutcome) -> bytes:
    """One line of an output or error file, ending in LF; a refused row has its error inside the body."""
    answered = outcome.body is not None
    return orjson.dumps(
        {
            "id": outcome.line_id,
            "custom_id": outcome.custom_id,
            "response": {
                "status_code": outcome.status_code,
                "request_id": outcome.request_id,
                "body": outcome.body,
            }
            if answered
            else None,
            "error": None if answered else {"code": outcome.error_code, "message": outcome.error_message},
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def _second(at: float | None) -> int | None:
    return None if at is None else int(at)
