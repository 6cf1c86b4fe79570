"""Choosing a lane: who may take a group, what each would cost the customer in money, waiting and failures.

All terms are integers in micro-USD, so that a candidate's score can be added up by hand from the answer alone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from billing.domain.money import round_pico_to_micro
from catalog.domain.records import Lane, LaneHealth, Rotation, SlaSnapshot
from routing.domain.constraints import LaneConstraints, breach_of
from routing.domain.parameters.judgement import LaneJudgement

PPM_PER_PERCENT = 10_000
PUBLIC_ROTATION_REASONS = frozenset({"no_adapter", "retired"})


class WebhookMode(enum.StrEnum):
    """How a customer hears of low-cost batches: gathered each 30 s, or one event each at once."""

    GATHER = "gather"
    EACH = "each"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowProfile:
    """What a customer says waiting and failing are worth, what a lane must meet, and how to tell of batches.

    ``version`` counts the edits of a customer's workflow from 1; 0 is the house's own profile, ``default``.
    """

    name: str = "default"
    version: int = 0
    penalty_micro_usd_per_minute: int = 500
    penalty_micro_usd_per_percent: int = 5_000
    fan_out: bool = True
    webhook_mode: WebhookMode = WebhookMode.GATHER
    constraints: LaneConstraints = field(default_factory=LaneConstraints)


class RejectionCode(enum.StrEnum):
    """Why a lane was not a candidate, beside the workflow's own constraints."""

    NO_ADAPTER = "no_adapter"
    OUT_OF_ROTATION = "out_of_rotation"
    DRAIN = "drain"
    NO_RATE = "no_rate"
    BELOW_MINIMUM_ROWS = "below_minimum_rows"
    UNSUPPORTED_PARAMETER = "unsupported_parameter"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDemand:
    """What one model group asks of a lane. ``input_tokens`` and ``output_tokens`` are estimates.

    ``judgements`` says by lane id what lanes make of the rows' parameters; a lane that is missing carries all.
    """

    row_count: int
    input_tokens: int
    output_tokens: int
    judgements: Mapping[str, LaneJudgement] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One lane judged for one group.

    ``score_micro_usd`` = ``charge_micro_usd`` (the lane's own sell rates, with one fee) + ``latency_penalty_micro_usd``
    + ``error_penalty_micro_usd``. A rejected lane has a ``reason`` code, a ``reason_text`` and zero terms;
    ``constraint`` names the workflow's constraint where that is the reason.
    """

    lane: Lane
    health: LaneHealth
    eligible: bool
    reason: str | None = None
    reason_text: str | None = None
    constraint: str | None = None
    charge_micro_usd: int = 0
    latency_penalty_micro_usd: int = 0
    error_penalty_micro_usd: int = 0
    score_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """All lanes of a group: the eligible ones best first, then the rejected ones by lane id."""

    eligible: tuple[Candidate, ...]
    rejected: tuple[Candidate, ...]

    @property
    def runner_up(self) -> Candidate | None:
        """The second best lane, if there is one."""
        return self.eligible[1] if len(self.eligible) > 1 else None

    @property
    def margin_micro_usd(self) -> int | None:
        """How much worse the runner-up scores, in micro-USD."""
        return self.eligible[1].score_micro_usd - self.eligible[0].score_micro_usd if self.runner_up else None


def rank_lanes(
    lanes: Sequence[Lane], sla: SlaSnapshot, workflow: WorkflowProfile, demand: GroupDemand, fee_micro_usd: int
) -> Ranking:
    """Judge every lane for a group: lowest score first, ties by charge and then by lane id.

    Args:
        lanes: All lanes that have the group's pin.
        sla: Health of the lanes; one that is missing gets the stated prior.
        workflow: The customer's penalties.
        demand: Rows and estimated tokens of the group.
        fee_micro_usd: The fee of one sub-lane.
    """
    candidates = [
        _judge(lane, sla.health(lane.model_slug, lane.lane_id), workflow, demand, fee_micro_usd) for lane in lanes
    ]
    eligible = [candidate for candidate in candidates if candidate.eligible]
    rejected = [candidate for candidate in candidates if not candidate.eligible]
    eligible.sort(key=lambda item: (item.score_micro_usd, item.charge_micro_usd, item.lane.lane_id))
    rejected.sort(key=lambda item: item.lane.lane_id)
    return Ranking(eligible=tuple(eligible), rejected=tuple(rejected))


class _Rejection(NamedTuple):
    code: str
    text: str
    constraint: str | None = None


def _judge(
    lane: Lane, health: LaneHealth, workflow: WorkflowProfile, demand: GroupDemand, fee_micro_usd: int
) -> Candidate:
    rejection = _rejection(lane, health, workflow.constraints, demand)
    card = lane.rate_card
    if rejection is not None:
        return Candidate(
            lane=lane,
            health=health,
            eligible=False,
            reason=rejection.code,
            reason_text=rejection.text,
            constraint=rejection.constraint,
        )
    assert card is not None, "a lane without a rate is rejected"
    charge_micro_usd = (
        round_pico_to_micro(demand.input_tokens * card.sell.input_rate_micro_usd_per_mtok)
        + round_pico_to_micro(demand.output_tokens * card.sell.output_rate_micro_usd_per_mtok)
        + fee_micro_usd
    )
    latency = health.p95_completion_minutes * workflow.penalty_micro_usd_per_minute
    errors = health.error_ppm * workflow.penalty_micro_usd_per_percent // PPM_PER_PERCENT
    return Candidate(
        lane=lane,
        health=health,
        eligible=True,
        charge_micro_usd=charge_micro_usd,
        latency_penalty_micro_usd=latency,
        error_penalty_micro_usd=errors,
        score_micro_usd=charge_micro_usd + latency + errors,
    )


def _public_reason(lane: Lane) -> str:
    """Give the reason where it is one of the house's codes; an operator's own words are for the staff."""
    return f" ({lane.rotation_reason})" if lane.rotation_reason in PUBLIC_ROTATION_REASONS else ""


def _rejection(lane: Lane, health: LaneHealth, constraints: LaneConstraints, demand: GroupDemand) -> _Rejection | None:
    """Give the first reason against a lane: its own state, then the workflow, then what the group asks."""
    own = _rejection_by_itself(lane)
    if own is not None:
        return own
    breach = breach_of(constraints, lane, health)
    if breach is not None:
        return _Rejection(breach.code, breach.text, breach.constraint)
    if demand.row_count < lane.minimum_rows:
        return _Rejection(
            RejectionCode.BELOW_MINIMUM_ROWS,
            f"it takes {lane.minimum_rows} rows or more, the group has {demand.row_count}",
        )
    judgement = demand.judgements.get(lane.lane_id)
    if judgement is not None and judgement.refused:
        return _Rejection(RejectionCode.UNSUPPORTED_PARAMETER, judgement.refused[0].reason)
    return None


def _rejection_by_itself(lane: Lane) -> _Rejection | None:
    if lane.rotation is Rotation.OUT:
        has_adapter = lane.rotation_reason != RejectionCode.NO_ADAPTER
        code = RejectionCode.OUT_OF_ROTATION if has_adapter else RejectionCode.NO_ADAPTER
        return _Rejection(code, f"out of rotation{_public_reason(lane)}")
    if lane.rotation is Rotation.DRAIN:
        return _Rejection(RejectionCode.DRAIN, "draining")
    if lane.rate_card is None:
        return _Rejection(RejectionCode.NO_RATE, "it has no rate that holds now")
    return None
