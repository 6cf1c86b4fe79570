"""Filters of lists: a form that the query string holds, its chips, and days in the viewer's zone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django import forms

_FIRST_DAY, _LAST_DAY = date(2000, 1, 1), date(2999, 12, 31)
_DAY_FORMAT = "%Y-%m-%d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One filter that is set: what it says, and the query string without it."""

    label: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Half-open: from ``since`` to before ``until``; None is open."""

    since: datetime | None = None
    until: datetime | None = None


EVER = Span()


def span_of_days(first: date | None, last: date | None, zone: ZoneInfo) -> Span:
    """Give the instants from the first day's start to the last day's end, both as the zone counts its days."""
    return Span(
        since=None if first is None else datetime.combine(first, time(), zone),
        until=None if last is None else datetime.combine(last + timedelta(days=1), time(), zone),
    )


class ListFilterForm(forms.Form):
    """What a list shows. Empty fields filter nothing; a form that is not valid lists nothing."""

    def chosen(self) -> dict[str, str]:
        """Give the fields that are set, as the query string spells them."""
        values = self.cleaned_data if self.is_valid() else {}
        return {
            name: str(self.fields[name].prepare_value(value))
            for name, value in values.items()
            if value not in {None, ""}
        }

    def query(self, **others: str) -> str:
        """Give the query string of what is chosen, with these beside it."""
        return f"?{urlencode({**self.chosen(), **others})}"

    def chips(self, *, without: frozenset[str] = frozenset()) -> list[Chip]:
        """Give a chip for each field that is set, but for those that the page shows otherwise."""
        chosen = self.chosen()
        return [
            Chip(
                label=f"{self.fields[name].label}: {_said(self.fields[name], value)}",
                url=f"?{urlencode({other: kept for other, kept in chosen.items() if other != name})}",
            )
            for name, value in chosen.items()
            if name not in without
        ]


def _said(field: forms.Field, value: str) -> str:
    choices: Mapping[str, Any] = dict(getattr(field, "choices", []))
    return str(choices.get(value, value))


def _in_range(day: date) -> None:
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise forms.ValidationError("Choose a day from 2000 to 2999.")


def day_field(label: str) -> forms.DateField:
    """Give a field of a day from 2000 to 2999; the query string spells it as 2026-11-30."""
    return forms.DateField(
        label=label,
        required=False,
        input_formats=[_DAY_FORMAT],
        validators=[_in_range],
        widget=forms.DateInput(
            {"type": "date", "min": _FIRST_DAY.isoformat(), "max": _LAST_DAY.isoformat()}, format=_DAY_FORMAT
        ),
    )


class DaysForm(ListFilterForm):
    """A list that is also filtered by days."""

    since = day_field("From")
    until = day_field("To (inclusive)")

    def clean(self) -> dict[str, Any]:
        """Refuse ranges that end before they begin."""
        cleaned = super().clean() or self.cleaned_data
        since, until = cleaned.get("since"), cleaned.get("until")
        if since and until and since > until:
            self.add_error("until", "The last day is before the first.")
        return cleaned

    def span(self, zone: ZoneInfo) -> Span:
        """Give the instants that a valid form's days mean in a zone."""
        return span_of_days(self.cleaned_data["since"], self.cleaned_data["until"], zone)
