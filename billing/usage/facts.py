"""Counting a receipt as usage, in the transaction that makes it."""

from __future__ import annotations

import json

from billing.database import call
from billing.domain.records import SettlementRequest


def fold_receipt(receipt_id: int, request: SettlementRequest) -> int:
    """Count a new receipt as usage and give how many facts (by model and lane) it made; again it makes none.

    Requests are counted on the primary lane of their model group, as their charge is.
    """
    request_counts = [
        {"model_slug": group.model_slug, "lane_id": group.lane_id, "request_count": group.row_count}
        for group in request.groups
        if group.row_count
    ]
    (fact_count,) = call(
        "billing_fold_usage",
        [[receipt_id], [request.api_key_id], [json.dumps(request_counts)]],
        "bigint[] bigint[] jsonb[]",
    )
    return int(fact_count)
