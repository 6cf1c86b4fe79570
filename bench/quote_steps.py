"""Where the time of a quote's plan goes, in this process: parse to price, without web server and database.

Floor: ``orjson.loads`` of each line of the same bytes, in turns with the plan. Everything is processor time of
this thread, for nothing here waits; steps are first quartiles, which neighbours on the machine disturb least.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import ModuleType

import orjson

from bench.files import lively_rows, mixed_rows
from catalog.domain.records import Catalog
from routing.domain.jsonl import fast, known
from routing.domain.offering import QuoteSettings
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from tests.routing.domain.sample import HOUSE

_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _escaped(body: bytes) -> bytes:
    """Write the rows as Python's own ``json.dumps`` does: blanks after separators, no character beyond ASCII."""
    return b"".join(json.dumps(orjson.loads(line)).encode() + b"\n" for line in body.splitlines())


def _files() -> Mapping[str, bytes]:
    lively = lively_rows(1_200, bytes_per_row=830)
    return {
        "plain English, 1,200 rows": mixed_rows(1_200, bytes_per_row=830),
        "plain English, 5,000 rows": mixed_rows(5_000, bytes_per_row=1_650),
        "lively, 1,200 rows": lively,
        "lively, 5,000 rows": lively_rows(5_000, bytes_per_row=1_800),
        "lively, by json.dumps, 1,200 rows": _escaped(lively),
        "responses, 1,200 rows": lively_rows(1_200, bytes_per_row=830, endpoint="/v1/responses"),
        "embeddings, 1,200 rows": lively_rows(1_200, bytes_per_row=830, endpoint="/v1/embeddings"),
    }


@contextmanager
def _timed(module: ModuleType, name: str, spans_ns: dict[str, int]) -> Iterator[None]:
    """Add the nanoseconds spent in a function, by standing before it for as long as one plan is made."""
    plain: Callable[..., object] = getattr(module, name)

    def timed(*given: object, **named: object) -> object:
        started_ns = time.thread_time_ns()
        answer = plain(*given, **named)
        spans_ns[name] = spans_ns.get(name, 0) + time.thread_time_ns() - started_ns
        return answer

    setattr(module, name, timed)
    try:
        yield
    finally:
        setattr(module, name, plain)


_INNER = (
    *((known, name) for name in ("_read_extras", "_with_rest")),
    *((fast, name) for name in ("split_lines", "is_utf8", "decode_rows", "read_contents", "Account")),
    *((fast, name) for name in ("_read_rare", "_read_alone", "prepare_texts")),
)
_LARGE_BYTES = 3_000_000


def run() -> None:
    """Print each step of each file."""
    for name, body in _files().items():
        _measure(name, body, HOUSE, call_count=60 if len(body) < _LARGE_BYTES else 15)


def _measure(name: str, body: bytes, catalog: Catalog, *, call_count: int) -> None:
    rows = body.splitlines()
    floors_ns: list[int] = []
    plans: list[dict[str, int]] = []
    for _ in range(call_count):
        started_ns = time.thread_time_ns()
        for row in rows:
            orjson.loads(row)
        floors_ns.append(time.thread_time_ns() - started_ns)
        plans.append(_plan(body, catalog))
    floor_ns = _first_quartile(floors_ns)
    ratio = statistics.median(plan["plan"] / floor for plan, floor in zip(plans, floors_ns, strict=True))
    print(f"{name} ({len(body) / 1e6:.2f} MB): floor {floor_ns / 1e6:.2f} ms, plan p50 {ratio:.2f} x")
    for step in plans[-1]:
        span_ns = _first_quartile([plan.get(step, 0) for plan in plans])
        print(f"    {step:<22} {span_ns / 1e3:9.0f} us = {span_ns / floor_ns:5.2f} x")


def _first_quartile(spans_ns: Sequence[int]) -> float:
    return statistics.quantiles(spans_ns, n=4, method="inclusive")[0]


def _plan(body: bytes, catalog: Catalog) -> dict[str, int]:
    """Make one plan and give the nanoseconds of each step, those within the parse indented."""
    spans_ns: dict[str, int] = {}
    with ExitStack() as stack:
        for module, name in _INNER:
            stack.enter_context(_timed(module, name, spans_ns))
        started_ns = time.thread_time_ns()
        plan = make_quote_plan(body, catalog, WorkflowProfile(), QuoteSettings(), _AT, timer=time.thread_time_ns)
        total_ns = time.thread_time_ns() - started_ns
    inner = {f"  {name.strip('_')}": span_ns for name, span_ns in spans_ns.items()}
    outer = dict(plan.timings_ns)
    return {"plan": total_ns, "parse": outer.pop("parse"), **inner, **outer}
