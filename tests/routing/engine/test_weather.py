"""A long run of bad luck, drawn by number: whatever comes together, the laws hold at the end."""

from __future__ import annotations

import random

import pytest

from ground.leases import claim
from routing.models import Batch, JobState, ProviderJob
from routing.services.lanes import measure_lanes
from tests.harness.laws import ENDED, assert_laws
from tests.routing.engine.kit import STEPS, Engine, all_at_once, chat_file

CALL_FAULTS = ({"kind": "http_error", "status_code": 500}, {"kind": "http_error", "status_code": 429},
               {"kind": "html_page"}, {"kind": "cut_before"}, {"kind": "cut_after"})  # fmt: skip
OPERATIONS = ("files.create", "batches.create", "batches.list", "batches.retrieve", "files.content")
ROW_FAULTS = ("row_error", "row_unrun", "row_missing", "row_duplicated", "row_foreign")


def disturb(engine: Engine, luck: random.Random) -> None:
    """Let one thing go wrong."""
    match luck.randrange(5):
        case 0 | 1:
            fault = dict(luck.choice(CALL_FAULTS))
            engine.fault(luck.choice(OPERATIONS), str(fault.pop("kind")), **fault)
        case 2:
            engine.row_fault(luck.randrange(9), luck.choice(ROW_FAULTS), times=1)
        case 3:
            code = luck.choice(["token_limit_exceeded", "token_limit_exceeded", "server_error"])
            engine.simulator.control.add_fault("fail_batch", times=1, code=code)
        case _:
            # A worker claims a job and is never heard of again.
            claim(ProviderJob, state_field="state", states=tuple(JobState.values))


@pytest.mark.parametrize("number", range(8))
def test_the_laws_hold_after_any_weather(engine: Engine, number: int) -> None:
    luck = random.Random(number)
    engine.limit_lane(maximum_rows_per_job=luck.randint(2, 6), enqueued_tokens_limit=luck.choice([60, 10_000]))
    for size in (9, 5, 1):
        engine.accept(chat_file(*(f"{luck.random()} [[sim:tokens={luck.randint(1, 9)}]]" for _ in range(size))))
    for turn in range(400):
        if turn < 25:
            disturb(engine, luck)
        if luck.random() < 0.2:
            all_at_once(*luck.sample(list(STEPS.values()), 3))
        for _ in range(6):
            luck.choice(list(STEPS.values()))()
        engine.pass_time(luck.choice([0, 1, 30, 90]))
        if all(batch.status in ENDED for batch in Batch.objects.all()):
            break
    for batch in Batch.objects.all():
        assert_laws(batch.public_id)
    assert measure_lanes() == 1
