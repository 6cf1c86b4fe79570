"""What the driver's processes do for one batch: the customer's calls, then each task of the engine once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.db import connection

from accounts.selectors import caller_by_key
from ground import clock, fault_points
from ground.errors import InvalidRequest
from routing import tasks as routing_tasks
from routing.services.batches import accept_quote
from routing.services.closing import cancel_batch
from tests.faults.driver import Order
from webhooks import tasks as webhooks_tasks

TASKS: tuple[Callable[[], None], ...] = (
    routing_tasks.price_files,
    routing_tasks.validate_batches,
    routing_tasks.start_sub_lanes,
    routing_tasks.submit_jobs,
    routing_tasks.poll_jobs,
    routing_tasks.collect_jobs,
    routing_tasks.submit_jobs,
    routing_tasks.finish_batches,
    routing_tasks.learn_from_batches,
    routing_tasks.gather_notices,
    webhooks_tasks.deliver_due,
)


def carry_on(order: Order) -> None:
    """Do everything that is due now, in the order in which it becomes due."""
    fault_points.arm(order.fault_points, Path(order.marker_folder))
    with connection.cursor() as cursor:
        cursor.execute("SELECT lanehouse_now()")
        at = cursor.fetchone()[0]
    clock.use_source(lambda: at)
    caller = caller_by_key(order.api_key)
    # As a client does that had no answer: the same call again.
    if order.accepts:
        accepted = accept_quote(caller=caller, quote_id=order.quote_id, metadata=None)
        if order.cancels:
            with suppress(InvalidRequest):
                cancel_batch(organisation=caller.organisation, public_id=accepted.batch.public_id)
    for task in TASKS:
        task()
