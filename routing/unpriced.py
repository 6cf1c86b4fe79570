"""What is said of a quote that has no figures: its file is being read, or was refused."""

from __future__ import annotations

from typing import Any

import orjson

from ground.documentation import documentation_of
from routing.domain.pins import BatchPlan
from routing.models import Batch, FilePricing, Quote, QuoteStatus


def unpriced_answer(quote: Quote) -> dict[str, Any]:
    """Give the answer of a pending or failed quote; the public contract's names."""
    batch_id = (
        Batch.objects.filter(quote_id=quote.public_id, organisation_id=quote.organisation_id)
        .values_list("public_id", flat=True)
        .first()
    )
    workflow = BatchPlan.from_bytes(quote.plan).workflow
    return {
        "id": quote.public_id,
        "object": "quote",
        "status": quote.status,
        "batch_id": batch_id,
        "input_file_id": quote.input_file_id or None,
        "retry_of": quote.retry_of or None,
        "created_at": int(quote.created_at.timestamp()),
        "expires_at": None,
        "workflow": workflow.name,
        "workflow_version": workflow.version,
        "progress": _progress(quote) if quote.status == QuoteStatus.PENDING else None,
        "error": _error(quote) if quote.status == QuoteStatus.FAILED else None,
    }


def _error(quote: Quote) -> dict[str, Any]:
    members: dict[str, Any] = orjson.loads(bytes(quote.answer))
    return members | {"doc_url": documentation_of(members["code"])}


def _progress(quote: Quote) -> dict[str, int]:
    pricing = FilePricing.objects.filter(quote_id=quote.public_id, organisation_id=quote.organisation_id).first()
    return {
        "read_bytes": pricing.read_bytes if pricing else 0,
        "total_bytes": quote.body_size_bytes,
    }
