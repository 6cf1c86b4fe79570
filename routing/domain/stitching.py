"""One results file from all rows' outcomes: each row once, in the order of the input.

The line is OpenAI's batch output line plus a ``lanehouse`` member. It is put together from bytes, because the body is
JSON already and need not be read again. Law: lines out = rows in, whatever became of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

# What the row's HTTP status would have been, for outcomes that have no answer of a provider.
_ERROR_MESSAGES = {
    "batch_expired": "The batch's window ended before this row was done.",
    "batch_cancelled": "The batch was cancelled before this row was done.",
    "provider_error": "The provider could not answer this row.",
    "result_missing": "The provider ended the job without an answer for this row.",
    "lane_minimum": "The lane takes no job this small.",
    "context_length_exceeded": "The row is longer than the model allows.",
    "content_filtered": "The provider's content filter stopped this row.",
    "model.deprecated_post_quote": "The model was retired after the quote.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StitchedRow:
    """What a result line says of one row. ``custom_id_json`` is JSON text; ``body`` is empty when there is none."""

    batch_public_id: str
    row: int
    custom_id_json: bytes
    succeeded: bool
    code: str
    status_code: int
    body: bytes
    lane_id: str
    re_dispatch_count: int
    charge_pico_usd: int
    # What may be used instead of a model that was retired; None where nothing is named.
    alternative: str | None = None


def success_line(
    batch_number: bytes,
    row: int,
    custom_id_json: bytes,
    status_code: int,
    body: bytes,
    lane_id_json: bytes,
    re_dispatch_count: int,
    charge_pico_usd: int,
) -> bytes:
    """Give :func:`result_line` of a row that succeeded, which nearly every row does, put together at once.

    It takes 0.9 us where the general way takes 4. ``batch_number`` is the batch's public id without its prefix.
    """
    return (
        b'{"id":"batch_req_%b_%d","custom_id":%b,"response":{"status_code":%d,"request_id":"req_%b_%d","body":%b},'
        b'"error":null,"lanehouse":{"lane_id":%b,"re_dispatch_count":%d,"charge_pico_usd":%d}}\n'
        % (
            batch_number,
            row,
            custom_id_json,
            status_code,
            batch_number,
            row,
            body,
            lane_id_json,
            re_dispatch_count,
            charge_pico_usd,
        )
    )


def request_id(batch_public_id: str, row: int) -> str:
    """Give our id of one row's request; the provider's own is never shown."""
    return f"req_{batch_public_id.removeprefix('batch_')}_{row}"


def result_line(row: StitchedRow) -> bytes:
    """Give one line of the results, LF included.

    A row that got an answer has it in ``response``, also when the answer is an error; a row that never ran has a null
    ``response``. Where OpenAI leaves ``error`` null beside a refused answer, we name our stable code: a client that
    looks at ``error`` alone must not take a failure for a success.
    """
    name = f"batch_req_{row.batch_public_id.removeprefix('batch_')}_{row.row}".encode()
    lanehouse = orjson.dumps(
        {
            "lane_id": row.lane_id,
            "re_dispatch_count": row.re_dispatch_count,
            "charge_pico_usd": row.charge_pico_usd,
        }
    )
    if row.body:
        answer = b'{"status_code":%d,"request_id":"%s","body":%s}' % (
            row.status_code,
            request_id(row.batch_public_id, row.row).encode(),
            row.body,
        )
    else:
        answer = b"null"
    return b'{"id":"%s","custom_id":%s,"response":%s,"error":%s,"lanehouse":%s}\n' % (
        name,
        row.custom_id_json,
        answer,
        _error(row),
        lanehouse,
    )


def _error(row: StitchedRow) -> bytes:
    if row.succeeded:
        return b"null"
    message = _ERROR_MESSAGES.get(row.code, "The row was not done.")
    if row.alternative is None:
        return orjson.dumps({"code": row.code, "message": message})
    message = f"{message} Use {row.alternative} instead."
    return orjson.dumps({"code": row.code, "message": message, "alternative": row.alternative})
