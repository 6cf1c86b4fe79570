"""Why a group goes where it goes, in words. Every figure behind the words stands in the answer beside them."""

from __future__ import annotations

from collections.abc import Sequence

from routing.domain.scoring import PPM_PER_PERCENT, Candidate, Ranking
from routing.domain.splitting import Share

_MICRO = 1_000_000
_NAMED_REJECTED = 3


def explain(model_slug: str, ranking: Ranking, shares: Sequence[Share], fill_percent: int) -> str:
    """Give the reasons of a group's lanes in a few short sentences, amounts in USD with all six decimals.

    Args:
        model_slug: The group's model.
        ranking: At least one lane is eligible.
        shares: What the lanes got, best lane first.
        fill_percent: How full a lane is made before rows go to the next one.
    """
    best, second = ranking.eligible[0], ranking.runner_up
    if second:
        lead = f"{best.lane.lane_id} has the lowest score of {len(ranking.eligible)} lanes: {_terms(best)}."
        lead += f" Next is {second.lane.lane_id}, {_behind(ranking.margin_micro_usd)}."
    elif ranking.rejected:
        lead = f"{best.lane.lane_id} is the only lane that can take these rows. Its score: {_terms(best)}."
    else:
        lead = f"{best.lane.lane_id} is the only lane of {model_slug}. Its score: {_terms(best)}."
    return " ".join(part for part in (lead, _fanned_out(shares, fill_percent), _left_out(ranking.rejected)) if part)


def _terms(candidate: Candidate) -> str:
    health = candidate.health
    unmeasured = "" if health.sample_count else ", a stated prior because it has not been measured"
    return (
        f"{_usd(candidate.score_micro_usd)} = {_usd(candidate.charge_micro_usd)} charge with its fee"
        f" + {_usd(candidate.latency_penalty_micro_usd)} for {health.p95_completion_minutes} min (p95)"
        f" + {_usd(candidate.error_penalty_micro_usd)} for {_percent(health.error_ppm)} errors{unmeasured}"
    )


def _behind(margin_micro_usd: int | None) -> str:
    return f"{_usd(margin_micro_usd)} behind" if margin_micro_usd else "with an equal score: the stable order decided"


def _fanned_out(shares: Sequence[Share], fill_percent: int) -> str:
    if len(shares) == 1:
        return ""
    first, rest = shares[0], shares[1]
    count = rest.stop - rest.start
    rows = "1 row goes" if count == 1 else f"{count} rows go"
    lane_id, other_id = first.candidate.lane.lane_id, rest.candidate.lane.lane_id
    return f"All rows would fill {lane_id} over {fill_percent} %, so {rows} to {other_id}."


def _left_out(rejected: Sequence[Candidate]) -> str:
    if not rejected:
        return ""
    named = "; ".join(f"{item.lane.lane_id} ({item.reason_text})" for item in rejected[:_NAMED_REJECTED])
    more = f"; and {len(rejected) - _NAMED_REJECTED} more" if len(rejected) > _NAMED_REJECTED else ""
    return f"Left out: {named}{more}."


def _usd(micro_usd: int) -> str:
    return f"${micro_usd // _MICRO}.{micro_usd % _MICRO:06}"


def _percent(error_ppm: int) -> str:
    return f"{error_ppm // PPM_PER_PERCENT}.{error_ppm % PPM_PER_PERCENT:04}".rstrip("0").rstrip(".") + " %"
