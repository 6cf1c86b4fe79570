"""What the pages and the API read of periods, and of attempts that came too late for one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from django.db.models import Sum

from billing.reconciliation.models import ProviderInvoice
from billing.reconciliation.period_models import AttemptRecording, Period
from ground.errors import NotFound
from ground.given_texts import number_in

_LATE: Final = "late-"


def period_page(*, after: date | None, limit: int, at: datetime) -> tuple[list[Period], bool]:
    """Give up to ``limit`` months that have something, the newest first, and whether there are more.

    Months without a row are open. This month and the one before are always among them.
    """
    this = at.date().replace(day=1)
    months = {this, (this - date.resolution).replace(day=1)}
    months |= set(ProviderInvoice.objects.order_by().values_list("period", flat=True).distinct())
    known = {each.month: each for each in Period.objects.select_related("requested_by", "closed_by")}
    wanted = sorted((each for each in months | set(known) if after is None or each < after), reverse=True)
    return [known.get(month) or Period(month=month) for month in wanted[:limit]], len(wanted) > limit


def period_of(month: date) -> Period:
    """Give a month; one without a row is open."""
    found = Period.objects.select_related("requested_by", "closed_by").filter(month=month).first()
    return found or Period(month=month)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTotals:
    """What was recorded of a month after it was closed."""

    attempt_count: int
    cost_pico_usd: int


def late_totals(month: date) -> LateTotals:
    """Give how much came too late for a month."""
    sums = AttemptRecording.objects.filter(late_for=month).aggregate(
        attempts=Sum("attempt_count"), pico_usd=Sum("cost_pico_usd")
    )
    return LateTotals(attempt_count=int(sums["attempts"] or 0), cost_pico_usd=int(sums["pico_usd"] or 0))


def late_page(month: date, *, after: str, limit: int) -> tuple[list[AttemptRecording], bool]:
    """Give up to ``limit`` recordings that came too late for a month, the newest first, and whether there are more.

    Raises:
        NotFound: ``after`` is no cursor of :func:`late_cursor`.
    """
    found = AttemptRecording.objects.filter(late_for=month)
    if after:
        number = number_in(after.removeprefix(_LATE)) if after.startswith(_LATE) else None
        if number is None:
            raise NotFound("There is no such place in this list.", param="after")
        found = found.filter(pk__lt=number)
    page = list(found.order_by("-pk")[: limit + 1])
    return page[:limit], len(page) > limit


def late_cursor(recording: AttemptRecording) -> str:
    """Give the cursor of a recording."""
    return f"{_LATE}{recording.pk}"
