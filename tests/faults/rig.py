"""The engine on a test's own database, with every provider and a receiver, in processes that may be killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from billing.models import Receipt
from catalog.domain.records import Endpoint
from ground import clock
from ground.blobs import BlobWriter
from ground.fault_points import FaultPoint, marker_of
from ground.ids import new_public_id
from routing.models import Batch, StoredFile, SubLane
from routing.services.file_batches import create_file_batch
from routing.services.files import keep_file, uploaded_blob_name
from routing.services.provider_accounts import set_provider_account
from routing.services.quotes import create_quote
from routing.workflows import DEFAULT_WORKFLOW
from simulators.running import RunningSimulator
from tests.contracts.kits import KINDS, Kind
from tests.faults.driver import Order
from tests.faults.product import ROOT
from tests.faults.two_lanes import FILE, FLAKY_FAULT
from tests.harness.clock import Clock
from tests.harness.laws import ENDED, assert_laws, event_of, result_lines
from tests.harness.world import Tenant
from tests.webhooks.receivers import HttpReceiver, receiving
from webhooks.models import Delivery, DeliveryState

# Longer than every lease and every wait for an answer that may still come.
STEP_SECONDS = 31
STEPS_MAX_COUNT = 80


class Driver:
    """A process that forks the engine's processes."""

    def __init__(self, database_url: str, receiver: str) -> None:
        own = {
            "DJANGO_SETTINGS_MODULE": "config.settings.base",
            "DATABASE_URL": database_url,
            "CELERY_BROKER_URL": "",
            "LANEHOUSE_STATE_DIR": str(settings.STATE_DIR),
            "LANEHOUSE_ENCRYPTION_KEYS": ",".join(settings.ENCRYPTION_KEYS),
            "LANEHOUSE_DATABASE_POOL_MAX_SIZE": "0",
            "LANEHOUSE_WEBHOOK_ALLOWED_RECEIVERS": receiver,
            "LANEHOUSE_LEASE_SECONDS": "20",
            "LANEHOUSE_PROVIDER_TIMEOUT_SECONDS": "5",
            "LANEHOUSE_LOG_LEVEL": "ERROR",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.driver"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **own},
            text=True,
        )

    def begin(self, order: Order) -> None:
        """Let an order be carried out."""
        assert self._process.stdin is not None
        self._process.stdin.write(order.to_line())
        self._process.stdin.flush()

    def end(self) -> int:
        """Wait until it is done and give how it ended."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process, which has nothing left to do."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a batch has come to, without what is its own."""

    status: str
    lines: list[dict[str, Any]]
    receipt: dict[str, Any]
    lanes: list[tuple[str, str, int, int, int, int | None]]
    created_counts: dict[str, int]


