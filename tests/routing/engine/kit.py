"""What the engine's tests do: send files, let time pass at our place and the provider's, do steps at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connections

from catalog.models import Lane
from ground.leases import Lease, claim
from routing.models import Batch, JobState, ProviderJob, SubLane
from routing.services import collect, dispatch, finish
from routing.services.batches import accept_quote
from routing.services.quotes import create_quote
from routing.workflows import DEFAULT_WORKFLOW
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.laws import ENDED, assert_laws
from tests.harness.world import Tenant, do_due_steps

MODEL = "gpt-4o-mini"
STEPS: dict[str, Callable[[], bool]] = {
    "start": dispatch.start_next_sub_lane,
    "submit": dispatch.submit_next_job,
    "poll": collect.poll_next_job,
    "collect": collect.collect_next_job,
    "finish": finish.finish_next_batch,
}
JOB_STATES = tuple(JobState.values)


def chat_file(*contents: str, model: str = MODEL, max_tokens: int = 12) -> bytes:
    """A file of one row for each content."""
    return b"".join(
        json.dumps(
            {
                "custom_id": f"row-{number}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {
                    "model": model,
                    "messages": [{"role": "user", "content": content}],
                    "max_tokens": max_tokens,
                },
            }
        ).encode()
        + b"\n"
        for number, content in enumerate(contents)
    )


def questions(count: int) -> bytes:
    return chat_file(*(f"Which river is number {number}?" for number in range(count)))


@dataclass(slots=True)
class Engine:
    """The engine on a stand-in provider, with both clocks in one hand."""

    simulator: RunningSimulator
    tenant: Tenant
    clock: Clock
    # Stand-ins of other providers, whose time passes with ours.
    others: tuple[RunningSimulator, ...] = ()

    def accept(self, body: bytes, tenant: Tenant | None = None) -> Batch:
        """Quote and accept a file."""
        caller = (tenant or self.tenant).caller
        made = create_quote(caller=caller, body=body, workflow=DEFAULT_WORKFLOW)
        return accept_quote(caller=caller, quote_id=made.answer["id"], metadata=None).batch

    def limit_lane(self, **limits: int) -> None:
        """Change what a job of the lane may be; for quotes to come."""
        Lane.objects.filter(model__slug=MODEL).update(**limits)

    def pass_time(self, seconds: float) -> None:
        """Let time pass here and at the provider."""
        self.clock.advance(seconds=seconds)
        for simulator in (self.simulator, *self.others):
            simulator.control.advance(seconds)

    def go_on(self, *, minutes: int, step_seconds: int = 61) -> None:
        """Do what is due, again and again while time passes."""
        for _ in range(minutes * 60 // step_seconds + 1):
            do_due_steps()
            self.pass_time(step_seconds)

    def finish(self, batch: Batch, *, minutes: int = 60, step_seconds: int = 61) -> Batch:
        """Let a batch come to its end and assert the laws."""
        for _ in range(minutes * 60 // step_seconds + 1):
            do_due_steps()
            batch.refresh_from_db()
            if batch.status in ENDED:
                # Its end may have called others to the room it left; they are at their provider then.
                do_due_steps()
                assert do_due_steps() == 0
                assert_laws(batch.public_id)
                assert not list((settings.STATE_DIR / "incoming").iterdir())
                return batch
            self.pass_time(step_seconds)
        raise AssertionError(f"{batch.status}: {[job.last_error for job in self.jobs(batch)]}")

    def fault(self, operation: str, kind: str, **fields: object) -> None:
        """Let the next call of an operation meet a fault; ``times`` changes how many do."""
        self.simulator.control.add_fault(kind, operation=operation, **{"times": 1, **fields})

    def row_fault(self, row: int, kind: str, **fields: object) -> None:
        """Let one row number of every job meet a fault."""
        self.simulator.control.add_fault(kind, custom_id=f"*r{row}", **fields)

    def calls(self, operation: str) -> int:
        """How often the provider was called."""
        return self.simulator.control.call_count(operation)

    def jobs(self, batch: Batch) -> list[ProviderJob]:
        return list(ProviderJob.objects.filter(batch=batch).order_by("sub_lane__number", "number"))

    def job(self, batch: Batch) -> ProviderJob:
        (job,) = self.jobs(batch)
        return job

    def sub_lane(self, batch: Batch) -> SubLane:
        return SubLane.objects.get(batch=batch)

    def standing(self, batch: Batch) -> tuple[str, str]:
        """State and reason of the only sub-lane."""
        sub_lane = self.sub_lane(batch)
        return sub_lane.state, sub_lane.reason


def claim_job() -> Lease:
    """Claim the next due job, as a worker does."""
    lease = claim(ProviderJob, state_field="state", states=JOB_STATES)
    assert lease is not None
    return lease


def all_at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Do calls in threads that start together, each with a connection of its own; give their answers."""
    barrier = threading.Barrier(len(calls))
    answers: list[Any] = [None] * len(calls)
    failures: list[BaseException] = []

    def run(position: int, call: Callable[[], Any]) -> None:
        try:
            barrier.wait(10)
            answers[position] = call()
        except BaseException as failure:  # noqa: BLE001 -- told to the test below
            failures.append(failure)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    return answers
