"""The records of a quote: what it promises, why, and which rows go where. Money is micro-USD unless named pico."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from catalog.domain.records import Endpoint, LaneHealth, Rates
from routing.domain.parameters.judgement import SaidParameter
from routing.domain.placement import RowPlacement
from routing.domain.scoring import WorkflowProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteEstimate:
    """The figures of a whole quote. Totals (total, low, high, ceiling, reservation) include all fees."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCharge:
    """One group's figures **without** fees, and the tokens each was priced from."""

    input_tokens: int
    output_tokens: int
    low_input_tokens: int
    low_output_tokens: int
    high_input_tokens: int
    high_output_tokens: int
    ceiling_input_tokens: int
    ceiling_output_tokens: int
    usage_charge_micro_usd: int
    low_micro_usd: int
    high_micro_usd: int
    ceiling_micro_usd: int
    reservation_micro_usd: int
    sync_charge_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedLane:
    """One sub-lane as quoted. ``lane_index`` counts over the whole quote and is what :class:`RowPlacement` names.

    ``dropped`` and ``mapped`` say which parameters of its rows the lane leaves out, or sends in a form of its own.
    ``sell`` are the rates this quote charges: the primary lane's, for every lane of a group. Usage charges of a
    group's lanes add up to the group's.
    """

    lane_index: int
    group_index: int
    lane_id: str
    model_slug: str
    provider: str
    region: str
    model_id: str
    model_snapshot: str
    row_count: int
    input_tokens: int
    output_tokens: int
    sell: Rates
    list: Rates
    usage_charge_micro_usd: int
    fee_micro_usd: int
    health: LaneHealth
    score_micro_usd: int
    dropped: tuple[SaidParameter, ...] = ()
    mapped: tuple[SaidParameter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedCandidate:
    """One lane as judged: its terms where it was eligible, else a reason code and a sentence.

    ``sell`` is None where it has no rate.
    """

    lane_id: str
    eligible: bool
    reason: str | None
    reason_text: str | None
    constraint: str | None
    sell: Rates | None
    health: LaneHealth
    charge_micro_usd: int
    latency_penalty_micro_usd: int
    error_penalty_micro_usd: int
    score_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExplanation:
    """Why a group's lanes were chosen. ``candidates`` hold what ``text`` says, and what it leaves out."""

    model_slug: str
    chosen_lane_ids: tuple[str, ...]
    runner_up_lane_id: str | None
    margin_micro_usd: int | None
    candidates: tuple[QuotedCandidate, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedGroup:
    """The rows that resolve to one snapshot, with the pins the quote binds: primary lane, sell rates, rate version."""

    group_index: int
    model_slug: str
    model_snapshot: str
    primary_lane_id: str
    rate_version_id: int
    sell: Rates
    row_count: int
    charge: GroupCharge
    lanes: tuple[QuotedLane, ...]
    explanation: GroupExplanation


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotePlan:
    """A whole quote before it is stored: figures, pins, reasons, and where each row lies and goes.

    ``fee_micro_usd`` is the fee of one sub-lane; ``learned_version`` names what settled rows had taught.
    ``timings_ns`` has the nanoseconds of each step by name.
    """

    endpoint: Endpoint
    workflow: WorkflowProfile
    fee_micro_usd: int
    margin_basis_points: int
    quoted_at: datetime
    catalog_version: int
    sla_version: int
    learned_version: int
    sla_snapshot_at: datetime
    row_count: int
    estimate: QuoteEstimate
    groups: tuple[QuotedGroup, ...]
    placement: RowPlacement
    timings_ns: Mapping[str, int] = field(default_factory=dict)

    @property
    def model_count(self) -> int:
        """Number of model groups."""
        return len(self.groups)

    @property
    def lanes(self) -> tuple[QuotedLane, ...]:
        """All quoted lanes; position = ``lane_index``."""
        return tuple(lane for group in self.groups for lane in group.lanes)
