"""One batch over Anthropic and Bedrock: what one cannot do, the other does, and the customer sees one shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from billing.models import AttemptFact, Receipt
from catalog.domain.records import Rotation
from catalog.models import Provider
from ground import clock
from routing.models import BatchStatus
from routing.services.provider_accounts import set_provider_account
from simulators.anthropic.running import running_simulator as running_anthropic
from simulators.bedrock.running import running_simulator as running_bedrock
from simulators.running import RunningSimulator
from tests.contracts.kits import bedrock_account
from tests.harness.laws import result_lines
from tests.routing.engine.kit import Engine, chat_file
from tests.routing.engine.lanes import counts_of, rotate
from tests.routing.engine.test_unclear_submits import CLAUDE, use_anthropic

DIRECT, BEDROCK = "anthropic-direct", "anthropic-bedrock-us-east-1"


@pytest.fixture
def claudes(engine: Engine, tmp_path: Path) -> Iterator[tuple[RunningSimulator, RunningSimulator]]:
    """Claude at Anthropic and at Bedrock, both without delays."""
    quick = {"rows_per_second": None}
    with (
        running_anthropic(tmp_path / "anthropic", **quick) as anthropic,
        running_bedrock(tmp_path / "bedrock", **quick) as bedrock,
    ):
        for simulator in (anthropic, bedrock):
            simulator.control.freeze(engine.clock.now().timestamp())
        engine.others = (anthropic, bedrock)
        use_anthropic(anthropic)
        set_provider_account(
            provider="bedrock", kind="customer", name="bedrock-customer", at=clock.now(), **bedrock_account(bedrock)
        )
        Provider.objects.filter(slug__in=["anthropic", "bedrock"]).update(has_adapter=True)
        for lane_id in (DIRECT, BEDROCK):
            rotate(lane_id, Rotation.IN, model=CLAUDE)
        yield anthropic, bedrock


def asked(count: int) -> bytes:
    return chat_file(*(f"Which river is number {number}?" for number in range(count)), model=CLAUDE)


def test_rows_that_anthropic_fails_are_answered_by_bedrock(
    engine: Engine, claudes: tuple[RunningSimulator, RunningSimulator]
) -> None:
    anthropic, _ = claudes
    # A hundred rows of a hundred and twenty, for Bedrock takes no fewer; the row's key ends in its number.
    for number in range(100):
        anthropic.control.add_fault("row_error", custom_id=f"*r{number}")
    batch = engine.finish(engine.accept(asked(120)))
    assert (batch.status, batch.completed_count) == (BatchStatus.COMPLETED, 120)
    assert counts_of(batch) == {DIRECT: (20, 20, 0, 100, 0), BEDROCK: (100, 100, 0, 0, 100)}
    lines = result_lines(batch)
    assert [line["lanehouse"]["lane_id"] for line in lines] == [BEDROCK] * 100 + [DIRECT] * 20
    assert {tuple(sorted(line["response"]["body"])) for line in lines} == {tuple(sorted(lines[0]["response"]["body"]))}
    receipt = Receipt.objects.get(batch_public_id=batch.public_id)
    assert ({line.lane_id for line in receipt.lines.all()}, receipt.fee_micro_usd) == ({DIRECT}, 20_000)
    accounts = AttemptFact.objects.filter(outcome="succeeded").values_list("provider_account", flat=True)
    assert (list(accounts).count("anthropic-customer"), list(accounts).count("bedrock-customer")) == (20, 100)


def test_too_few_rows_for_bedrock_end_where_they_failed(
    engine: Engine, claudes: tuple[RunningSimulator, RunningSimulator]
) -> None:
    claudes[0].control.add_fault("row_error", custom_id="*r3")
    batch = engine.finish(engine.accept(asked(110)))
    assert counts_of(batch) == {DIRECT: (110, 109, 1, 0, 0)}


def test_a_whole_batch_goes_to_bedrock_when_anthropic_leaves_rotation(
    engine: Engine, claudes: tuple[RunningSimulator, RunningSimulator]
) -> None:
    batch = engine.accept(asked(100))
    rotate(DIRECT, Rotation.OUT, model=CLAUDE)
    engine.finish(batch)
    assert counts_of(batch) == {DIRECT: (0, 0, 0, 100, 0), BEDROCK: (100, 100, 0, 0, 100)}
    assert claudes[0].control.call_count("batches.create") == 0
