"""When no lane can take a group: which of the reasons is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ground.errors import InvalidRequest, RowError, RowErrors
from routing.domain.resolve import ResolvedModel
from routing.domain.scoring import GroupDemand, Ranking, RejectionCode, WorkflowProfile


def refuse_group(
    resolved: ResolvedModel,
    workflow: WorkflowProfile,
    ranking: Ranking,
    demand: GroupDemand,
    place_of: Callable[[int], tuple[int, int, str]],
) -> NoReturn:
    """Say that no lane can take a group: for a row's parameter, for too few rows, or because none is available.

    Where the workflow took a lane out, that is said first: the rows may be fine without the constraint.

    Args:
        resolved: The group's model.
        workflow: Under which it was judged.
        ranking: Its lanes, all of them rejected.
        demand: What it asks.
        place_of: Gives row, line and ``custom_id`` of the row at a position in the group.

    Raises:
        RowErrors: ``unsupported_parameter``, with the first row that asks it.
        InvalidRequest: ``lane_minimum`` or ``lane_unavailable``; ``rejected_lanes`` has each lane's reason, and the
            constraint where it is one.
    """
    slug = resolved.model.slug
    if any(item.constraint for item in ranking.rejected):
        raise _unavailable(
            f"No lane can take the rows of model {slug} under the workflow {workflow.name!r}",
            slug,
            ranking,
            param="workflow",
        )
    for item in ranking.rejected:
        if item.reason == RejectionCode.UNSUPPORTED_PARAMETER:
            refused = demand.judgements[item.lane.lane_id].refused[0]
            row, line, custom_id = place_of(refused.first_position)
            raise RowErrors(
                [
                    RowError(
                        code="unsupported_parameter",
                        message=f"No lane of {slug} can carry the row: {refused.reason}.",
                        param=refused.parameter,
                        row=row,
                        line=line,
                        custom_id=custom_id,
                    )
                ]
            )
    too_few = any(item.reason == RejectionCode.BELOW_MINIMUM_ROWS for item in ranking.rejected)
    message = f"No lane can take the rows of model {slug} now"
    raise _unavailable(
        message, slug, ranking, code="lane_minimum" if too_few else "lane_unavailable", param="body.model"
    )


def _unavailable(
    message: str, slug: str, ranking: Ranking, *, param: str, code: str = "lane_unavailable"
) -> InvalidRequest:
    reasons = "; ".join(f"{item.lane.lane_id}: {item.reason_text}" for item in ranking.rejected)
    return InvalidRequest(
        f"{message}: {reasons or 'it has no lane'}.",
        code=code,
        param=param,
        extra={
            "model": slug,
            "rejected_lanes": [
                {
                    "lane_id": item.lane.lane_id,
                    "reason": item.reason,
                    "reason_text": item.reason_text,
                    "constraint": item.constraint,
                }
                for item in ranking.rejected
            ],
        },
    )
