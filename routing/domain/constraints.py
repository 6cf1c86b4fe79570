"""What a customer's workflow allows of a lane: where it runs, who runs it, what it may charge, how soon it ends.

A constraint never makes a lane better or worse; it takes it out, and says so by name.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Self

from catalog.domain.records import Lane, LaneHealth

DAY_MINUTES = 1_440


class ConstraintCode(enum.StrEnum):
    """Why a workflow took a lane out."""

    REGION_NOT_ALLOWED = "region_not_allowed"
    PROVIDER_NOT_ALLOWED = "provider_not_allowed"
    PROVIDER_DENIED = "provider_denied"
    ABOVE_HIGHEST_RATE = "above_highest_rate"
    FINISHES_TOO_LATE = "finishes_too_late"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneConstraints:
    """A workflow's constraints; empty or None allows all.

    The highest rates are compared with the lane's sell rates of input and of output tokens, so whether a lane is
    allowed never hangs on the file; equal is allowed. ``finish_by_minutes`` is compared with the lane's p95 completion
    (its stated prior where nobody has measured it); equal is allowed. A provider that is allowed and denied is denied.
    """

    regions: tuple[str, ...] = ()
    providers_allowed: tuple[str, ...] = ()
    providers_denied: tuple[str, ...] = ()
    max_input_rate_micro_usd_per_mtok: int | None = None
    max_output_rate_micro_usd_per_mtok: int | None = None
    finish_by_minutes: int | None = None

    def of_place(self) -> Self:
        """Give what still holds once a quote is accepted: where rows may go, and to whom.

        The charge of a row no longer changes then, and its time is the batch's window.
        """
        return replace(
            self,
            max_input_rate_micro_usd_per_mtok=None,
            max_output_rate_micro_usd_per_mtok=None,
            finish_by_minutes=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """The constraint that takes a lane out: its code, its name in the API, and a sentence's part for people."""

    code: ConstraintCode
    constraint: str
    text: str


def breach_of(constraints: LaneConstraints, lane: Lane, health: LaneHealth) -> Breach | None:
    """Give the first constraint that a lane does not meet, or None."""
    return (
        _breach_of_place(constraints, lane)
        or _breach_of_rate(constraints, lane)
        or _breach_of_time(constraints, health)
    )


def _breach_of_place(constraints: LaneConstraints, lane: Lane) -> Breach | None:
    if constraints.regions and lane.region not in constraints.regions:
        return Breach(
            code=ConstraintCode.REGION_NOT_ALLOWED,
            constraint="regions",
            text=f"its region {lane.region} is not one the workflow allows ({', '.join(constraints.regions)})",
        )
    if lane.provider in constraints.providers_denied:
        return Breach(
            code=ConstraintCode.PROVIDER_DENIED,
            constraint="providers_denied",
            text=f"the workflow denies the provider {lane.provider}",
        )
    if constraints.providers_allowed and lane.provider not in constraints.providers_allowed:
        return Breach(
            code=ConstraintCode.PROVIDER_NOT_ALLOWED,
            constraint="providers_allowed",
            text=f"the workflow allows only the providers {', '.join(constraints.providers_allowed)}",
        )
    return None


def _breach_of_rate(constraints: LaneConstraints, lane: Lane) -> Breach | None:
    if lane.rate_card is None:
        return None
    sell = lane.rate_card.sell
    for kind, rate, highest in (
        ("input", sell.input_rate_micro_usd_per_mtok, constraints.max_input_rate_micro_usd_per_mtok),
        ("output", sell.output_rate_micro_usd_per_mtok, constraints.max_output_rate_micro_usd_per_mtok),
    ):
        if highest is not None and rate > highest:
            return Breach(
                code=ConstraintCode.ABOVE_HIGHEST_RATE,
                constraint=f"max_{kind}_rate_micro_usd_per_mtok",
                text=f"its {kind} rate is {rate} micro-USD per Mtok, the workflow allows {highest}",
            )
    return None


def _breach_of_time(constraints: LaneConstraints, health: LaneHealth) -> Breach | None:
    minutes = constraints.finish_by_minutes
    if minutes is None or health.p95_completion_minutes <= minutes:
        return None
    return Breach(
        code=ConstraintCode.FINISHES_TOO_LATE,
        constraint="finish_by_minutes",
        text=f"its p95 completion is {health.p95_completion_minutes} min, the workflow allows {minutes}",
    )
