"""Whether a quote can still be kept when it is accepted, and a ready new one where it cannot.

A lane that left rotation is no refusal while another one with the same pin can take its rows: the price stands, the
house bears the difference, and the submitting step moves them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from accounts.selectors import Caller
from catalog.domain.records import Catalog, Rotation
from catalog.selectors import current_catalog
from ground import clock
from ground.errors import InvalidRequest, StoreFull
from routing.domain.moving import RowsToPlace, is_retired
from routing.domain.pins import BatchPlan, GroupPlan, LanePlan
from routing.domain.scoring import WorkflowProfile
from routing.models import Quote
from routing.payloads import body_naming, open_payload
from routing.services.admission import TakenCall
from routing.services.moves import find_lane, judge_others
from routing.services.quotes import create_quote


class _Standing(enum.Enum):
    KEPT = enum.auto()
    RETIRED = enum.auto()
    OUT = enum.auto()


def check_offer(caller: Caller, quote: Quote, plan: BatchPlan) -> None:
    """Refuse the whole accept when the pin of a group is retired, or no lane in rotation can take its rows.

    Raises:
        InvalidRequest: ``model.deprecated_post_quote`` with the successor as ``alternative``, or ``lane_unavailable``;
            each with the whole answer of a new ``quote`` of the same file, or null where it cannot be quoted.
    """
    # A call's first statement has read the versions.
    catalog = current_catalog(caller.catalog_versions if isinstance(caller, TakenCall) else None)
    standings = {group.index: _standing_of(catalog, caller, quote, plan, group) for group in plan.groups}
    retired = [group for group in plan.groups if standings[group.index] is _Standing.RETIRED]
    out = [group for group in plan.groups if standings[group.index] is _Standing.OUT]
    if not retired and not out:
        return
    successors = {group.index: _successor(catalog, group) for group in retired}
    offer = _new_offer(caller, quote, plan.workflow, successors)
    ready = f" The new quote {offer['id']} is ready." if offer else ""
    if retired:
        slug, successor = retired[0].model_slug, successors[retired[0].index]
        raise InvalidRequest(
            f"The model {slug!r} was retired after the quote."
            + (f" {successor!r} stands in its place." if successor else "")
            + f"{ready} Nothing was held.",
            code="model.deprecated_post_quote",
            param="quote_id",
            extra={"alternative": successor, "quote": offer},
        )
    raise InvalidRequest(
        f"The lane of {out[0].model_slug!r} was taken out of rotation after the quote, and no other can take its rows."
        f"{ready} Nothing was held.",
        code="lane_unavailable",
        param="quote_id",
        extra={"quote": offer},
    )


def _standing_of(catalog: Catalog, caller: Caller, quote: Quote, plan: BatchPlan, group: GroupPlan) -> _Standing:
    at = clock.now()
    for planned in group.lanes:
        lane = catalog.lanes.get((group.model_slug, planned.lane_id))
        is_gone = lane is None or is_retired(catalog, lane, at)
        if lane is not None and not is_gone and lane.rotation is not Rotation.OUT:
            continue
        if not _another_lane_takes(caller, quote, plan.workflow, group, planned):
            return _Standing.RETIRED if is_gone else _Standing.OUT
    return _Standing.KEPT


def _another_lane_takes(
    caller: Caller, quote: Quote, workflow: WorkflowProfile, group: GroupPlan, planned: LanePlan
) -> bool:
    with open_payload(quote.public_id) as payload:
        numbers = payload.rows_of(planned.index)
        rows = RowsToPlace(
            model_slug=group.model_slug,
            model_snapshot=group.model_snapshot,
            tried_lane_ids=(planned.lane_id,),
            row_count=planned.row_count,
            input_tokens=planned.input_tokens,
            minutes_left=int(settings.BATCH_WINDOW.total_seconds() // 60),
            judgements=judge_others(payload, numbers, model_slug=group.model_slug, lane_id=planned.lane_id),
        )
    kind, at = caller.organisation.kind, clock.now()
    return find_lane(rows, kind=kind, workflow=workflow, at=at) is not None


def _successor(catalog: Catalog, group: GroupPlan) -> str | None:
    model = catalog.models.get(group.model_slug)
    return model.successor_slug if model else None


def _new_offer(
    caller: Caller, quote: Quote, workflow: WorkflowProfile, successors: Mapping[int, str | None]
) -> dict[str, Any] | None:
    """Quote the same file again, each retired group under its successor; None where that gives no quote.

    The workflow is the quote's own: its later edits are not what was asked for.
    Only files that a direct call would take: a larger one is not parsed while its customer waits for an accept.
    """
    named = {index: slug for index, slug in successors.items() if slug is not None}
    if len(named) < len(successors) or quote.body_size_bytes > settings.QUOTE_BODY_MAX_BYTES:
        return None
    try:
        body = body_naming(quote.public_id, named)
        made = create_quote(caller=caller, body=body, workflow=workflow)
    except (FileNotFoundError, InvalidRequest, StoreFull):
        return None
    return {**made.answer, "timings_ms": made.timings_ms}
