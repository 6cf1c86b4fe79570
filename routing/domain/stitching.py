"""One results file from all rows' outcomes: each row once, in the order of the input.

The line is OpenAI's batch output line plus a ``lanehouse`` member. It is put together from bytes, because the body is
JSON already and need not be read again. Law: lines out = rows in, whatever became of them.
"""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessFrame:
    """What lines of successes share that one job gave with one status: all but numbers, ``custom_id`` and body."""

    before_request: bytes
    before_charge: bytes


def success_frame(*, batch_number: bytes, status_code: int, lane_id: str, re_dispatch_count: int) -> SuccessFrame:
    """Give the frame of a job's successes; ``batch_number`` is the batch's public id without its prefix."""
    return SuccessFrame(
        before_request=b',"response":{"status_code":%d,"request_id":"req_%b_' % (status_code, batch_number),
        before_charge=b'},"error":null,"lanehouse":{"lane_id":%b,"re_dispatch_count":%d,"charge_pico_usd":'
        % (orjson.dumps(lane_id), re_dispatch_count),
    )


def success_lines(
    batch_number: bytes,
    rows: Sequence[int],
    custom_ids_json: Sequence[bytes],
    frames: Sequence[SuccessFrame],
    bodies: Sequence[bytes],
    charges_pico_usd: Sequence[int],
) -> bytes:
    """Give :func:`result_line` of each of these rows, one behind another; they succeeded, as nearly all rows do.

    All lines are one join over their parts, which are laid out by kind: 0.5 us a row, the general way takes 4.
    """
    row_count = len(rows)
    numbers = [b"%d" % row for row in rows]
    parts = [b""] * (11 * row_count)
    parts[0::11] = [b'{"id":"batch_req_%b_' % batch_number] * row_count
    parts[1::11] = numbers
    parts[2::11] = [b'","custom_id":'] * row_count
    parts[3::11] = custom_ids_json
    parts[4::11] = [frame.before_request for frame in frames]
    parts[5::11] = numbers
    parts[6::11] = [b'","body":'] * row_count
    parts[7::11] = bodies
    parts[8::11] = [frame.before_charge for frame in frames]
    parts[9::11] = [b"%d" % charge for charge in charges_pico_usd]
    parts[10::11] = [b"}}\n"] * row_count
    return b"".join(parts)


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
