"""Charts say where each figure stands, and leave out what was not measured."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ground.charts import Axis, Series, line_chart

SINCE = datetime(2026, 3, 1, tzinfo=UTC)


def axis(count: int, zone: str = "UTC", span: timedelta = timedelta(hours=24)) -> Axis:
    return Axis(since=SINCE, bucket=span / count, count=count, zone=ZoneInfo(zone))


def test_a_gap_ends_a_path_and_a_lone_point_is_a_dot() -> None:
    values = (1, 2, None, 3, None, 0, 3)
    (line,) = line_chart("t", axis(7), [Series(label="s", values=values)], str).lines
    # 420 wide from 52: 60 a bucket, its middle at 30; three high from 128 up to 10
    assert line.paths == ("M82.0 88.7 L142.0 49.3", "M382.0 128.0 L442.0 10.0")
    assert line.dots == ((262.0, 10.0),)


def test_nothing_measured_is_said_and_drawn_as_nothing() -> None:
    chart = line_chart("t", axis(4), [Series(label="s", values=(None,) * 4)], str)
    assert (chart.lines[0].paths, chart.lines[0].dots, chart.rows) == ((), (), ())
    assert chart.summary == "Nothing was measured in this span."


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        (1, ["0", "1", "2", "3"]),
        (3, ["0", "1", "2", "3"]),
        (4, ["0", "2", "4", "6"]),
        (7, ["0", "5", "10", "15"]),
        (1_600, ["0", "1000", "2000", "3000"]),
    ],
)
def test_the_axis_ends_at_a_round_figure_above_all(highest: int, labels: list[str]) -> None:
    chart = line_chart("t", axis(1), [Series(label="s", values=(highest,))], str)
    assert [tick.label for tick in chart.y_ticks] == labels


def test_a_limit_stands_within_the_chart_though_nothing_comes_near_it() -> None:
    chart = line_chart("t", axis(1), [Series(label="s", values=(1,))], str, limit=300)
    assert (chart.limit_y, chart.y_ticks[-1].label) == (10.0, "300")


def test_the_table_has_each_bucket_that_was_measured_with_every_series() -> None:
    both = [Series(label="a", values=(1, None, None)), Series(label="b", values=(2, None, 4))]
    chart = line_chart("t", axis(3), both, lambda value: f"{value} min")
    assert chart.rows == (
        (SINCE, ("1 min", "2 min")),
        (SINCE + timedelta(hours=16), ("none", "4 min")),
    )


def test_labels_are_in_the_viewers_zone() -> None:
    assert [tick.label for tick in axis(120, "Asia/Kathmandu").ticks()] == ["06:00", "12:00", "18:00", "00:00"]
    week = axis(120, span=timedelta(days=8)).ticks()
    assert [tick.label for tick in week] == ["1 Mar", "3 Mar", "5 Mar", "7 Mar"]


def test_what_happened_within_the_span_is_marked_where_it_happened() -> None:
    events = [(SINCE + timedelta(hours=hours), f"after {hours} h") for hours in (-1, 0, 6, 24, 25)]
    chart = line_chart("t", axis(4), [Series(label="s", values=(1,) * 4)], str, events=events)
    # 420 wide from 52: a quarter of the day is 105
    assert [(mark.at, mark.label) for mark in chart.marks] == [
        (52.0, "after 0 h"),
        (157.0, "after 6 h"),
        (472.0, "after 24 h"),
    ]
