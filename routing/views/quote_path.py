"""The operators' page of the quote path: how long its steps take, how full the gates are, what each process holds."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from catalog.selectors import catalog_versions
from ground import clock
from routing.quote_path import ProcessReport, StepTimes, quote_path

_REGION = "quote-path"
_POLL_SECONDS = 5
_STEP_WORDS = {
    "admit": "Caller let in",
    "read": "Body read",
    "parse": "Parsed and checked",
    "resolve": "Models found",
    "estimate": "Tokens estimated",
    "score": "Lanes scored",
    "split": "Split over lanes",
    "price": "Priced",
    "store": "Payload stored",
    "persist": "Quote written",
    "total": "Whole quote",
}
_TEN_MS = 10


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.SUPPORT)
def quote_path_page(request: HttpRequest, _user: User) -> HttpResponse:
    """Show the last minute of all web processes. Alone: the region ``quote-path``, which asks again each 5 s."""
    at = clock.now()
    seen = quote_path(at)
    versions = catalog_versions()
    context = {
        "active_nav": "quote-path",
        "at": at,
        "poll_seconds": _POLL_SECONDS,
        "steps": [_step(step, times) for step, times in seen.steps.items()],
        "quote_count": seen.steps["total"].count if "total" in seen.steps else 0,
        "processes": [_process(number, report, versions) for number, report in enumerate(seen.processes, start=1)],
        "catalog_version": versions[0],
    }
    is_region = region_asked_for(request) == _REGION
    return render(request, f"routing/{'_' if is_region else ''}quote_path.html", context)


def _step(step: str, times: StepTimes) -> dict[str, Any]:
    return {
        "word": _STEP_WORDS[step],
        "is_total": step == "total",
        "count": times.count,
        "mean": _ms(times.sum_us / times.count / 1_000),
        "p50": _ms(times.quantile_ms(500)),
        "p95": _ms(times.quantile_ms(950)),
        "p99": _ms(times.quantile_ms(990)),
    }


def _process(number: int, report: ProcessReport, versions: tuple[int, int]) -> dict[str, Any]:
    load = report.load
    gates = load.get("gate", {})
    return {
        "number": number,
        "name": report.process,
        "reported_at": report.reported_at,
        "gates": [gates[kind] for kind in ("upload", "body", "download", "other") if kind in gates],
        "refused_count": sum(gate["refused_count"] for gate in gates.values()),
        "catalog_version": load.get("catalog_version", 0),
        # A process that was asked for no quote since reads the map when it is.
        "is_current": load.get("catalog_version") == versions[0],
        "learned_maps": load.get("learned_maps", 0),
        "quote_count": report.totals["total"].count if "total" in report.totals else 0,
    }


def _ms(milliseconds: float | None) -> str:
    """Give milliseconds as people read them."""
    assert milliseconds is not None, "a step that is shown was done"
    return f"{milliseconds:,.2f}" if milliseconds < _TEN_MS else f"{milliseconds:,.0f}"
