"""When no lane can take a group: which of the reasons is said, and that of every such group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ground.errors import InvalidRequest, RowError, RowErrors
from routing.domain.resolve import ResolvedModel
from routing.domain.scoring import Candidate, GroupDemand, Ranking, RejectionCode, WorkflowProfile

ROW_ERRORS_MAX_COUNT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRefusal:
    """Why no lane can take a group: for a row (``row_error``), or for the group as a whole."""

    model_slug: str
    code: str
    param: str
    message: str
    rejected: tuple[Candidate, ...]
    row_error: RowError | None = None


def refusal_of(
    resolved: ResolvedModel,
    workflow: WorkflowProfile,
    ranking: Ranking,
    demand: GroupDemand,
    place_of: Callable[[int], tuple[int, int, str]],
) -> GroupRefusal:
    """Say why no lane can take a group: a row's parameter, too few rows, or none is available.

    Where the workflow took a lane out, that is said first: the rows may be fine without the constraint.

    Args:
        resolved: The group's model.
        workflow: Under which it was judged.
        ranking: Its lanes, all of them rejected.
        demand: What it asks.
        place_of: Gives row, line and ``custom_id`` of the row at a position in the group.
    """
    slug = resolved.model.slug
    rejected = tuple(ranking.rejected)
    if any(item.constraint for item in rejected):
        message = f"No lane can take the rows of model {slug} under the workflow {workflow.name!r}"
        return _refusal(slug, message, rejected, param="workflow")
    for item in rejected:
        if item.reason == RejectionCode.UNSUPPORTED_PARAMETER:
            refused = demand.judgements[item.lane.lane_id].refused[0]
            row, line, custom_id = place_of(refused.first_position)
            row_error = RowError(
                code="unsupported_parameter",
                message=f"No lane of {slug} can carry the row: {refused.reason}.",
                param=refused.parameter,
                row=row,
                line=line,
                custom_id=custom_id,
            )
            return GroupRefusal(
                model_slug=slug,
                code=row_error.code,
                param=refused.parameter,
                message=row_error.message,
                rejected=rejected,
                row_error=row_error,
            )
    too_few = any(item.reason == RejectionCode.BELOW_MINIMUM_ROWS for item in rejected)
    code = "lane_minimum" if too_few else "lane_unavailable"
    return _refusal(slug, f"No lane can take the rows of model {slug} now", rejected, code=code, param="body.model")


def refuse(refusals: Sequence[GroupRefusal]) -> NoReturn:
    """Refuse a file for every group that no lane can take; the first one's code leads.

    Raises:
        RowErrors: ``unsupported_parameter``, with the first such row of each group, by line.
        InvalidRequest: ``lane_minimum`` or ``lane_unavailable``. Both have ``rejected_lanes``: each lane of each such
            group with its reason, and the constraint where it is one.
    """
    first = refusals[0]
    extra = {
        "model": first.model_slug,
        "rejected_lanes": [
            {
                "model": refusal.model_slug,
                "lane_id": item.lane.lane_id,
                "reason": item.reason,
                "reason_text": item.reason_text,
                "constraint": item.constraint,
            }
            for refusal in refusals
            for item in refusal.rejected
        ],
    }
    if first.row_error is not None:
        row_errors = sorted(
            (refusal.row_error for refusal in refusals if refusal.row_error is not None),
            key=lambda error: error.line or 0,
        )
        raise RowErrors(row_errors[:ROW_ERRORS_MAX_COUNT], total=len(row_errors), extra=extra)
    message = " ".join(refusal.message for refusal in refusals)
    raise InvalidRequest(message, code=first.code, param=first.param, extra=extra)


def _refusal(
    slug: str, message: str, rejected: tuple[Candidate, ...], *, param: str, code: str = "lane_unavailable"
) -> GroupRefusal:
    reasons = "; ".join(f"{item.lane.lane_id}: {item.reason_text}" for item in rejected)
    return GroupRefusal(
        model_slug=slug,
        code=code,
        param=param,
        message=f"{message}: {reasons or 'it has no lane'}.",
        rejected=rejected,
    )
