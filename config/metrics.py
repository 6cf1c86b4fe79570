"""``/metrics``: what Prometheus reads. Histograms count since each process began, so that its rates are true."""

from __future__ import annotations

import hmac
from collections.abc import Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from billing.books.models import ProofRun
from config.errors import answer
from ground import clock
from ground.errors import NotFound
from routing.quote_path import BOUNDS_MS, ProcessReport, quote_path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Give the reports of all web processes of the last minute, in Prometheus's text format.

    For whoever has ``LANEHOUSE_METRICS_TOKEN`` as a bearer token. To others there is nothing here, nor to anybody
    where no token is set.
    """
    token, given = settings.METRICS_TOKEN, request.headers.get("Authorization", "")
    if not token or not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return answer(NotFound("There is nothing at this address."))
    lines = "\n".join((*_lines(quote_path(clock.now()).processes), *_of_the_ledger()))
    return HttpResponse(f"{lines}\n", content_type=CONTENT_TYPE)


def _lines(processes: tuple[ProcessReport, ...]) -> Iterator[str]:
    name = "lanehouse_quote_step_seconds"
    yield f"# HELP {name} Time of each step of a direct quote."
    yield f"# TYPE {name} histogram"
    for process in processes:
        for step, times in process.totals.items():
            labels, reached = f'process="{process.process}",step="{step}"', 0
            for bound_ms, count in zip((*BOUNDS_MS, None), times.counts, strict=True):
                reached += count
                bound = "+Inf" if bound_ms is None else f"{bound_ms / 1_000:g}"
                yield f'{name}_bucket{{{labels},le="{bound}"}} {reached}'
            yield f"{name}_sum{{{labels}}} {times.sum_us / 1_000_000:.6f}"
            yield f"{name}_count{{{labels}}} {times.count}"
    yield from _gauges(processes)


def _of_the_ledger() -> Iterator[str]:
    """Give whether the books held when they were last proven, and how long ago that was; nothing before the first."""
    proof = ProofRun.objects.filter(finished_at__isnull=False).order_by("-pk").first()
    if proof is None or proof.finished_at is None:
        return
    age_seconds = max(0, int((clock.now() - proof.finished_at).total_seconds()))
    for name, what, value in (
        (
            "lanehouse_ledger_holds",
            "1 where every law of the books held when they were last proven.",
            int(bool(proof.holds)),
        ),
        ("lanehouse_ledger_proof_age_seconds", "How long ago the books were proven.", age_seconds),
    ):
        yield f"# HELP {name} {what}"
        yield f"# TYPE {name} gauge"
        yield f"{name} {value}"


def _gauges(processes: tuple[ProcessReport, ...]) -> Iterator[str]:
    yield "# HELP lanehouse_gate_places Places of the gate, by kind of work."
    yield "# TYPE lanehouse_gate_places gauge"
    for process in processes:
        for kind, gate in process.load["gate"].items():
            yield f'lanehouse_gate_places{{process="{process.process}",kind="{kind}"}} {gate["places"]}'
    for member, what, kind_of_metric in (
        ("taken", "Places taken now.", "gauge"),
        ("refused_count", "Requests answered 503 for want of a place.", "counter"),
    ):
        name = f"lanehouse_gate_{'refused_total' if member == 'refused_count' else 'taken'}"
        yield f"# HELP {name} {what}"
        yield f"# TYPE {name} {kind_of_metric}"
        for process in processes:
            for kind, gate in process.load["gate"].items():
                yield f'{name}{{process="{process.process}",kind="{kind}"}} {gate[member]}'
    for member in ("catalog_version", "sla_version", "learned_maps"):
        yield f"# HELP lanehouse_{member} As the process holds it."
        yield f"# TYPE lanehouse_{member} gauge"
        for process in processes:
            yield f'lanehouse_{member}{{process="{process.process}"}} {process.load[member]}'
