"""When no lane can take a group: which of the reasons is said."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidRequest, RowError, RowErrors
from routing.domain.jsonl.table import RowTable
from routing.domain.resolve import ResolvedModel
from routing.domain.scoring import GroupDemand, Ranking, RejectionCode


def refuse_group(
    resolved: ResolvedModel,
    ranking: Ranking,
    demand: GroupDemand,
    table: RowTable,
    rows: npt.NDArray[np.int64],
) -> NoReturn:
    """Say that no lane can take a group: for a row's parameter, for too few rows, or because none is available.

    Raises:
        RowErrors: ``unsupported_parameter``, with the first row that asks it.
        InvalidRequest: ``lane_minimum`` or ``lane_unavailable``.
    """
    slug = resolved.model.slug
    for item in ranking.rejected:
        if item.reason == RejectionCode.UNSUPPORTED_PARAMETER:
            refused = demand.judgements[item.lane.lane_id].refused[0]
            row = int(rows[refused.first_position])
            raise RowErrors(
                [
                    RowError(
                        code="unsupported_parameter",
                        message=f"No lane of {slug} can carry the row: {refused.reason}.",
                        param=refused.parameter,
                        row=row,
                        line=int(table.lines[row]),
                        custom_id=table.custom_ids[row],
                    )
                ]
            )
    reasons = "; ".join(f"{item.lane.lane_id}: {item.reason_text}" for item in ranking.rejected)
    too_few = any(item.reason == RejectionCode.BELOW_MINIMUM_ROWS for item in ranking.rejected)
    message = f"No lane can take the rows of model {slug} now: {reasons or 'it has no lane'}."
    raise InvalidRequest(message, code="lane_minimum" if too_few else "lane_unavailable", param="body.model")
