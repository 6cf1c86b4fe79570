"""What finance's first page says of invoices and our books: how well they agree, how old breaks are, open months."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.db.models import Count, F, Q, Sum
from django.db.models.functions import Abs

from billing.reconciliation.checklist import month_span
from billing.reconciliation.models import UNDECIDED, Break, BreakState, ProviderInvoice
from billing.reconciliation.period_models import Period, PeriodState
from billing.reconciliation.selectors import UNEXPLAINED, headline, missing_invoices
from billing.reconciliation.views.shown import PERIOD_BADGES, headline_cards

_AGE_BANDS: Final = ((0, 7), (8, 30), (31, 90), (91, None))
_MONTHS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeBand:
    """The undecided breaks of some ages: how many, and their sizes (no signs), of all and of those without a cause."""

    label: str
    count: int
    size_pico_usd: int
    unexplained_pico_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The undecided breaks by age, the youngest first, and all of them."""

    bands: tuple[AgeBand, ...]
    total: AgeBand


def undecided_by_age(at: datetime) -> Ages:
    """Give the undecided breaks by how many whole days they have been open; a match made again keeps a break's age."""
    bands = tuple(_band(at, least_days, most_days) for least_days, most_days in _AGE_BANDS)
    total = AgeBand(
        label="All",
        count=sum(band.count for band in bands),
        size_pico_usd=sum(band.size_pico_usd for band in bands),
        unexplained_pico_usd=sum(band.unexplained_pico_usd for band in bands),
    )
    return Ages(bands=bands, total=total)


def _band(at: datetime, least_days: int, most_days: int | None) -> AgeBand:
    found = Break.objects.filter(state__in=UNDECIDED)
    if least_days:
        found = found.filter(opened_at__lte=at - timedelta(days=least_days))
    if most_days is not None:
        found = found.filter(opened_at__gt=at - timedelta(days=most_days + 1))
    size = Abs(F("difference_pico_usd"))
    sums = found.aggregate(count=Count("pk"), size=Sum(size), unexplained=Sum(size, filter=UNEXPLAINED))
    return AgeBand(
        label=f"Over {least_days - 1} days" if most_days is None else f"{least_days} to {most_days} days",
        count=sums["count"],
        size_pico_usd=int(sums["size"] or 0),
        unexplained_pico_usd=int(sums["unexplained"] or 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMonth:
    """A month that is not closed. ``missing_count``: accounts without an invoice, of last month alone."""

    month: str
    word_of_month: str
    age: str
    tone: str
    word: str
    invoice_count: int
    missing_count: int
    matched_count: int
    undecided_count: int


def open_months(at: datetime) -> list[OpenMonth]:
    """Give the months that are not closed, the newest first: this one, the one before, and all that have invoices."""
    this_month = at.date().replace(day=1)
    last_month = _before(this_month)
    states = {period.month: PeriodState(period.state) for period in Period.objects.all()}
    counts: dict[date, dict[str, Any]] = {
        found["period"]: dict(found)
        for found in ProviderInvoice.objects.values("period").annotate(
            invoice_count=Count("pk", distinct=True),
            matched_count=Count("pk", distinct=True, filter=Q(matched_at__isnull=False)),
            undecided_count=Count("breaks", distinct=True, filter=Q(breaks__state__in=UNDECIDED)),
        )
    }
    months = sorted({this_month, last_month, *counts, *states}, reverse=True)
    shown = [month for month in months if states.get(month) != PeriodState.CLOSED][:_MONTHS_SHOWN]
    return [
        _open_month(
            month,
            states.get(month, PeriodState.OPEN),
            counts.get(month, {}),
            missing_count=len(missing_invoices(month)) if month == last_month else 0,
            at=at,
        )
        for month in shown
    ]


def _open_month(
    month: date, state: PeriodState, counts: dict[str, Any], *, missing_count: int, at: datetime
) -> OpenMonth:
    ended_days = (at - month_span(month)[1]).days
    tone, word = PERIOD_BADGES[state]
    return OpenMonth(
        month=f"{month:%Y-%m}",
        word_of_month=f"{month:%B %Y}",
        age=f"ended {_days(ended_days)} ago" if ended_days >= 0 else f"{_days(-ended_days)} to its end",
        tone=tone,
        word=word,
        invoice_count=counts.get("invoice_count", 0),
        missing_count=missing_count,
        matched_count=counts.get("matched_count", 0),
        undecided_count=counts.get("undecided_count", 0),
    )


def _days(count: int) -> str:
    return f"{count:,} day{'' if count == 1 else 's'}"


def _before(month: date) -> date:
    return (month - date.resolution).replace(day=1)


def reconciliation_overview(at: datetime) -> dict[str, Any]:
    """Give what finance's first page says of the months that are not closed."""
    closed = Period.objects.filter(state=PeriodState.CLOSED).values("month")
    return {
        "cards": headline_cards(headline(ProviderInvoice.objects.exclude(period__in=closed)), at),
        "ages": undecided_by_age(at),
        "months": open_months(at),
        "pending_count": Break.objects.filter(state=BreakState.PENDING).count(),
        "closing_count": Period.objects.filter(state=PeriodState.CLOSING).count(),
    }
