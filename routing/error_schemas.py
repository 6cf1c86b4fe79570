"""The published shape of a refusal."""

from __future__ import annotations

from typing import Any

from ninja import Schema


class DuplicateOut(Schema):
    """One `custom_id` that stands `count` times: its rows from 0, its lines from 1, up to 1,000 of them."""

    custom_id: str
    count: int
    rows: list[int]
    lines: list[int]


class RowErrorOut(Schema):
    """What is wrong with one row: `row` from 0 without blank lines, `line` as it stands in the file, from 1."""

    code: str
    message: str
    param: str | None
    row: int | None
    line: int | None
    custom_id: str | None


class RejectedLaneOut(Schema):
    """A lane that cannot take a model's rows, and why; `constraint` names the workflow's, where that took it out."""

    model: str
    lane_id: str
    reason: str
    reason_text: str
    constraint: str | None


class ErrorBodyOut(Schema):
    """OpenAI's four members; for a file with wrong rows also the first error's place and up to 100 errors.

    Where no lane can take the rows of a model: the first such model, and each lane of each such model with its reason.
    `doc_url` is where the documentation, on this server, says what the code means and what to do.
    A refused accept has a new `quote` where there can be one; a refusal for credit or for room has its figures.
    """

    message: str
    type: str
    param: str | None
    code: str
    doc_url: str | None = None
    row: int | None = None
    line: int | None = None
    custom_id: str | None = None
    duplicates: list[DuplicateOut] | None = None
    duplicate_id_count: int | None = None
    errors: list[RowErrorOut] | None = None
    error_count: int | None = None
    model: str | None = None
    rejected_lanes: list[RejectedLaneOut] | None = None
    successor: str | None = None
    alternative: str | None = None
    quote: dict[str, Any] | None = None
    estimate: dict[str, int] | None = None
    available_micro_usd: int | None = None
    required_micro_usd: int | None = None
    receivable_micro_usd: int | None = None
    stored_bytes: int | None = None
    stored_max_bytes: int | None = None


class ErrorOut(Schema):
    """The standard envelope."""

    error: ErrorBodyOut