@dataclass(slots=True)
class Rig:
    """Everything around the engine; one for the module."""

    simulators: dict[str, RunningSimulator]
    receiver: HttpReceiver
    drivers: tuple[Driver, Driver]
    undisturbed: dict[bool, Ended] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """One batch on the rig, and time in the test's hand."""

    rig: Rig
    tenant: Tenant
    clock: Clock
    folder: Path
    is_cancelled: bool
    is_by_file: bool = False
    key_name: str = field(default_factory=lambda: uuid.uuid4().hex)
    quote_id: str = ""
    exit_codes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set every provider to how it was, give it an account nobody has used, and quote or send the file."""
        for kind in KINDS:
            control = self.rig.simulators[kind.provider].control
            control.clear_faults()
            account = dict(kind.account(self.rig.simulators[kind.provider]))
            set_provider_account(
                provider=kind.provider,
                kind=self.tenant.organisation.kind,
                name="main",
                base_url=account["base_url"],
                api_key=self._key(kind),
                at=self.clock.now(),
            )
        self._simulator("anthropic").add_fault(**FLAKY_FAULT)
        # Two jobs are sent and the answer is lost; another never arrives.
        for provider in ("openai", "anthropic"):
            self._simulator(provider).add_fault("cut_after", operation="batches.create", times=1)
        self._simulator("bedrock").add_fault("cut_before", operation="create_model_invocation_job", times=1)
        # Rows that never are done are there to be cancelled.
        self._simulator("openai").change_settings(rows_per_second=0.0001 if self.is_cancelled else None)
        if self.is_by_file:
            stored = _stored(self.tenant)
            self.quote_id = create_file_batch(
                caller=self.tenant.caller, file_id=stored.public_id, endpoint=Endpoint.CHAT_COMPLETIONS, metadata=None
            ).batch.quote_id
            return
        self.quote_id = create_quote(caller=self.tenant.caller, body=FILE, workflow=DEFAULT_WORKFLOW).answer["id"]

    def go_on(self, *points: str, drivers: Sequence[Driver] = ()) -> None:
        """Let processes that may be killed at these points carry the batch on until it has ended and is told."""
        for step in range(STEPS_MAX_COUNT):
            order = Order(
                quote_id=self.quote_id,
                api_key=self.tenant.key_text,
                accepts=not self.is_by_file,
                # When the jobs are at their providers.
                cancels=self.is_cancelled and step > 0,
                fault_points=points,
                marker_folder=str(self.folder),
            )
            for driver in drivers or self.rig.drivers[:1]:
                driver.begin(order)
            for driver in drivers or self.rig.drivers[:1]:
                self.exit_codes.append(driver.end())
            if self._is_over():
                return
            self._pass_time()
        raise AssertionError(f"{self.exit_codes} {[(job.token, job.state, job.last_error) for job in self._jobs()]}")

    def killed_at(self) -> set[FaultPoint]:
        """Give the points at which processes of this run were killed."""
        return {point for point in FaultPoint if marker_of(point, self.folder).exists()}

    def assert_ended_as(self, other: Ended) -> None:
        """Assert the laws, and that everything is as with another batch of the file; short where it is not."""
        mine = self.ended()
        for name in Ended.__slots__:
            is_same = getattr(mine, name) == getattr(other, name)
            assert is_same, f"{name}: {str(getattr(mine, name))[:2_000]}\nnot {str(getattr(other, name))[:2_000]}"

    def ended(self) -> Ended:
        """Assert the laws of the batch and give what it has come to."""
        batch = self._batch()
        assert_laws(batch.public_id)
        self._assert_told_of_once(batch)
        receipt = Receipt.objects.get(batch_public_id=batch.public_id)
        own = re.compile(batch.public_id.removeprefix("batch_"))
        lines = [json.loads(own.sub("BATCH", json.dumps(line))) for line in result_lines(batch)]
        for line in lines:
            (line["response"] or {"body": {}})["body"].pop("created", None)
        return Ended(
            status=batch.status,
            lines=lines,
            receipt={
                "total": receipt.total_micro_usd,
                "lines": [
                    (line.group_key, line.kind, line.lane_id, line.tokens, int(line.exact_pico_usd))
                    for line in receipt.lines.order_by("pk")
                ],
            },
            lanes=[
                (
                    lane.lane_id,
                    lane.state,
                    lane.row_count,
                    lane.completed_count,
                    lane.failed_count,
                    lane.charge_micro_usd,
                )
                for lane in SubLane.objects.filter(batch=batch).order_by("number")
            ],
            created_counts={
                kind.provider: self._simulator(kind.provider).call_count(
                    kind.operations["submit"], self._key(kind).partition(":")[0]
                )
                for kind in KINDS
            },
        )

    def _assert_told_of_once(self, batch: Batch) -> None:
        """Assert one event, delivered at least once, always under its id and with its bytes."""
        event = event_of(batch)
        arrived = [each for each in self.rig.receiver.requests if batch.public_id.encode() in each.body]
        assert arrived
        assert {(each.headers["webhook-id"], each.body) for each in arrived} == {
            (event.public_id, bytes(event.payload))
        }
        assert [each.state for each in Delivery.objects.filter(event=event)] == [DeliveryState.DELIVERED]

    def _is_over(self) -> bool:
        batch = Batch.objects.filter(quote_id=self.quote_id).first()
        return (
            batch is not None
            and batch.status in ENDED
            and not batch.is_to_be_told
            and not Delivery.objects.exclude(state=DeliveryState.DELIVERED).exists()
        )

    def _pass_time(self) -> None:
        self.clock.advance(seconds=STEP_SECONDS)
        for simulator in self.rig.simulators.values():
            simulator.control.advance(STEP_SECONDS)

    def _batch(self) -> Batch:
        return Batch.objects.get(quote_id=self.quote_id)

    def _jobs(self) -> list[Any]:
        return list(self._batch().jobs.order_by("pk")) if Batch.objects.filter(quote_id=self.quote_id) else []

    def _simulator(self, provider: str) -> Any:
        return self.rig.simulators[provider].control

    def _key(self, kind: Kind) -> str:
        """Give a key of this run's own: what an account has from another run is nothing to it."""
        return f"AKID{self.key_name.upper()}:a-secret" if kind.provider == "bedrock" else f"sk-{self.key_name}"


def _stored(tenant: Tenant) -> StoredFile:
    """The file of these tests, uploaded."""
    public_id = new_public_id("file-", clock.now())
    with BlobWriter() as writer:
        writer.write(FILE)
        saving = writer.begin_save(uploaded_blob_name(public_id))
        return keep_file(caller=tenant.caller, public_id=public_id, filename="a.jsonl", saving=saving)


@contextmanager
def running_rig(folder: Path, database_url: str) -> Iterator[Rig]:
    """Run the providers and a receiver on threads, and the engine's drivers."""
    with ExitStack() as stack:
        simulators = {
            kind.provider: stack.enter_context(kind.start(folder / kind.provider, **kind.at_once)) for kind in KINDS
        }
        simulators["bedrock"].control.change_settings(min_record_count=100)
        receiver = stack.enter_context(receiving())
        drivers = (Driver(database_url, receiver.authority), Driver(database_url, receiver.authority))
        for driver in drivers:
            stack.callback(driver.stop)
        # What killed processes were writing; the product removes it after a day.
        stack.callback(shutil.rmtree, settings.STATE_DIR / "incoming", ignore_errors=True)
        yield Rig(simulators=simulators, receiver=receiver, drivers=drivers)
