"""What may go wrong with a batch that runs: late, stuck, its polls overdue, near its ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from django.db.models import BooleanField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet

from accounts.selectors import DATABASE_NOW
from routing.models import ENDED_STATUSES, Batch, JobState, ProviderJob, SubLane

_LATE_BEFORE_THE_END: Final = timedelta(hours=2)
_STEP_IS_LATE_AFTER: Final = timedelta(minutes=5)
_POLL_IS_LATE_AFTER: Final = timedelta(minutes=2)
_TRIES_IN_VAIN: Final = 5
# Of the ceiling, in pico-USD for each micro-USD: nine tenths.
_NEAR_PICO_PER_MICRO: Final = 900_000

RISK_WORDS: Final[Mapping[str, str]] = {
    "late": "Late",
    "stuck": "Stuck",
    "poll": "Overdue poll",
    "ceiling": "Near ceiling",
}
RISK_REASONS: Final[Mapping[str, str]] = {
    "late": "its promise is over, or its window ends within 2 h",
    "stuck": "a step is over 5 min late, was tried 5 times, or waits for a decision",
    "poll": "a provider should have been asked over 2 min ago",
    "ceiling": "nine tenths of its ceiling are used",
}


def _is_free() -> Q:
    """No worker holds the row now."""
    return Q(lease_until=None) | Q(lease_until__lte=DATABASE_NOW)


def _conditions() -> dict[str, Q]:
    step_is_late = Q(due_at__lt=DATABASE_NOW - _STEP_IS_LATE_AFTER) & _is_free()
    jobs = ProviderJob.objects.filter(batch=OuterRef("pk")).exclude(state__in=(JobState.COLLECTED, JobState.ABANDONED))
    vain = (
        Q(unclear_since__isnull=False) | Q(try_count__gte=_TRIES_IN_VAIN) | (step_is_late & ~Q(state=JobState.RUNNING))
    )
    poll_is_late = Q(state=JobState.RUNNING, due_at__lt=DATABASE_NOW - _POLL_IS_LATE_AFTER) & _is_free()
    return {
        "late": Q(expires_at__lt=DATABASE_NOW + _LATE_BEFORE_THE_END) | Q(finish_by__lt=DATABASE_NOW),
        "stuck": step_is_late
        | Exists(SubLane.objects.filter(step_is_late, batch=OuterRef("pk")))
        | Exists(jobs.filter(vain)),
        "poll": Q(Exists(jobs.filter(poll_is_late))),
        "ceiling": Q(collected_charge_pico_usd__gte=F("ceiling_micro_usd") * _NEAR_PICO_PER_MICRO),
    }


def at_risk(batches: QuerySet[Batch], risk: str) -> QuerySet[Batch]:
    """Give those of the batches that have not ended and are at a risk (a key of ``RISK_WORDS``, or ``any``)."""
    conditions = _conditions()
    wanted = Q()
    for name in conditions if risk == "any" else [risk]:
        wanted |= conditions[name]
    return batches.exclude(status__in=ENDED_STATUSES).filter(wanted)


def risks_of(batches: Sequence[Batch]) -> dict[int, list[str]]:
    """Give the risks of each of some batches by its key; one query, whatever their number."""
    found: dict[int, list[str]] = {batch.pk: [] for batch in batches}
    keys = [batch.pk for batch in batches if batch.status not in ENDED_STATUSES]
    if keys:
        said = {
            f"is_{risk}": ExpressionWrapper(condition, output_field=BooleanField())
            for risk, condition in _conditions().items()
        }
        for row in Batch.objects.filter(pk__in=keys).annotate(**said).values("pk", *said):
            found[row["pk"]] = [risk for risk in RISK_WORDS if row[f"is_{risk}"]]
    return found
