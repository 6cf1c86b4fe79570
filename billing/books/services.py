"""Keeping the books provable: snapshots of balances, and proofs."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError, transaction

from accounts.audit import record
from accounts.models import User
from billing.books.models import LedgerSnapshot, ProofRun
from billing.models import LedgerLeg
from billing.selectors import prove_ledger
from ground import clock
from ground.functions import call
from ground.wake import wake

# No transaction is under way for so long: what was booked up to the cutoff is there when the snapshot is made.
SNAPSHOT_LAG: Final = timedelta(hours=1)
SNAPSHOT_EVERY: Final = timedelta(hours=1)
PROVE_EVERY: Final = timedelta(hours=24)
_log = logging.getLogger(__name__)


@transaction.atomic
def take_due_snapshot() -> datetime | None:
    """Keep the balances of an hour ago, unless that was done within the hour; give the cutoff."""
    cutoff_at = clock.now() - SNAPSHOT_LAG
    last = LedgerSnapshot.objects.order_by("-cutoff_at").first()
    if last is not None and last.cutoff_at > cutoff_at - SNAPSHOT_EVERY:
        return None
    (moved_count,) = call("billing_take_snapshot", [cutoff_at], "timestamptz")
    return None if moved_count is None else cutoff_at


@transaction.atomic
def request_proof(user: User) -> None:
    """Ask for a proof of all books; one that is already asked for is the same."""
    try:
        with transaction.atomic():
            ProofRun.objects.create(requested_at=clock.now(), requested_by=user)
    except IntegrityError:
        return
    record("ledger.proof_requested", object_type="ledger", object_id="ledger", user=user)
    wake("billing.prove_ledger")


def prove_when_due() -> ProofRun | None:
    """Prove all books if it was asked for, or if a day has passed; keep the answer and ring where a law is broken.

    Never inside a transaction: the proof reads in a snapshot of its own.
    """
    run = ProofRun.objects.filter(finished_at=None).first()
    if run is None:
        last = ProofRun.objects.order_by("-pk").first()
        if last is not None and last.requested_at > clock.now() - PROVE_EVERY:
            return None
        try:
            run = ProofRun.objects.create(requested_at=clock.now())
        except IntegrityError:
            return None
    begun_ns = time.monotonic_ns()
    proof = prove_ledger()
    run.checks = [asdict(check) for check in proof.checks]
    run.holds = proof.holds
    run.leg_count = LedgerLeg.objects.count()
    run.duration_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
    run.finished_at = clock.now()
    run.save()
    if not proof.holds:
        broken = [check.rule for check in proof.checks if check.violation_count]
        _log.error("the books do not hold: %s", ", ".join(broken))
    return run


def snapshot_now(cutoff_at: datetime) -> int | None:
    """Keep the balances at an instant that no entry on its way can be booked before; give how many accounts moved."""
    with transaction.atomic():
        (moved_count,) = call("billing_take_snapshot", [cutoff_at], "timestamptz")
    return None if moved_count is None else int(moved_count)
