"""Filters of lists."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from django import forms

from ground.filters import DaysForm, Span, span_of_days


class Form(DaysForm):
    state = forms.ChoiceField(label="State", required=False, choices=[("", "All"), ("bad", "Very bad")])


@pytest.mark.parametrize(
    ("zone", "since", "until"),
    [
        ("UTC", datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 3, 30, tzinfo=UTC)),
        # The day on which Berlin's clocks go on an hour has 23.
        ("Europe/Berlin", datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 3, 29, 22, tzinfo=UTC)),
        ("Asia/Kathmandu", datetime(2026, 3, 28, 18, 15, tzinfo=UTC), datetime(2026, 3, 29, 18, 15, tzinfo=UTC)),
        ("America/Los_Angeles", datetime(2026, 3, 29, 7, tzinfo=UTC), datetime(2026, 3, 30, 7, tzinfo=UTC)),
    ],
)
def test_a_day_is_the_zones_own(zone: str, since: datetime, until: datetime) -> None:
    assert span_of_days(date(2026, 3, 29), date(2026, 3, 29), ZoneInfo(zone)) == Span(since=since, until=until)


def test_what_is_not_chosen_filters_nothing() -> None:
    form = Form({})
    assert (form.is_valid(), form.chosen(), form.chips(), form.query()) == (True, {}, [], "?")
    assert form.span(ZoneInfo("UTC")) == Span()


def test_a_chip_names_the_choice_and_leads_to_the_list_without_it() -> None:
    form = Form({"state": "bad", "since": "2026-03-29"})
    assert form.is_valid()
    assert [(chip.label, chip.url) for chip in form.chips()] == [
        ("From: 2026-03-29", "?state=bad"),
        ("State: Very bad", "?since=2026-03-29"),
    ]
    assert form.query(after="x y") == "?since=2026-03-29&state=bad&after=x+y"


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "29.03.2026"},
        {"until": "9999-12-31"},
        {"since": "2026-03-30", "until": "2026-03-29"},
        {"state": "worse", "since": "2026-03-29"},
    ],
)
def test_what_cannot_be_read_is_not_half_taken(asked: dict[str, str]) -> None:
    form = Form(asked)
    assert not form.is_valid()
    assert form.chosen() == {}
