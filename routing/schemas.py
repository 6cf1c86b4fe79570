"""Shapes of routing's API: what comes in, and what the published OpenAPI says comes out."""

from __future__ import annotations

from typing import Any

from ninja import Schema


class QuoteCommand(Schema):
    """The body of `POST /v1/quotes/model` for a file that was uploaded before."""

    input_file_id: str


class BatchCreate(Schema, extra="forbid"):
    """The body of `POST /v1/batches`: the quote to accept, by `quote_id` or by `metadata.quote_id`."""

    quote_id: str | None = None
    input_file_id: str | None = None
    endpoint: str | None = None
    completion_window: str | None = None
    metadata: dict[str, Any] | None = None


class DuplicateOut(Schema):
    """One `custom_id` that stands more than once: its rows from 0, its lines from 1."""

    custom_id: str
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


class ErrorBodyOut(Schema):
    """OpenAI's four members; for a file with wrong rows also the first error's place and up to 100 errors."""

    message: str
    type: str
    param: str | None
    code: str
    row: int | None = None
    line: int | None = None
    custom_id: str | None = None
    duplicates: list[DuplicateOut] | None = None
    duplicate_id_count: int | None = None
    errors: list[RowErrorOut] | None = None
    error_count: int | None = None


class ErrorOut(Schema):
    """The standard envelope."""

    error: ErrorBodyOut


class EstimateOut(Schema):
    """What a quote expects and what it binds. Every total holds the fees; the synchronous charge has none."""

    input_tokens: int
    output_tokens: int
    usage_charge_micro_usd: int
    fee_micro_usd: int
    total_micro_usd: int
    low_micro_usd: int
    high_micro_usd: int
    ceiling_micro_usd: int
    reservation_micro_usd: int
    sync_charge_micro_usd: int


class QuoteLaneOut(Schema):
    """One lane of a quote."""

    lane_id: str
    model: str
    provider: str
    region: str
    model_id: str
    model_snapshot: str
    row_count: int
    input_tokens: int
    output_tokens: int
    input_rate_micro_usd_per_mtok: int
    output_rate_micro_usd_per_mtok: int
    list_input_rate_micro_usd_per_mtok: int
    list_output_rate_micro_usd_per_mtok: int
    usage_charge_micro_usd: int
    fee_micro_usd: int
    p95_dispatch_ms: int
    p50_completion_minutes: int
    p95_completion_minutes: int
    recent_error_rate_24h: float
    sample_count: int
    score_micro_usd: int


class CandidateOut(Schema):
    """One lane as it was judged for a model group."""

    lane_id: str
    eligible: bool
    reason: str | None
    reason_text: str | None
    charge_micro_usd: int | None
    latency_penalty_micro_usd: int | None
    error_penalty_micro_usd: int | None
    score_micro_usd: int | None


class ExplanationOut(Schema):
    """Why a model group goes where it goes."""

    model: str
    chosen_lane_ids: list[str]
    runner_up_lane_id: str | None
    margin_micro_usd: int | None
    candidates: list[CandidateOut]
    text: str


class DroppedOut(Schema):
    """A parameter that a lane leaves out of its rows because it cannot change an answer there."""

    lane_id: str
    model: str
    parameter: str
    row_count: int


class QuoteOut(Schema):
    """A quote."""

    id: str
    object: str
    status: str
    created_at: int
    expires_at: int
    workflow: str
    row_count: int
    model_count: int
    catalog_version: int
    sla_snapshot_at: int
    available_micro_usd: int
    sufficient_credit: bool
    estimate: EstimateOut
    lanes: list[QuoteLaneOut]
    explanation: list[ExplanationOut]
    dropped: list[DroppedOut]
    timings_ms: dict[str, float]
    batch_id: str | None


class BatchLaneOut(Schema):
    """One sub-lane of a batch."""

    lane_id: str
    model: str
    status: str
    reason: str | None
    row_count: int
    completed_count: int
    failed_count: int
    moved_out_count: int
    re_dispatched_count: int
    reported_count: int
    charge_micro_usd: int | None


class BatchOut(Schema):
    """OpenAI's batch object, and ours beside it."""

    id: str
    object: str
    endpoint: str
    model: str | None
    input_file_id: str
    completion_window: str
    status: str
    created_at: int
    errors: dict[str, Any] | None
    output_file_id: str | None
    error_file_id: str | None
    in_progress_at: int | None
    expires_at: int | None
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: dict[str, int]
    usage: dict[str, Any] | None
    metadata: dict[str, str] | None
    quote_id: str
    lanes: list[BatchLaneOut]
    receipt_id: str | None
    charge_micro_usd: int | None


class BatchListOut(Schema):
    """A page of batches."""

    object: str
    data: list[BatchOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileOut(Schema):
    """OpenAI's file object."""

    id: str
    object: str
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: str
