"""Parts of the running product are killed in the middle of a batch; what comes out is what comes out undisturbed."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.conftest import StartProduct
from tests.faults.product import ROOT, Customer, Product, wait_until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400), pytest.mark.xdist_group("product")]
ROW_COUNT = 60
ENGINE = "engine@%h"
# Three jobs of twenty rows at this speed: a middle of some seconds.
ROWS_PER_SECOND = 6.0


def _content(number: int) -> str:
    return "[[sim:fail]]" if number % 17 == 5 else f"Which river is number {number}?"


FILE = b"".join(
    json.dumps(
        {
            "custom_id": f"row-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": "gpt-4o-mini",
                "messages": [{"role": "user", "content": _content(number)}],
                "max_tokens": 16,
            },
        }
    ).encode()
    + b"\n"
    for number in range(ROW_COUNT)
)


def _without_estimates(receipt: dict[str, Any]) -> dict[str, Any]:
    """Give a receipt without what its quote said: a settled batch makes the next quote of its file better."""
    assert receipt["released_micro_usd"] == receipt["reserved_micro_usd"] - receipt["total_micro_usd"]
    quoted = {"reserved_micro_usd", "released_micro_usd", "estimate_total_micro_usd"}
    return {name: value for name, value in receipt.items() if name not in quoted}


@dataclass(slots=True)
class World:
    """A running product, and what a batch of the file gives when nobody disturbs it."""

    product: Product
    results: bytes = b""
    receipt: dict[str, Any] | None = None

    def customer(self) -> Customer:
        return Customer(self.product)

    def learn(self) -> None:
        """Send the file once, undisturbed and fast."""
        customer = self.customer()
        batch_id = customer.send(FILE)
        customer.wait_for_the_end(batch_id)
        self.product.prove(batch_id)
        self.results, self.receipt = customer.results(batch_id), _without_estimates(customer.receipt(batch_id))

    def send_slowly(self) -> str:
        """Send the file so that it has a middle, and wait for that."""
        self.product.simulator.change_settings(rows_per_second=ROWS_PER_SECOND)
        batch_id = self.customer().send(FILE)
        self.customer().wait_for_the_middle(batch_id)
        return batch_id

    def assert_same_end(self, batch_id: str) -> None:
        """Assert that a batch ends as the undisturbed one did."""
        customer = self.customer()
        customer.wait_for_the_end(batch_id)
        assert customer.results(batch_id) == self.results
        assert _without_estimates(customer.receipt(batch_id)) == self.receipt
        self.product.prove(batch_id)
        self.product.remember()


@pytest.fixture(scope="module")
def world(start_product: StartProduct) -> World:
    made = World(start_product())
    made.product.simulator.change_settings(rows_per_second=None, validation_seconds=0, finalizing_seconds=0)
    made.learn()
    assert made.results.count(b"\n") == ROW_COUNT
    return made


def test_a_killed_web_changes_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    world.product.kill_child("config.web")
    world.assert_same_end(batch_id)


def test_a_killed_child_of_the_engine_changes_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    children = world.product.child(ENGINE).children(recursive=True)
    assert children
    world.product.kill(children[:1])
    world.assert_same_end(batch_id)


def test_a_killed_engine_changes_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    world.product.kill_child(ENGINE)
    world.assert_same_end(batch_id)


def test_an_engine_killed_again_and_again_on_the_whole_way_changes_nothing(world: World) -> None:
    world.product.simulator.change_settings(rows_per_second=ROWS_PER_SECOND)
    batch_id = world.customer().send(FILE)
    for _ in range(8):
        children = [each for each in world.product.child(ENGINE).children(recursive=True) if each.cpu_times().user > 0]
        world.product.kill(children)
        wait_until(lambda: world.product.child(ENGINE).children(), 30, world.product.said)
    world.assert_same_end(batch_id)


def test_a_killed_beat_changes_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    world.product.kill_child("beat")
    world.assert_same_end(batch_id)


def test_a_killed_provider_changes_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    world.product.kill_child("simulators.openai")
    world.assert_same_end(batch_id)


def test_a_second_beat_changes_nothing(world: World) -> None:
    beat = world.product.child("beat")
    second = subprocess.Popen(
        beat.cmdline(), cwd=ROOT, env=beat.environ(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        batch_id = world.send_slowly()
        assert second.poll() is None
        world.assert_same_end(batch_id)
    finally:
        second.kill()
        second.wait()


def test_a_killed_postgresql_changes_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    postmaster = world.product.child("postgres")
    world.product.kill([postmaster])
    world.assert_same_end(batch_id)


def test_a_killed_supervisor_and_a_new_start_change_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    world.product.kill_supervisor()
    world.product.start()
    world.assert_same_end(batch_id)


def test_a_clean_stop_and_a_new_start_change_nothing(world: World) -> None:
    batch_id = world.send_slowly()
    world.product.stop()
    assert not os.path.lexists(world.product.state / "env")
    world.product.start()
    world.assert_same_end(batch_id)


def test_without_a_broker_the_sweeps_alone_finish_and_beat_may_be_killed(
    world: World, start_product: StartProduct
) -> None:
    alone = World(start_product(CELERY_BROKER_URL=""), results=world.results, receipt=world.receipt)
    with pytest.raises(LookupError):
        alone.product.child(ENGINE)
    batch_id = alone.send_slowly()
    alone.product.kill_child("beat")
    alone.assert_same_end(batch_id)
