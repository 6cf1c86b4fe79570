"""Line and bar charts drawn by the server: figures in, SVG coordinates and labels out. What was not measured is a gap.

Pure; the template writes the numbers into attributes, so that a strict content policy holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

WIDTH, HEIGHT = 480, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 10, 22
_STEPS = (1, 2, 5)
_GRID_LINES = 3
_BAR_LABELS = 6
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_HOURS_APART = 6
# A label begins at its tick; one that would run out of the chart is left out.
_LABEL_WIDTH = 28
NOT_MEASURED = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A label of an axis and where it stands along it."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened, drawn across a chart: where it stands, and what it was."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series: a path a stretch without gaps, and the points that stand alone."""

    label: str
    paths: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart ready to be written. ``rows`` is its table: an instant, and each series' figure in words."""

    title: str
    summary: str
    lines: tuple[Line, ...]
    limit_y: float | None
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    rows: tuple[tuple[datetime, tuple[str, ...]], ...]
    marks: tuple[Mark, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The series' names, in the order of the table's columns."""
        return tuple(line.label for line in self.lines)

    width = WIDTH
    height = HEIGHT
    left = _LEFT
    right = WIDTH - _RIGHT
    top = _TOP
    bottom = HEIGHT - _BOTTOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Figures by bucket, None where nothing was measured."""

    label: str
    values: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The chart's span: ``len(values)`` buckets from ``since`` on, labelled in a zone."""

    since: datetime
    bucket: timedelta
    count: int
    zone: ZoneInfo

    def x(self, bucket: int) -> float:
        """Give where a bucket's middle stands."""
        return round(_LEFT + (bucket + 0.5) * (WIDTH - _LEFT - _RIGHT) / self.count, 1)

    def marks(self, events: Sequence[tuple[datetime, str]]) -> tuple[Mark, ...]:
        """Give the marks of what happened within the span; what did not is left out."""
        span = self.bucket * self.count
        return tuple(
            Mark(at=round(_LEFT + (at - self.since) / span * (WIDTH - _LEFT - _RIGHT), 1), label=label)
            for at, label in events
            if self.since <= at <= self.since + span
        )

    def ticks(self) -> tuple[Tick, ...]:
        """Give labels at the zone's own hours: each sixth hour within a day, else midnights, every other one or rarer.

        Where the clocks change the hours are still those that the zone's clocks show.
        """
        span = self.bucket * self.count
        is_a_day = span <= _DAY
        every_days = max(span.days // 3, 1)
        local = self.since.astimezone(self.zone)
        first = self.since + (timedelta(hours=1) - timedelta(minutes=local.minute, seconds=local.second)) % _HOUR
        ticks = []
        for hour in range(span // _HOUR + 1):
            at = first + hour * _HOUR
            there = at.astimezone(self.zone)
            is_labelled = (
                there.hour % _HOURS_APART == 0 if is_a_day else not there.hour + there.toordinal() % every_days
            )
            x = _LEFT + (at - self.since) / span * (WIDTH - _LEFT - _RIGHT)
            if is_labelled and x <= WIDTH - _RIGHT - _LABEL_WIDTH:
                ticks.append(Tick(at=round(x, 1), label=f"{there:%H:%M}" if is_a_day else f"{there.day} {there:%b}"))
        return tuple(ticks)


def line_chart(
    title: str,
    axis: Axis,
    series: Sequence[Series],
    say: Callable[[int], str],
    *,
    limit: int | None = None,
    least_top: int = 1,
    events: Sequence[tuple[datetime, str]] = (),
) -> Chart:
    """Give the chart of some series over one span.

    Args:
        title: What is drawn, with its unit.
        axis: The span, with as many buckets as each series has values.
        series: One line each.
        say: Gives a figure in words, for the axis and the table.
        limit: A figure drawn as a line of its own.
        least_top: What the axis reaches at least, so that figures near zero do not look grave.
        events: What happened and when; drawn where the span holds it.
    """
    known = [value for each in series for value in each.values if value is not None]
    top = _round_up(max([*known, limit or 0, least_top]))
    return Chart(
        title=title,
        summary=_summary(known, say),
        lines=tuple(_line(axis, each, top) for each in series),
        marks=axis.marks(events),
        limit_y=None if limit is None else _y(limit, top),
        x_ticks=axis.ticks(),
        y_ticks=tuple(
            Tick(at=_y(top * part // _GRID_LINES, top), label=say(top * part // _GRID_LINES))
            for part in range(_GRID_LINES + 1)
        ),
        rows=tuple(
            (
                axis.since + axis.bucket * bucket,
                tuple(NOT_MEASURED if value is None else say(value) for value in values),
            )
            for bucket, values in enumerate(zip(*(each.values for each in series), strict=True))
            if any(value is not None for value in values)
        ),
    )


def _line(axis: Axis, series: Series, top: int) -> Line:
    paths, dots = [], []
    for run in _runs(series.values):
        points = [(axis.x(bucket), _y(value, top)) for bucket, value in run]
        if len(points) == 1:
            dots.append(points[0])
        else:
            paths.append("M" + " L".join(f"{x} {y}" for x, y in points))
    return Line(label=series.label, paths=tuple(paths), dots=tuple(dots))


def _runs(values: Sequence[int | None]) -> list[list[tuple[int, int]]]:
    """Give the stretches without gaps, each as its buckets and figures."""
    runs: list[list[tuple[int, int]]] = []
    for bucket, value in enumerate(values):
        if value is None:
            continue
        if not runs or runs[-1][-1][0] != bucket - 1:
            runs.append([])
        runs[-1].append((bucket, value))
    return runs


def _y(value: int, top: int) -> float:
    return round(HEIGHT - _BOTTOM - value * (HEIGHT - _TOP - _BOTTOM) / top, 1)


def _round_up(value: int) -> int:
    """Give the next 3, 6 or 15 times a power of ten, so that the grid's thirds are whole figures."""
    power = 1
    while True:
        for step in _STEPS:
            if step * _GRID_LINES * power >= value:
                return step * _GRID_LINES * power
        power *= 10


def _summary(known: Sequence[int], say: Callable[[int], str]) -> str:
    if not known:
        return "Nothing was measured in this span."
    if min(known) == max(known):
        return f"Always {say(known[-1])}."
    return f"Between {say(min(known))} and {say(max(known))}; last {say(known[-1])}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One part of a stacked bar; ``tone`` is the number of its series."""

    x: float
    y: float
    width: float
    height: float
    tone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Stacked bars ready to be written. ``rows`` is their table: when a bar begins, each series' figure in words."""

    title: str
    summary: str
    labels: tuple[str, ...]
    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    rows: tuple[tuple[datetime, tuple[str, ...]], ...]

    width = WIDTH
    height = HEIGHT
    left = _LEFT
    right = WIDTH - _RIGHT


def stacked_bars(
    title: str,
    summary: str,
    starts: Sequence[datetime],
    series: Sequence[Series],
    say: Callable[[int], str],
    zone: ZoneInfo,
) -> BarChart:
    """Give one bar for each start, its series one upon the other, none of them below zero.

    Args:
        title: What is drawn, with its unit.
        summary: What there is to be seen, in words.
        starts: When each bar begins.
        series: The parts, from the bottom up, with as many values as there are bars; None counts as nothing.
        say: Gives a figure in words, for the axis and the table.
        zone: In which the bars' labels are.
    """
    each_bar = zip(*(each.values for each in series), strict=True)
    columns = [tuple(max(value or 0, 0) for value in values) for values in each_bar]
    top = _round_up(max([*map(sum, columns), 1]))
    step = (WIDTH - _LEFT - _RIGHT) / max(len(starts), 1)
    bars = []
    for place, column in enumerate(columns):
        below = 0
        for tone, value in enumerate(column):
            if value:
                y = _y(below + value, top)
                bars.append(
                    Bar(
                        x=round(_LEFT + (place + 0.1) * step, 1),
                        y=y,
                        width=round(step * 0.8, 1),
                        height=round(_y(below, top) - y, 1),
                        tone=tone,
                    )
                )
            below += value
    every = max(-(-len(starts) // _BAR_LABELS), 1)
    return BarChart(
        title=title,
        summary=summary,
        labels=tuple(each.label for each in series),
        bars=tuple(bars),
        x_ticks=tuple(
            Tick(at=round(_LEFT + (place + 0.1) * step, 1), label=start.astimezone(zone).strftime("%d %b"))
            for place, start in enumerate(starts)
            if place % every == 0
        ),
        y_ticks=tuple(
            Tick(at=_y(top * part // _GRID_LINES, top), label=say(top * part // _GRID_LINES))
            for part in range(_GRID_LINES + 1)
        ),
        rows=tuple(
            (start, tuple(say(value) for value in column))
            for start, column in zip(starts, columns, strict=True)
            if any(column)
        ),
    )
