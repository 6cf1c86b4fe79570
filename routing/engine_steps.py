"""What the engine has to do next, as operators look at it: each row of its queues, due, claimed or overdue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet

from accounts.selectors import DATABASE_NOW
from ground.leases import Claimable
from routing.models import Batch, FilePricing, JobState, PricingState, ProviderJob, SubLane

STEPS_MAX_COUNT: Final = 100
_OVERDUE_AFTER: Final = timedelta(minutes=1)

QUEUE_WORDS: Final[Mapping[str, str]] = {
    "price": "Price a file",
    "start": "Cut into jobs",
    "submit": "Send a job",
    "poll": "Ask a provider",
    "collect": "Collect results",
    "finish": "Finish a batch",
}
STATE_WORDS: Final[Mapping[str, str]] = {
    "overdue": "Overdue",
    "due": "Due",
    "claimed": "At work",
    "later": "Later",
    "unclear": "Unclear",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """One row of a queue. ``token`` is a provider job's; ``batch_id`` is empty where there is no batch yet."""

    queue: str
    state: str
    what: str
    batch_id: str
    customer: str
    began_at: datetime | None
    due_at: datetime
    lease_until: datetime | None
    try_count: int
    error: str
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSteps:
    """The steps that are the longest due, and how many there are in each queue and state."""

    steps: tuple[EngineStep, ...]
    counts: Mapping[str, int]
    has_more: bool


def engine_steps(*, queue: str, state: str, text: str, at: datetime) -> EngineSteps:
    """Give the first steps by the instant they are due, 100 at most; what is empty leaves all.

    Args:
        queue: A key of ``QUEUE_WORDS``.
        state: A key of ``STATE_WORDS``.
        text: Part of a lane's id, a batch's id or a customer's name.
        at: Now.
    """
    found: list[EngineStep] = []
    counts: dict[str, int] = {}
    for name, rows in _queues().items():
        chosen = rows.filter(_matches(name, text)) if text else rows
        if state == "unclear":
            chosen = chosen.filter(unclear_since__isnull=False) if name == "submit" else chosen.none()
        elif state:
            chosen = chosen.filter(_IN_STATE[state])
        counts[name] = chosen.count()
        if queue in {"", name}:
            found += _steps(name, chosen.order_by("due_at", "pk")[: STEPS_MAX_COUNT + 1], at)
    found.sort(key=lambda step: step.due_at)
    return EngineSteps(steps=tuple(found[:STEPS_MAX_COUNT]), counts=counts, has_more=len(found) > STEPS_MAX_COUNT)


def polls(*, state: str, text: str) -> QuerySet[ProviderJob]:
    """Give the running jobs that :func:`engine_steps` would list in the queue of polls."""
    found = _queues()["poll"]
    if text:
        found = found.filter(_matches("poll", text))
    if state == "unclear":
        return found.none()
    return found.filter(_IN_STATE[state]) if state else found


_CLAIMED = Q(lease_until__gt=DATABASE_NOW)
_FREE = Q(lease_until=None) | Q(lease_until__lte=DATABASE_NOW)
_IN_STATE: Final[Mapping[str, Q]] = {
    "overdue": _FREE & Q(due_at__lt=DATABASE_NOW - _OVERDUE_AFTER),
    "due": _FREE & Q(due_at__lte=DATABASE_NOW, due_at__gte=DATABASE_NOW - _OVERDUE_AFTER),
    "claimed": _CLAIMED,
    "later": _FREE & Q(due_at__gt=DATABASE_NOW),
}


def _queues() -> dict[str, QuerySet[Any]]:
    jobs = ProviderJob.objects.filter(due_at__isnull=False).select_related("batch__organisation", "sub_lane")
    jobs = jobs.defer("rows", "batch__plan", "sub_lane__pins")
    return {
        "price": FilePricing.objects.filter(due_at__isnull=False, state=PricingState.PENDING).select_related(
            "organisation"
        ),
        "start": SubLane.objects.filter(due_at__isnull=False)
        .select_related("batch__organisation")
        .defer("pins", "batch__plan"),
        "submit": jobs.filter(state__in=(JobState.INTENDED, JobState.SUBMITTING, JobState.UNKNOWN)),
        "poll": jobs.filter(state=JobState.RUNNING),
        "collect": jobs.filter(state=JobState.ENDED),
        "finish": Batch.objects.filter(due_at__isnull=False).select_related("organisation").defer("plan"),
    }


def _matches(queue: str, text: str) -> Q:
    if queue == "price":
        return Q(quote_id__icontains=text) | Q(organisation__name__icontains=text)
    if queue == "finish":
        return Q(public_id__icontains=text) | Q(organisation__name__icontains=text)
    lane = "lane_id" if queue == "start" else "sub_lane__lane_id"
    return (
        Q(**{f"{lane}__icontains": text})
        | Q(batch__public_id__icontains=text)
        | Q(batch__organisation__name__icontains=text)
    )


def _steps(queue: str, rows: QuerySet[Any], at: datetime) -> Iterator[EngineStep]:
    for row in rows:
        facts: dict[str, Any]
        if isinstance(row, FilePricing):
            facts = {
                "what": row.quote_id,
                "batch_id": "",
                "customer": row.organisation.name,
                "began_at": row.created_at,
            }
        elif isinstance(row, Batch):
            facts = {
                "what": row.status,
                "batch_id": row.public_id,
                "customer": row.organisation.name,
                "began_at": row.created_at,
            }
        elif isinstance(row, SubLane):
            facts = {
                "what": row.lane_id,
                "batch_id": row.batch.public_id,
                "customer": row.batch.organisation.name,
                "began_at": row.created_at,
                "error": row.reason,
            }
        else:
            facts = {
                "what": f"{row.sub_lane.lane_id} #{row.number}",
                "batch_id": row.batch.public_id,
                "customer": row.batch.organisation.name,
                "began_at": row.submitted_at or row.intended_at,
                "try_count": row.try_count,
                "error": row.last_error,
                "token": row.token,
            }
        yield EngineStep(
            queue=queue,
            state=_state_of(row, at),
            due_at=row.due_at,
            lease_until=row.lease_until,
            **{"try_count": 0, "error": "", **facts},
        )


def _state_of(row: Claimable, at: datetime) -> str:
    assert row.due_at is not None, "a row of a queue is due some time"
    if row.lease_until is not None and row.lease_until > at:
        return "claimed"
    if isinstance(row, ProviderJob) and row.unclear_since is not None:
        return "unclear"
    if row.due_at > at:
        return "later"
    return "overdue" if row.due_at < at - _OVERDUE_AFTER else "due"
