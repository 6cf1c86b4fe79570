"""Turns of sending: claim, send at once what may be sent at once, record, until nothing is due."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Final

from django.conf import settings

from ground.fault_points import FaultPoint, reach
from ground.leases import unless_lost
from ground.wake import wake
from webhooks.domain.records import Answer
from webhooks.sender import Courier
from webhooks.services.deliveries import Order, claim_due, record_answer

logger = logging.getLogger(__name__)

SLOT_COUNT: Final = 100
# After this a turn claims nothing more; what it has in flight ends within the sender's deadline.
TURN_SECONDS: Final = 60.0
# How soon a turn looks for new work while its sends are under way.
LOOK_SECONDS: Final = 0.2

# Held by the turn of this process that claims.
_claiming = threading.Lock()
_process_ends = threading.Event()


class _Turn:
    """One turn. The network runs in the courier's own thread, the database only in the caller's."""

    def __init__(self, courier: Courier, slot_count: int) -> None:
        self.attempt_count = 0
        self._courier = courier
        self._slot_count = slot_count
        self._in_flight: dict[Future[Answer], Order] = {}

    @property
    def is_waiting(self) -> bool:
        """Say whether attempts are under way."""
        return bool(self._in_flight)

    def work(self) -> None:
        """Claim, send and record until nothing is due or under way, or the time to claim is over."""
        claims_until = time.monotonic() + TURN_SECONDS
        while time.monotonic() < claims_until and not _process_ends.is_set():
            for order in claim_due(self._slot_count - len(self._in_flight)):
                reach(FaultPoint.DELIVER_CLAIMED)
                self._in_flight[self._courier.send(order.parcel)] = order
            if not self._in_flight:
                return
            self._record_done()

    def finish(self) -> None:
        """Record what is still under way."""
        while self._in_flight:
            self._record_done()

    def _record_done(self) -> None:
        done, _ = wait(self._in_flight, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            self.attempt_count += 1
            _record(self._in_flight.pop(future), future)


def deliver_due(courier: Courier, *, slot_count: int = SLOT_COUNT) -> int:
    """Send what is due, as long as anything is and the turn lasts; give how many attempts were made.

    No transaction is open while anything is sent. A turn may be killed at any instruction: what it had claimed is due
    again when its lease ends.
    """
    turn = _Turn(courier, slot_count)
    with courier:
        turn.work()
        turn.finish()
    return turn.attempt_count


def take_turn() -> None:
    """Send what is due, unless another turn of this process does so already.

    A turn that claims no more only waits for its slowest receivers; the next one claims meanwhile, in another thread,
    so that those receivers keep nobody waiting.
    """
    if not _claiming.acquire(blocking=False):
        return
    courier = Courier(listed=settings.WEBHOOK_ALLOWED_RECEIVERS)
    turn = _Turn(courier, SLOT_COUNT)
    with courier:
        try:
            turn.work()
        finally:
            _claiming.release()
        if turn.is_waiting:
            wake("webhooks.deliver_due")
        turn.finish()


def end_turns() -> None:
    """Let this process claim nothing more: it is about to end."""
    _process_ends.set()


def _record(order: Order, future: Future[Answer]) -> None:
    error = future.exception()
    if error is not None:
        # A bug of ours is not the receiver's failure: the lease runs out and it is tried again.
        logger.error("sending event %s failed here", order.parcel.event_id, exc_info=error)
        return
    reach(FaultPoint.DELIVER_SENT)
    with unless_lost():
        record_answer(order, future.result())
