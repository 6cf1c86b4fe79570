"""A group's asks against one lane: refused, dropped, mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from routing.domain.parameters.lanes import Family, claude_traits
from routing.domain.parameters.needs import NeedCount, Needs
from routing.domain.parameters.table import Need, Rule, Treatment, claude_rule


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedParameter:
    """What a lane cannot carry. ``reason`` says it whole, as in "body.seed is not known on this lane"."""

    parameter: str
    reason: str
    row_count: int
    first_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidParameter:
    """What a lane drops, or sends in a form of its own; ``how`` is empty for what is dropped."""

    parameter: str
    row_count: int
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneJudgement:
    """What a lane makes of a group's asks. A lane with anything in ``refused``, first row first, is not eligible."""

    refused: tuple[RefusedParameter, ...] = ()
    dropped: tuple[SaidParameter, ...] = ()
    mapped: tuple[SaidParameter, ...] = ()


_CARRIES_ALL = LaneJudgement()
_OPENAI_SHAPED = frozenset({Family.OPENAI, Family.AZURE})


def judge(family: Family, model_id: str, needs: Mapping[Need, NeedCount]) -> LaneJudgement:
    """Give what a lane refuses, drops and says of what a group's rows ask.

    Args:
        family: The lane's family.
        model_id: The lane's spelling of the pin; tells what the model takes.
        needs: From ``gather_needs``, over the rows of the group.
    """
    if family in _OPENAI_SHAPED or not needs:
        return _CARRIES_ALL
    traits = claude_traits(model_id)
    found = [(need, count, claude_rule(need, traits, family)) for need, count in needs.items()]
    refused = [
        RefusedParameter(
            parameter=f"body.{need.parameter}",
            reason=f"body.{need.parameter} {rule.words}",
            row_count=count.row_count,
            first_position=count.first_position,
        )
        for need, count, rule in found
        if rule.treatment is Treatment.REFUSE
    ]
    refused.sort(key=lambda each: (each.first_position, each.reason))
    return LaneJudgement(
        refused=tuple(refused),
        dropped=_said(found, Treatment.DROP),
        mapped=_said(found, Treatment.MAP),
    )


@lru_cache(maxsize=1_024)
def first_refusal(family: Family, model_id: str, needs: Needs) -> str | None:
    """Give why a lane cannot carry one row, as a sentence part; None where it can."""
    if family in _OPENAI_SHAPED or not needs:
        return None
    traits = claude_traits(model_id)
    for need in sorted(needs):
        rule = claude_rule(need, traits, family)
        if rule.treatment is Treatment.REFUSE:
            return f"body.{need.parameter} {rule.words}"
    return None


def _said(found: list[tuple[Need, NeedCount, Rule]], treatment: Treatment) -> tuple[SaidParameter, ...]:
    said = (
        SaidParameter(parameter=f"body.{need.parameter}", row_count=count.row_count, how=rule.words)
        for need, count, rule in found
        if rule.treatment is treatment and (rule.words or treatment is Treatment.DROP)
    )
    return tuple(sorted(said, key=lambda each: (each.parameter, each.how)))
