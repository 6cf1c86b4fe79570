"""Settling a batch: one posting and one receipt, never refused, never twice."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict

from django.db import transaction

from billing.domain.rating import RatedBatch, payable_by_account, rate_batch
from billing.domain.records import SettlementRequest
from billing.errors import PostingConflict
from billing.models import Receipt
from billing.usage.facts import usage_of
from ground.functions import call
from ground.ids import new_public_id

_log = logging.getLogger(__name__)


@transaction.atomic
def settle_batch(request: SettlementRequest) -> Receipt:
    """Charge a batch, close its holds, post the house's cost, and give its receipt with its lines.

    One round trip does all of it, and counts it as usage. What the holds do not cover takes what the wallet has
    beside other batches' holds; the rest becomes a receivable. The same request again gives the same receipt.

    Raises:
        PostingConflict: The batch was settled before with other figures; its receipt stands.
    """
    rated = rate_batch(request)
    payables = _payables(request)
    outcome, receipt_id, receivable_micro_usd = call(
        "billing_settle_batch",
        [
            request.organisation_id,
            request.batch_public_id,
            new_public_id("rcpt_", request.settled_at),
            settlement_hash(request),
            request.settled_at,
            request.api_key_id,
            request.estimate_total_micro_usd,
            rated.usage_micro_usd,
            rated.ceiling_credit_micro_usd,
            rated.fee_micro_usd,
            json.dumps([{"line_number": number, **asdict(line)} for number, line in enumerate(rated.lines, 1)]),
            json.dumps(_group_charges(rated)),
            list(payables),
            list(payables.values()),
            json.dumps(usage_of(rated, request.groups)),
        ],
        "bigint text text bytea timestamptz bigint bigint bigint bigint bigint jsonb jsonb text[] bigint[] jsonb",
    )
    if outcome == "conflict":
        raise PostingConflict(f"Batch {request.batch_public_id} was settled before with other figures.")
    if outcome == "settled":
        _ring(request, rated, receivable_micro_usd)
    return Receipt.objects.prefetch_related("lines").get(pk=receipt_id)


def settlement_hash(request: SettlementRequest) -> bytes:
    """Give the SHA-256 that tells one settlement's figures from another's; ``settled_at`` is not among them.

    Figures are compared as they are charged, so the order in which groups, fees or costs are listed is free.
    """
    rated = rate_batch(request)
    body = {
        "organisation_id": request.organisation_id,
        "estimate_total_micro_usd": request.estimate_total_micro_usd,
        "lines": sorted(json.dumps(asdict(line), sort_keys=True) for line in rated.lines),
        "costs": sorted([cost.provider, cost.provider_account, cost.cost_pico_usd] for cost in request.provider_costs),
    }
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()


def _group_charges(rated: RatedBatch) -> dict[str, int]:
    return {key: rated.charge_of_group_micro_usd(key) for key in {line.group_key for line in rated.lines}}


def _payables(request: SettlementRequest) -> dict[str, int]:
    """Give what provider accounts are owed in micro-USD, ordered by code: the order in which accounts are made."""
    return {
        f"{provider}:{account}": owed_micro_usd
        for (provider, account), owed_micro_usd in payable_by_account(request.provider_costs).items()
    }


def _ring(request: SettlementRequest, rated: RatedBatch, receivable_micro_usd: int) -> None:
    """Say aloud what must not happen in a healthy house: usage above its ceiling, a charge without cover."""
    if rated.ceiling_credit_micro_usd:
        _log.error(
            "batch %s used %d micro-USD above its ceiling; the house pays",
            request.batch_public_id,
            rated.ceiling_credit_micro_usd,
        )
    if receivable_micro_usd:
        _log.warning(
            "batch %s: %d micro-USD were not covered and are owed", request.batch_public_id, receivable_micro_usd
        )
