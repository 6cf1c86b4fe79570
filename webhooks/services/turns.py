"""One turn of sending: claim, send at once what may be sent at once, record, until nothing is due."""

from __future__ import annotations

import logging
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Final

from django.conf import settings

from ground.leases import unless_lost
from webhooks.domain.records import Answer
from webhooks.sender import Courier
from webhooks.services.deliveries import Order, claim_due, record_answer

logger = logging.getLogger(__name__)

SLOT_COUNT: Final = 100
# After this nothing new is claimed; what is in flight ends within the sender's deadline.
TURN_SECONDS: Final = 20.0
# How soon a turn looks for new work while its sends are under way.
LOOK_SECONDS: Final = 0.2


def deliver_due(*, courier: Courier | None = None, slot_count: int = SLOT_COUNT) -> int:
    """Send what is due, as long as anything is and the turn lasts; give how many attempts were made.

    The network runs in the courier's own thread, the database only in this one; no transaction is open while anything
    is sent. A turn may be killed at any instruction: what it had claimed is due again when its lease ends.
    """
    sender = courier or Courier(listed=settings.WEBHOOK_ALLOWED_RECEIVERS)
    claims_until = time.monotonic() + TURN_SECONDS
    in_flight: dict[Future[Answer], Order] = {}
    attempt_count = 0
    with sender:
        while True:
            if time.monotonic() < claims_until:
                in_flight |= {sender.send(order.parcel): order for order in claim_due(slot_count - len(in_flight))}
            if not in_flight:
                return attempt_count
            done, _ = wait(in_flight, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                attempt_count += 1
                _record(in_flight.pop(future), future)


def _record(order: Order, future: Future[Answer]) -> None:
    error = future.exception()
    if error is not None:
        # A bug of ours is not the receiver's failure: the lease runs out and it is tried again.
        logger.error("sending event %s failed here", order.parcel.event_id, exc_info=error)
        return
    with unless_lost():
        record_answer(order, future.result())
