"""Rows of a payload, read in blocks."""

from __future__ import annotations

import io
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from routing.domain.placement import RowPlacement
from routing.payloads import Payload, Rows

# Some rows are longer than the block that is read at once.
LENGTHS = st.lists(st.sampled_from([0, 1, 100, 100_000, 300_000]), min_size=1, max_size=20)


def payload_of(lines: list[bytes]) -> Payload:
    lengths = np.array([len(line) for line in lines], dtype=np.int32)
    zeros = np.zeros(len(lines), dtype=np.int32)
    placement = RowPlacement(
        offsets=np.cumsum(lengths + 1, dtype=np.int64) - lengths - 1,
        lengths=lengths,
        input_tokens=zeros,
        group_indexes=zeros,
        lane_indexes=zeros,
    )
    return Payload(io.BytesIO(b"".join(line + b"\n" for line in lines)), placement)


def line(number: int, length: int) -> bytes:
    """Give a line as one of several writers would write it."""
    body = {"text": "x" * length, "n": number}
    named = {"custom_id": f'row "{number}"' if number % 3 == 1 else f"row {number}"}
    separators = (",", ":") if number % 2 else (", ", ": ")
    return json.dumps(
        {**named, "body": body} if number % 5 else {"body": body, **named}, separators=separators
    ).encode()


@given(LENGTHS, st.data())
def test_any_rows_are_read_as_they_were_written(lengths: list[int], data: st.DataObject) -> None:
    payload = payload_of([line(number, length) for number, length in enumerate(lengths)])
    chosen = data.draw(st.sets(st.integers(0, len(lengths) - 1)).map(sorted))
    rows: Rows = np.array(chosen, dtype=np.int64)
    bodies = [{name: json.loads(bytes(value)) for name, value in body.items()} for body in payload.bodies(rows)]
    assert bodies == [{"text": "x" * lengths[row], "n": row} for row in chosen]
    assert [json.loads(text) for text in payload.custom_ids_json(rows)] == [
        json.loads(line(row, 0))["custom_id"] for row in chosen
    ]
