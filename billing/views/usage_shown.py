"""What the usage page says, put together from the rows that were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from accounts.models import Organisation
from accounts.zones import reporting_zone_of
from billing.domain.calendar import BucketWidth, borders, day_starts_at
from billing.domain.cells import usd_cell
from billing.selectors import receipt_for_batch
from billing.usage.forms import UsageFilterForm
from billing.usage.reading import NOTHING, Dimension, UsageRow, UsageSums, keys_of_usage, usage_rows
from ground.charts import BarChart, Series, stacked_bars
from ground.errors import NotFound

# With more days than this a bar is a week.
_BARS_MAX: Final = 92
_DAYS_A_WEEK: Final = 7
_SERIES_MAX: Final = 4
_GROUPS_MAX: Final = 100
_MICRO_PER_CENT: Final = 10_000
_RECENT_DAYS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageGroup:
    """A line of the table: what it is called, the query string that shows it alone, and its usage."""

    label: str
    detail: str
    query: str
    values: frozenset[Any]
    sums: UsageSums


def cuts_of(since: date, until: date, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Give the borders of the bars from the first to the last day, both included: of days, or of weeks."""
    days = borders(day_starts_at(since, zone), day_starts_at(until + timedelta(days=1), zone), BucketWidth.DAY, zone)
    return days if len(days) <= _BARS_MAX + 1 else (*days[:-1:_DAYS_A_WEEK], days[-1])


def total_of(rows: Sequence[UsageRow]) -> UsageSums:
    """Give all rows together."""
    return sum((row.sums for row in rows), NOTHING)


def groups_of(
    organisation: Organisation, rows: Sequence[UsageRow], dimension: Dimension, form: UsageFilterForm
) -> tuple[UsageGroup, ...]:
    """Give the groups of rows that are told apart by one dimension, dearest first; the last may be all others."""
    sums: dict[Any, UsageSums] = {}
    for row in rows:
        (value,) = row.group
        sums[value] = sums.get(value, NOTHING) + row.sums
    ordered = sorted(sums, key=lambda value: (-sums[value].charge_micro_usd, str(value)))
    names = _names(organisation, ordered, dimension)
    field = dimension.name.lower()
    groups = [
        UsageGroup(
            label=label,
            detail=detail,
            query=form.query(**{field: wanted}) if wanted else "",
            values=frozenset({value}),
            sums=sums[value],
        )
        for value in ordered[:_GROUPS_MAX]
        for label, detail, wanted in [names[value]]
    ]
    rest = ordered[_GROUPS_MAX:]
    if rest:
        groups.append(
            UsageGroup(
                label=f"{len(rest):,} others",
                detail="",
                query="",
                values=frozenset(rest),
                sums=sum((sums[value] for value in rest), NOTHING),
            )
        )
    return tuple(groups)


def bars_of(
    cuts: Sequence[datetime], rows: Sequence[UsageRow], groups: Sequence[UsageGroup], zone: ZoneInfo
) -> BarChart:
    """Give the charge by day or week, the dearest groups apart; without groups one bar is one."""
    shown = list(groups[:_SERIES_MAX])
    place_of = {value: place for place, group in enumerate(shown) for value in group.values}
    has_others = len(groups) > len(shown)
    labels = [group.label for group in shown] + (["Others"] if has_others else []) or ["All batches"]
    values = [[0] * (len(cuts) - 1) for _ in labels]
    for row in rows:
        place = place_of.get(row.group[0], len(labels) - 1) if row.group else 0
        values[place][row.bucket] += row.sums.charge_micro_usd
    a_bar = "day" if len(cuts) <= _BARS_MAX + 1 else "week"
    totals = [sum(column) for column in zip(*values, strict=True)]
    dearest = max(range(len(totals)), key=totals.__getitem__)
    return stacked_bars(
        f"Charged a {a_bar}, in USD",
        f"Charged a {a_bar}: up to {_dollars(totals[dearest])}, from {cuts[dearest].astimezone(zone):%d %b %Y}.",
        cuts[:-1],
        [Series(label=label, values=tuple(each)) for label, each in zip(labels, values, strict=True)],
        _dollars,
        zone,
    )


def recent_spend(organisation: Organisation, at: datetime) -> BarChart | None:
    """Give the charge by day of the last 30 days, today the last of them; None when nothing was settled in them."""
    zone = reporting_zone_of(organisation)
    today = at.astimezone(zone).date()
    cuts = cuts_of(today - timedelta(days=_RECENT_DAYS - 1), today, zone)
    rows = usage_rows(organisation, cuts, limit=_RECENT_DAYS)
    return bars_of(cuts, rows, (), zone) if rows else None


def receipt_place(organisation: Organisation, batch_public_id: str | None) -> tuple[datetime, int] | None:
    """Give where a batch stands in the list by batch; None for its beginning.

    Raises:
        NotFound: The organisation has no receipt of such a batch.
    """
    if batch_public_id is None:
        return None
    if "\0" in batch_public_id:
        raise NotFound("There is no such batch.", param="after")
    receipt = receipt_for_batch(organisation, batch_public_id)
    return receipt.settled_at, receipt.pk


def _names(organisation: Organisation, values: Sequence[Any], dimension: Dimension) -> dict[Any, tuple[str, str, str]]:
    """Give the label, the second line and the filter's value of each group."""
    if dimension is not Dimension.KEY:
        return {value: (value, "", value) for value in values}
    keys = keys_of_usage(organisation, values)
    return {
        value: (keys[value].name, f"…{keys[value].last_four}", keys[value].public_id)
        if value in keys
        else ("Without a key", "accepted on a page", "")
        for value in values
    }


def _dollars(micro_usd: int) -> str:
    """Give an axis' or a chart's figure: to the cent, or in full below one."""
    if micro_usd % _MICRO_PER_CENT == 0 or micro_usd > 100 * _MICRO_PER_CENT:
        return f"${usd_cell(micro_usd // _MICRO_PER_CENT * _MICRO_PER_CENT)[:-4]}"
    return f"${usd_cell(micro_usd)}"
