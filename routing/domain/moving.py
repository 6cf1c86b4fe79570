"""Where rows go when their lane cannot do them: another lane with the same pin, never the same one twice.

Used when an attempt failed on the lane's side, and when a lane leaves rotation before its rows were submitted.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from catalog.domain.records import Catalog, Lane
from routing.domain.scoring import GroupDemand, WorkflowProfile, rank_lanes


def next_lane(
    catalog: Catalog,
    *,
    model_slug: str,
    model_snapshot: str,
    tried_lane_ids: Collection[str],
    demand: GroupDemand,
    workflow: WorkflowProfile,
    minutes_left: int,
    at: datetime,
) -> Lane | None:
    """Give the best lane that may take rows now, or None.

    Args:
        catalog: With its SLA snapshot.
        model_slug: The model of the rows' group.
        model_snapshot: The pin; a lane with another one is no substitute.
        tried_lane_ids: Lanes the rows have been on.
        demand: How many rows, and their estimated tokens.
        workflow: Whose penalties rank the lanes. The charge of the rows does not change, so no fee is counted.
        minutes_left: Until the batch's window ends; a lane whose median is longer is no help.
        at: The instant by which a lane counts as retired.
    """
    model = catalog.models.get(model_slug)
    if model is None:
        return None
    lanes = [
        lane
        for lane in model.lanes
        if lane.model_snapshot == model_snapshot
        and lane.lane_id not in tried_lane_ids
        and (lane.retires_at is None or lane.retires_at > at)
        and catalog.sla.health(model_slug, lane.lane_id).p50_completion_minutes <= minutes_left
    ]
    eligible = rank_lanes(lanes, catalog.sla, workflow, demand, 0).eligible
    return eligible[0].lane if eligible else None
