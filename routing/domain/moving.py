"""Where rows go when their lane cannot do them: another lane with the same pin, never the same one twice.

Used when an attempt failed on the lane's side, and when a lane leaves rotation before its rows were submitted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from catalog.domain.records import Catalog, Lane
from routing.domain.parameters.judgement import LaneJudgement
from routing.domain.scoring import GroupDemand, WorkflowProfile, rank_lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToPlace:
    """Rows of one model group that need a lane.

    ``model_snapshot`` is their pin: a lane with another one is no substitute. ``tried_lane_ids`` are the lanes they
    have been on, ``input_tokens`` is an estimate, ``minutes_left`` the time until the batch's window ends.
    ``judgements`` says by lane id what lanes make of the rows' parameters; a lane that is missing carries all.
    """

    model_slug: str
    model_snapshot: str
    tried_lane_ids: tuple[str, ...]
    row_count: int
    input_tokens: int
    minutes_left: int
    judgements: Mapping[str, LaneJudgement] = field(default_factory=dict)


def next_lane(
    catalog: Catalog, rows: RowsToPlace, *, providers: Collection[str], workflow: WorkflowProfile, at: datetime
) -> Lane | None:
    """Give the best lane that may take rows now, or None.

    Args:
        catalog: With its SLA snapshot; a lane whose median is longer than the time left is no help.
        rows: What needs a lane.
        providers: Where there is an account to run them with.
        workflow: Whose penalties rank the lanes, and who may run them where. The charge of the rows does not change,
            so no fee is counted and no highest rate holds; the time is the batch's window.
        at: The instant by which a model or a lane counts as retired.
    """
    model = catalog.models.get(rows.model_slug)
    if model is None:
        return None
    lanes = [
        lane
        for lane in model.lanes
        if lane.model_snapshot == rows.model_snapshot
        and lane.lane_id not in rows.tried_lane_ids
        and lane.provider in providers
        and not is_retired(catalog, lane, at)
        and catalog.sla.health(rows.model_slug, lane.lane_id).p50_completion_minutes <= rows.minutes_left
    ]
    # Output is not known for a part of a job; only the order of the lanes hangs on it, never a charge.
    demand = GroupDemand(
        row_count=rows.row_count, input_tokens=rows.input_tokens, output_tokens=0, judgements=rows.judgements
    )
    here = replace(workflow, constraints=workflow.constraints.of_place())
    eligible = rank_lanes(lanes, catalog.sla, here, demand, 0).eligible
    return eligible[0].lane if eligible else None


def is_retired(catalog: Catalog, lane: Lane, at: datetime) -> bool:
    """Say whether a lane's provider has retired it, or the model is retired everywhere."""
    ends = (lane.retires_at, catalog.models[lane.model_slug].retires_at)
    return any(retires_at is not None and retires_at <= at for retires_at in ends)
