"""Telling of batches that have ended: one event at once for dear ones, a gathered event each 30 s for the others.

Event and fact are one transaction. A batch is told of exactly once: dear batches where they end, low-cost ones by the
flag that is cleared where their event is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import orjson
from django.conf import settings
from django.db import transaction

from accounts.models import Organisation
from ground import clock
from ground.fault_points import FaultPoint, reach
from ground.ids import new_public_id
from routing.domain.scoring import WebhookMode, WorkflowProfile
from routing.models import Batch, SubLane
from webhooks.domain.records import PAYLOAD_MAX_BYTES
from webhooks.services.events import publish_event

GATHERED_TYPE: Final = "batches.completed"
ITEMS_MAX_COUNT: Final = 100
_ORGANISATIONS_PER_TURN: Final = 200


def tell_of(batch: Batch, sub_lanes: list[SubLane], workflow: WorkflowProfile, at: datetime) -> None:
    """Publish the event of a batch that ends in this transaction, or leave it to the gatherer.

    A low-cost batch is left to the gatherer, unless its workflow wants an event for each. ``batch.is_to_be_told`` is
    set, not saved: the caller saves the batch. One that never held anything has no charge, and counts as low-cost.
    """
    is_low_cost = (batch.charge_micro_usd or 0) < settings.LOW_COST_BELOW_MICRO_USD
    if is_low_cost and workflow.webhook_mode is WebhookMode.GATHER:
        batch.is_to_be_told = True
        return
    public_id = new_public_id("evt_", at)
    event_type = f"batch.{batch.status}"
    payload = {
        "id": public_id,
        "object": "event",
        "created_at": int(at.timestamp()),
        "type": event_type,
        "data": batch_item(batch, sub_lanes),
    }
    publish_event(
        organisation=batch.organisation,
        type=event_type,
        payload=_bounded(payload),
        happened_at=at,
        business_key=f"batch ended {batch.public_id}",
        public_id=public_id,
    )


def gather_notices() -> int:
    """Publish the gathered events that are due, at most 100 batches and 20 kB each; give how many batches were told."""
    waiting = (
        Batch.objects.filter(is_to_be_told=True)
        .order_by("organisation_id")
        .values_list("organisation_id", flat=True)
        .distinct()[:_ORGANISATIONS_PER_TURN]
    )
    return sum(_gather(organisation_id) for organisation_id in list(waiting))


def _gather(organisation_id: int) -> int:
    told_count = 0
    while True:
        with transaction.atomic():
            batches = list(
                Batch.objects.select_for_update(skip_locked=True, of=("self",))
                .select_related("output_file", "error_file")
                .filter(organisation_id=organisation_id, is_to_be_told=True)
                .order_by("pk")[:ITEMS_MAX_COUNT]
            )
            if not batches:
                return told_count
            told = _publish(Organisation.objects.get(pk=organisation_id), batches)
            Batch.objects.filter(pk__in=[batch.pk for batch in told]).update(is_to_be_told=False)
            reach(FaultPoint.GATHER_BEFORE_COMMIT)
        reach(FaultPoint.GATHER_AFTER_COMMIT)
        told_count += len(told)


def _publish(organisation: Organisation, batches: list[Batch]) -> list[Batch]:
    """Make one event of as many of the batches as fit, and give those."""
    at = clock.now()
    public_id = new_public_id("evt_", at)
    lanes: dict[int, list[SubLane]] = {batch.pk: [] for batch in batches}
    for sub_lane in SubLane.objects.filter(batch__in=batches).order_by("batch_id", "number"):
        lanes[sub_lane.batch_id].append(sub_lane)
    head: dict[str, Any] = {
        "id": public_id,
        "object": "event",
        "created_at": int(at.timestamp()),
        "type": GATHERED_TYPE,
        "data": {"batches": []},
    }
    told: list[Batch] = []
    size_bytes = len(orjson.dumps(head))
    for batch, item in _items(batches, lanes):
        size_bytes += len(orjson.dumps(item)) + 1
        if told and size_bytes > PAYLOAD_MAX_BYTES:
            break
        told.append(batch)
        head["data"]["batches"].append(item)
    names = " ".join(batch.public_id for batch in told)
    publish_event(
        organisation=organisation,
        type=GATHERED_TYPE,
        payload=_bounded(head),
        happened_at=at,
        business_key=f"gathered {hashlib.sha256(names.encode()).hexdigest()}",
        public_id=public_id,
    )
    return told


def _items(batches: list[Batch], lanes: dict[int, list[SubLane]]) -> Iterator[tuple[Batch, dict[str, Any]]]:
    for batch in batches:
        yield batch, batch_item(batch, lanes[batch.pk])


def batch_item(batch: Batch, sub_lanes: list[SubLane]) -> dict[str, Any]:
    """Give what an event says of a batch; its lanes add up to its counts and its charge."""
    return {
        "id": batch.public_id,
        "status": batch.status,
        "quote_id": batch.quote_id,
        "request_counts": {
            "total": batch.row_count,
            "completed": batch.completed_count,
            "failed": batch.failed_count,
        },
        "output_file_id": batch.output_file.public_id if batch.output_file else None,
        "error_file_id": batch.error_file.public_id if batch.error_file else None,
        "receipt_id": batch.receipt_id or None,
        "charge_micro_usd": batch.charge_micro_usd,
        "lanes": [
            {
                "lane_id": sub_lane.lane_id,
                "model": sub_lane.model_slug,
                "status": sub_lane.state,
                "row_count": sub_lane.row_count,
                "completed_count": sub_lane.completed_count,
                "failed_count": sub_lane.failed_count,
                "charge_micro_usd": sub_lane.charge_micro_usd,
            }
            for sub_lane in sub_lanes
        ],
    }


def _bounded(payload: dict[str, Any]) -> bytes:
    """Give the bytes of a payload; one batch with very many lanes is told without them, its id is enough to ask."""
    content = orjson.dumps(payload)
    if len(content) <= PAYLOAD_MAX_BYTES:
        return content
    for item in [payload["data"], *payload["data"].get("batches", [])]:
        item.pop("lanes", None)
    return orjson.dumps(payload)
