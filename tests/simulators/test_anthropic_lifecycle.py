"""A batch's states at the stand-in Anthropic follow from the clock."""

from datetime import UTC, datetime

import anthropic
import pytest

from tests.simulators.claude import AnthropicDriver, row, rows
from tests.simulators.driver import FROZEN_AT


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(FROZEN_AT + seconds, UTC)


def test_only_processing_is_counted_before_the_end(claude: AnthropicDriver) -> None:
    batch = claude.create([*rows(99), row("bad", max_tokens=0)])
    seen = []
    for seconds in (0, 6, 5, 0.99, 0.01):
        claude.control.advance(seconds)
        batch = claude.batches.retrieve(batch.id)
        counts = batch.request_counts
        seen.append((batch.processing_status, counts.processing, counts.succeeded, counts.errored))
    assert seen == [("in_progress", 100, 0, 0)] * 4 + [("ended", 0, 99, 1)]
    assert (batch.created_at, batch.ended_at) == (at(0), at(12))


def test_asking_once_late_or_often_gives_the_same_results(claude: AnthropicDriver) -> None:
    often, late = claude.create(rows(30)), claude.create(rows(30))
    for _ in range(12):
        claude.control.advance(0.5)
        claude.batches.retrieve(often.id)
    often, late = claude.batches.retrieve(often.id), claude.batches.retrieve(late.id)
    assert often.ended_at == late.ended_at
    assert claude.lines(often) == claude.lines(late)


def test_a_canceled_batch_keeps_what_was_done(claude: AnthropicDriver) -> None:
    batch = claude.create(rows(20))
    claude.control.advance(1.5)
    batch = claude.batches.cancel(batch.id)
    assert (batch.processing_status, batch.cancel_initiated_at) == ("canceling", at(1.5))
    assert claude.batches.cancel(batch.id).processing_status == "canceling"
    assert batch.request_counts.to_dict() == {
        "processing": 20,
        "succeeded": 0,
        "errored": 0,
        "canceled": 0,
        "expired": 0,
    }
    claude.control.advance(1)
    batch = claude.batches.retrieve(batch.id)
    assert (batch.processing_status, batch.ended_at) == ("ended", at(2.5))
    assert (batch.request_counts.succeeded, batch.request_counts.canceled) == (5, 15)
    kinds = [result["type"] for result in claude.results(batch).values()]
    assert (kinds.count("succeeded"), kinds.count("canceled")) == (5, 15)


def test_an_ended_batch_cannot_be_canceled(claude: AnthropicDriver) -> None:
    batch = claude.run(rows(1))
    with pytest.raises(anthropic.BadRequestError, match="ended"):
        claude.batches.cancel(batch.id)


def test_a_batch_expires_after_a_day_with_what_was_done(claude: AnthropicDriver) -> None:
    claude.control.change_settings(rows_per_second=2 / 86_400)
    batch = claude.run(rows(5), seconds=90_000)
    assert (batch.processing_status, batch.ended_at) == ("ended", at(86_400))
    assert (batch.request_counts.succeeded, batch.request_counts.expired) == (1, 4)
    assert sorted(result["type"] for result in claude.results(batch).values()) == ["expired"] * 4 + ["succeeded"]


def test_the_speed_can_be_turned_while_a_batch_runs(claude: AnthropicDriver) -> None:
    batch = claude.create(rows(100))
    claude.control.advance(2)
    claude.control.change_settings(rows_per_second=0)
    claude.control.advance(5_000)
    assert claude.batches.retrieve(batch.id).processing_status == "in_progress"
    claude.control.change_settings(rows_per_second=None)
    claude.control.advance(1)
    assert claude.batches.retrieve(batch.id).ended_at == at(5_003)


def test_the_same_request_always_gets_the_same_message(claude: AnthropicDriver) -> None:
    first, second = (claude.message(row(name, "Tell me of the Ebro.")) for name in ("a", "b"))
    assert first == second
    assert claude.message(row("c", "Tell me of the Duero."))["content"] != first["content"]
    assert claude.message(row("d", "Tell me of the Ebro.", model="claude-opus-5"))["content"] != first["content"]


def test_the_state_brings_every_batch_to_the_present(claude: AnthropicDriver) -> None:
    claude.create(rows(2))
    claude.control.advance(60)
    assert claude.control.state()["batches_by_status"] == {"ended": 1}


def test_a_cached_prefix_is_written_once_and_then_read(claude: AnthropicDriver) -> None:
    shared = [{"type": "text", "text": "river " * 2_000, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    batch = claude.run([row(f"row-{number}", f"Question {number}", system=shared) for number in range(5)])
    usages = [line["result"]["message"]["usage"] for line in claude.lines(batch)]
    prefix_tokens = usages[0]["cache_creation_input_tokens"]
    assert prefix_tokens >= 2_000
    assert [usage["cache_creation"]["ephemeral_1h_input_tokens"] for usage in usages] == [prefix_tokens, 0, 0, 0, 0]
    assert [usage["cache_read_input_tokens"] for usage in usages] == [0] + [prefix_tokens] * 4
    assert {usage["input_tokens"] for usage in usages} == {3 + 4 + 3}
