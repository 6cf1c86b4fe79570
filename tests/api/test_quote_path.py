"""How quotes do: counted by step in each process, added up over all for a minute, and read by people and Prometheus."""

from __future__ import annotations

from dataclasses import replace

from django.test import Client, override_settings

from config.load import load_of_this_process
from ground import clock as ground_clock
from routing import quote_path
from routing.models import QuotePathReport
from routing.quote_path import BOUNDS_MS, Reporter, StepTimes
from tests.api.world import Api, row
from tests.harness.clock import Clock
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of


def test_quantiles_lie_within_their_bucket() -> None:
    counts = [0] * (len(BOUNDS_MS) + 1)
    counts[BOUNDS_MS.index(2)], counts[BOUNDS_MS.index(8)] = 50, 50
    times = StepTimes(counts=tuple(counts), sum_us=0)
    # Half are within 1 to 2 ms, the others within 6 to 8.
    assert times.quantile_ms(250) == 1.5
    assert times.quantile_ms(500) == 2
    assert times.quantile_ms(950) == 6 + 2 * 0.9
    assert StepTimes().quantile_ms(500) is None
    beyond = replace(times, counts=(*counts[:-1], 10_000))
    assert beyond.quantile_ms(950) == BOUNDS_MS[-1]


def test_a_minute_of_all_processes_is_added_up_and_goes_by(api: Api, clock: Clock) -> None:
    quote_path.count_waiting()
    first, second = Reporter(), Reporter(process="another:1:1")
    for _ in range(3):
        api.quote(row("a"))
    first.report(load_of_this_process())
    api.quote(row("a"))
    second.report(load_of_this_process())
    second.report(load_of_this_process())
    seen = quote_path.quote_path(ground_clock.now())
    assert list(seen.steps) == list(quote_path.STEPS)
    assert {times.count for times in seen.steps.values()} == {4}
    assert [report.totals["total"].count for report in seen.processes] == [1, 3]
    assert seen.processes[0].load["gate"]["upload"]["taken"] == 0
    operator = signed_in(scenes.staff())
    assert "4 quotes" in words_of(operator.get("/ops/quote-path/"))
    clock.advance(seconds=61)
    assert quote_path.quote_path(ground_clock.now()) == quote_path.QuotePath(steps={}, processes=())
    assert "No direct quote in the last minute" in words_of(operator.get("/ops/quote-path/"))
    clock.advance(seconds=180)
    second.report(load_of_this_process())
    assert QuotePathReport.objects.count() == 1


def test_prometheus_reads_it_by_its_token_alone(api: Api, client: Client) -> None:
    quote_path.count_waiting()
    api.quote(row("a"))
    Reporter().report(load_of_this_process())
    assert client.get("/metrics").status_code == 404
    with override_settings(METRICS_TOKEN="scrape-me"):
        assert client.get("/metrics").status_code == 404
        assert client.get("/metrics", headers={"Authorization": "Bearer scrape-m\u00e9"}).status_code == 404
        answer = client.get("/metrics", headers={"Authorization": "Bearer scrape-me"})
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = answer.content.decode().splitlines()
    step = f'process="{quote_path.PROCESS}",step="total"'
    assert f'lanehouse_quote_step_seconds_bucket{{{step},le="+Inf"}} 1' in lines
    assert f"lanehouse_quote_step_seconds_count{{{step}}} 1" in lines
    assert f'lanehouse_gate_places{{process="{quote_path.PROCESS}",kind="upload"}} 16' in lines
    assert sum(line.startswith("# TYPE") for line in lines) == 7
