"""Shapes of routing's API: what comes in, and what the published OpenAPI says comes out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Field, Schema

from routing.error_schemas import ErrorBodyOut


class QuoteCommand(Schema):
    """The body of `POST /v1/quotes/model` for a file that was uploaded before."""

    input_file_id: str


class ExpiresAfter(Schema, extra="forbid"):
    """How long files are kept from when they are made: an hour to 30 days."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=3_600, le=2_592_000, strict=True)]


class BatchCreate(Schema, extra="forbid"):
    """The body of `POST /v1/batches`: the quote to accept (`quote_id` or `metadata.quote_id`), or an uploaded file."""

    quote_id: str | None = None
    input_file_id: str | None = None
    endpoint: str | None = None
    completion_window: str | None = None
    metadata: dict[str, Any] | None = None
    workflow: str | None = None
    output_expires_after: ExpiresAfter | None = None


class ConstraintsBody(Schema, extra="forbid"):
    """What a lane must meet; an empty list or null allows all.

    The highest rates are compared with the lane's sell rates, in micro-USD per million tokens; `finish_by_minutes` with
    its p95 completion. Equal is allowed.
    """

    regions: list[str] = Field(default_factory=list)
    providers_allowed: list[str] = Field(default_factory=list)
    providers_denied: list[str] = Field(default_factory=list)
    max_input_rate_micro_usd_per_mtok: int | None = None
    max_output_rate_micro_usd_per_mtok: int | None = None
    finish_by_minutes: int | None = None


class WorkflowUpdate(Schema, extra="forbid"):
    """The body of `PATCH /v1/workflows/{workflow}`: what is not named stays; `constraints` are replaced as a whole."""

    penalty_micro_usd_per_minute: int | None = None
    penalty_micro_usd_per_percent: int | None = None
    fan_out: bool | None = None
    webhook_mode: Literal["gather", "each"] | None = None
    constraints: ConstraintsBody | None = None


class WorkflowCreate(WorkflowUpdate):
    """The body of `POST /v1/workflows`: what is not named is as in the default profile."""

    name: str


class WorkflowOut(Schema):
    """A workflow as it is now; `version` counts its edits from 1."""

    id: str
    object: str
    name: str
    version: int
    created_at: int
    updated_at: int
    archived_at: int | None
    penalty_micro_usd_per_minute: int
    penalty_micro_usd_per_percent: int
    fan_out: bool
    webhook_mode: Literal["gather", "each"]
    constraints: ConstraintsBody


class WorkflowListOut(Schema):
    """A page of workflows."""

    object: str
    data: list[WorkflowOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


class WorkflowDeletedOut(Schema):
    """A workflow that was archived."""

    id: str
    object: str
    deleted: bool


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
    """One lane as it was judged for a model group. `constraint` names the workflow's, where that took the lane out.

    `score_micro_usd` = `charge_micro_usd` (tokens x rates / 1,000,000, each rounded half to even, and one fee)
    + `latency_penalty_micro_usd` (`p95_completion_minutes` x the penalty per minute)
    + `error_penalty_micro_usd` (`error_ppm` x the penalty per percent / 10,000, rounded down).
    """

    lane_id: str
    eligible: bool
    reason: str | None
    reason_text: str | None
    constraint: str | None
    input_rate_micro_usd_per_mtok: int | None
    output_rate_micro_usd_per_mtok: int | None
    p95_completion_minutes: int
    error_ppm: int
    sample_count: int
    charge_micro_usd: int | None
    latency_penalty_micro_usd: int | None
    error_penalty_micro_usd: int | None
    score_micro_usd: int | None


class ExplanationOut(Schema):
    """Why a model group goes where it goes. The first chosen lane is its primary lane.

    At that lane's rates the tokens give the group's figures without fees. Its part of the reservation is
    min(ceiling, max(high, estimate x (1 + `margin_basis_points` / 10,000))), rounded up.
    """

    model: str
    row_count: int
    input_tokens: int
    output_tokens: int
    low_input_tokens: int
    low_output_tokens: int
    high_input_tokens: int
    high_output_tokens: int
    ceiling_input_tokens: int
    ceiling_output_tokens: int
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


class ScoringOut(Schema):
    """What lanes were judged by: the workflow's penalties, the fee of one lane, the margin on the hold."""

    penalty_micro_usd_per_minute: int
    penalty_micro_usd_per_percent: int
    fan_out: bool
    fee_micro_usd: int
    margin_basis_points: int


class QuoteOut(Schema):
    """A quote. `workflow_version` 0 is the house's own profile."""

    id: str
    object: str
    status: Literal["ready", "accepted", "expired"]
    input_file_id: str | None
    retry_of: str | None
    created_at: int
    expires_at: int
    workflow: str
    workflow_version: int
    row_count: int
    model_count: int
    catalog_version: int
    learned_version: int
    sla_snapshot_at: int
    available_micro_usd: int
    sufficient_credit: bool
    estimate: EstimateOut
    lanes: list[QuoteLaneOut]
    scoring: ScoringOut
    explanation: list[ExplanationOut]
    dropped: list[DroppedOut]
    timings_ms: dict[str, float]
    batch_id: str | None


class ProgressOut(Schema):
    """How far a file has been read."""

    read_bytes: int
    total_bytes: int


class UnpricedQuoteOut(Schema):
    """A quote of an uploaded file that is still read (`progress`), or was refused (`error`, as in the envelope)."""

    id: str
    object: str
    status: Literal["pending", "failed"]
    batch_id: str | None
    input_file_id: str | None
    retry_of: str | None
    created_at: int
    expires_at: None
    workflow: str
    workflow_version: int
    progress: ProgressOut | None
    error: ErrorBodyOut | None


class BatchLaneOut(Schema):
    """One sub-lane of a batch.

    `reason` says why it waits; where its lane is full with the place in line, as in
    `enqueued_tokens_limit: place 2 in line`, which changes while it waits.
    """

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


class BatchErrorOut(Schema):
    """Why a file was not taken: `line` as it stands in the file, from 1, where a row is at fault."""

    code: str
    line: int | None
    message: str
    param: str | None


class BatchErrorsOut(Schema):
    """Up to 100 of them."""

    object: str
    data: list[BatchErrorOut]


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
    errors: BatchErrorsOut | None
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
    retry_of: str | None
    files_deleted_at: int | None
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
