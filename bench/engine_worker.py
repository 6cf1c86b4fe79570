"""The engine in a process of its own, as a worker has it: ``prepare`` a batch, or ``work`` on those whose ids it reads.

Measured: processor time of this process and of its database connection, wall time, and the kernel's high-water mark of
this process's memory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from unittest import mock

import django
import orjson

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_ROWS_PER_BLOCK = 2_000


def main(command: str, *arguments: str) -> None:
    """Run one command."""
    django.setup()
    if command == "prepare":
        _prepare(base_url=arguments[0], row_count=int(arguments[1]), bytes_per_row=int(arguments[2]))
    else:
        for line in sys.stdin:
            _work(Path(arguments[0]), line.strip())


def _prepare(*, base_url: str, row_count: int, bytes_per_row: int) -> None:
    """Quote and accept a file over two models; as large as only the file flow allows."""
    from django.utils.crypto import get_random_string

    from bench.files import mixed_rows
    from routing.domain.jsonl.table import FileLimits
    from routing.domain.offering import QuoteSettings
    from routing.services import quotes
    from routing.services.batches import accept_quote
    from routing.workflows import DEFAULT_WORKFLOW
    from tests.harness.world import make_tenant, use_simulator

    use_simulator(base_url)
    tenant = make_tenant(f"bench{get_random_string(8).lower()}", credit_micro_usd=1_000_000_000_000)
    wide = QuoteSettings(limits=FileLimits(maximum_rows=1_000_000))
    with mock.patch.object(quotes, "quote_settings", return_value=wide):
        body = mixed_rows(row_count, bytes_per_row=bytes_per_row)
        made = quotes.create_quote(caller=tenant.caller, body=body, workflow=DEFAULT_WORKFLOW)
    batch = accept_quote(caller=tenant.caller, quote_id=made.answer["id"], metadata=None).batch
    print(batch.public_id, flush=True)


class _Meter:
    """What was spent since the meter was made."""

    def __init__(self) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self._backend = Path(f"/proc/{cursor.fetchone()[0]}/stat")
        self._spent_ns = self._now_ns()

    def lap(self) -> dict[str, int]:
        """Give the nanoseconds since the last lap."""
        now_ns = self._now_ns()
        spent = {name: now_ns[name] - self._spent_ns[name] for name in now_ns}
        self._spent_ns = now_ns
        return spent

    def _now_ns(self) -> dict[str, int]:
        fields = self._backend.read_text().rpartition(")")[2].split()
        return {
            "cpu_ns": time.process_time_ns(),
            "database_ns": (int(fields[11]) + int(fields[12])) * _TICK_NS,
            "wall_ns": time.perf_counter_ns(),
        }


def _work(answers: Path, batch_id: str) -> None:
    """Do every step of one batch, then the floor over the same rows."""
    from routing.models import Batch, JobState, ProviderJob
    from routing.services import collect, dispatch, finish

    Path("/proc/self/clear_refs").write_text("5")
    base_megabytes = _megabytes("VmRSS")
    meter = _Meter()
    steps: dict[str, dict[str, int]] = {}

    def do(name: str, step: Callable[[], bool]) -> None:
        meter.lap()
        while step():
            pass
        steps[name] = meter.lap()

    do("cut", dispatch.start_next_sub_lane)
    do("submit", dispatch.submit_next_job)
    while ProviderJob.objects.filter(batch__public_id=batch_id, state=JobState.RUNNING).exists():
        do("poll", collect.poll_next_job)
        time.sleep(0.2)
    do("collect", collect.collect_next_job)
    do("finish", finish.finish_next_batch)
    peak_megabytes = _megabytes("VmHWM")
    batch = Batch.objects.get(public_id=batch_id)
    assert batch.status == "completed", (batch.status, list(batch.jobs.values_list("last_error", flat=True)))
    assert batch.completed_count == batch.row_count
    document = {
        "row_count": batch.row_count,
        "steps": steps,
        "floor_ns": _floor_ns(batch.quote_id, [answers / f"{job.input_ref}-output" for job in batch.jobs.all()]),
        "base_megabytes": base_megabytes,
        "peak_megabytes": peak_megabytes,
    }
    print(json.dumps(document), flush=True)


def _floor_ns(quote_id: str, outputs: list[Path]) -> int:
    """Give the processor time of ``orjson.loads`` and ``dumps`` of every row's request and result."""
    from ground.blobs import open_blob
    from routing.payloads import payload_name

    def lines() -> Iterator[bytes]:
        with open_blob(payload_name(quote_id)) as payload:
            yield from payload
        for output in outputs:
            with output.open("rb") as results:
                yield from results

    floor_ns = 0
    every = lines()
    while block := list(islice(every, _ROWS_PER_BLOCK)):
        started_ns = time.process_time_ns()
        for line in block:
            orjson.dumps(orjson.loads(line))
        floor_ns += time.process_time_ns() - started_ns
    return floor_ns


def _megabytes(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
