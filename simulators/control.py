"""The control API that every simulator has under ``/_sim``: faults, clock, settings, state.

| call | body | does |
|---|---|---|
| ``POST /_sim/faults`` | ``kind``, ``times``, the other fields of ``Fault``, ``key`` | asks for a fault |
| ``GET``, ``DELETE /_sim/faults`` | | lists, clears; ``DELETE /_sim/faults/{id}`` takes one back |
| ``GET``, ``POST /_sim/clock`` | ``freeze``, ``frozen_at``, ``advance_seconds`` | reads or moves the clock |
| ``GET``, ``POST /_sim/settings`` | any settings of the provider | reads or changes speed and limits |
| ``GET /_sim/state`` | | clock, counters of calls, what is stored |

Operations are named like the SDK's methods (``batches.create``, ``create_model_invocation_job``, ``s3.get_object``);
``custom_id`` is a shell pattern; a fault without ``times`` strikes until it is taken back. Call faults:
``http_error html_page slow cut_before cut_after cut_midway``.
Batch faults (no ``operation``), which strike when the input is read: ``fail_batch expire_batch``; Anthropic reads it in
the create and cannot fail a batch as a whole.
Row faults: ``row_error row_unrun row_missing row_duplicated row_foreign row_usage``.
Without any call, markers in a user message do the same: ``[[sim:fail]] [[sim:fail_once]] [[sim:context_length]]
[[sim:content_filter]] [[sim:content_filter_finish]] [[sim:tokens=N]] [[sim:cached=N]] [[sim:reasoning=N]]``, and for
Claude ``[[sim:overloaded]] [[sim:tool]] [[sim:cache_write=N]]``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from simulators.calls import CallCounters
from simulators.clock import SimClock
from simulators.faults import FaultBook, FaultKind, parse_fault

Described = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """What the control API works on; `change_settings` raises ValueError for what it cannot take.

    `fault_kinds` are those that make sense at the provider.
    """

    clock: SimClock
    faults: FaultBook
    counters: CallCounters
    settings: Callable[[], Described]
    change_settings: Callable[[Described], Described]
    work: Callable[[], Described]
    fault_kinds: frozenset[FaultKind] = frozenset(FaultKind)


def control_routes(controls: Controls) -> list[Route]:
    """The routes under ``/_sim``."""

    async def faults(request: Request) -> Response:
        if request.method == "POST":
            return await _guarded(request, lambda wanted: _add_fault(controls, wanted))
        if request.method == "DELETE":
            await run_in_threadpool(controls.faults.clear)
        armed = await run_in_threadpool(controls.faults.armed)
        return _json({"faults": [each.describe() for each in armed]})

    async def fault(request: Request) -> Response:
        removed = await run_in_threadpool(controls.faults.remove, request.path_params["fault_id"])
        return _json({"removed": removed}, 200 if removed else 404)

    async def clock(request: Request) -> Response:
        if request.method == "POST":
            return await _guarded(request, lambda wanted: _set_clock(controls.clock, wanted))
        return _json(controls.clock.describe())

    async def settings(request: Request) -> Response:
        if request.method == "POST":
            return await _guarded(request, controls.change_settings)
        return _json(controls.settings())

    async def state(_request: Request) -> Response:
        return _json(
            {
                "clock": controls.clock.describe(),
                "calls": await run_in_threadpool(controls.counters.describe),
                **await run_in_threadpool(controls.work),
            }
        )

    return [
        Route("/_sim/faults", faults, methods=["GET", "POST", "DELETE"]),
        Route("/_sim/faults/{fault_id}", fault, methods=["DELETE"]),
        Route("/_sim/clock", clock, methods=["GET", "POST"]),
        Route("/_sim/settings", settings, methods=["GET", "POST"]),
        Route("/_sim/state", state, methods=["GET"]),
    ]


async def _guarded(request: Request, act: Callable[[Described], Described]) -> Response:
    try:
        wanted = orjson.loads(await request.body())
        if not isinstance(wanted, dict):
            return _json({"error": "a JSON object is needed"}, 400)
        return _json(await run_in_threadpool(act, wanted))
    except ValueError as error:
        return _json({"error": str(error)}, 400)


def _add_fault(controls: Controls, wanted: Described) -> Described:
    fault = parse_fault(wanted)
    if fault.kind not in controls.fault_kinds:
        message = f"this provider has no {fault.kind}"
        raise ValueError(message)
    return controls.faults.add(fault).describe()


def _set_clock(clock: SimClock, wanted: Described) -> Described:
    unknown = wanted.keys() - {"advance_seconds", "freeze", "frozen_at"}
    if unknown:
        message = f"unknown fields: {', '.join(sorted(unknown))}; known: advance_seconds, freeze, frozen_at"
        raise ValueError(message)
    frozen_at, advance_seconds = wanted.get("frozen_at"), wanted.get("advance_seconds")
    if isinstance(frozen_at, int | float):
        clock.freeze(frozen_at)
    elif wanted.get("freeze") is True:
        clock.freeze()
    elif wanted.get("freeze") is False:
        clock.resume()
    if isinstance(advance_seconds, int | float):
        clock.advance(advance_seconds)
    return clock.describe()


def _json(body: Described, status_code: int = 200) -> Response:
    return Response(orjson.dumps(body), status_code=status_code, media_type="application/json")
