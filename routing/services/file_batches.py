"""Batches of uploaded files: made at once, ``validating`` until their file is priced, then accepted or ``failed``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from django.conf import settings
from django.db import transaction

from accounts.selectors import Caller
from accounts.services.limits import take_accept
from catalog.domain.records import Endpoint
from ground import clock
from ground.errors import PaymentRequired
from ground.ids import created_at_of, new_public_id
from ground.leases import Lease, claim, moving_on, unless_lost
from routing.domain.pins import BatchPlan
from routing.models import Batch, BatchStatus, Quote, QuoteStatus, StoredFile
from routing.selectors import quote_by_id
from routing.services.batches import begin_batch
from routing.services.file_quotes import request_quote
from routing.services.notices import tell_of
from routing.workflows import DEFAULT_WORKFLOW

Errors = list[dict[str, Any]]


def create_file_batch(
    *, caller: Caller, stored: StoredFile, endpoint: Endpoint, metadata: Mapping[str, str] | None
) -> Batch:
    """Make a batch of an uploaded file; it is priced in the background and accepted if the credit is enough.

    Raises:
        NotFound: The file's bytes are gone.
        RateLimited: The organisation has accepted as many as it may in a minute.
    """
    wanted = {"input_file_id": stored.public_id, "metadata": metadata}
    with transaction.atomic():
        take_accept(caller.organisation)
        quote = request_quote(caller=caller, stored=stored, workflow=DEFAULT_WORKFLOW, endpoint=endpoint)
        at = clock.now()
        return Batch.objects.create(
            public_id=new_public_id("batch_", at),
            organisation=caller.organisation,
            api_key=caller.api_key,
            quote_id=quote.public_id,
            accept_body_hash=hashlib.sha256(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)).digest(),
            workflow=quote.workflow,
            input_file_id=stored.public_id,
            endpoint=endpoint.value,
            metadata=metadata,
            status=BatchStatus.VALIDATING,
            plan=quote.plan,
            row_count=0,
            total_estimate_micro_usd=0,
            ceiling_micro_usd=0,
            created_at=at,
            expires_at=at + settings.BATCH_WINDOW,
        )


def validate_next_batch() -> bool:
    """Accept the next batch whose file is priced, or let it fail; due is only what is decided.

    Its lanes were in rotation when it was priced, a moment ago; one that left since then is healed as in any batch.
    """
    lease = claim(Batch, state_field="status", states=(BatchStatus.VALIDATING,))
    if lease is None:
        return False
    with unless_lost():
        batch = Batch.objects.select_related("organisation").get(pk=lease.row_id)
        quote = quote_by_id(organisation=batch.organisation, public_id=batch.quote_id)
        errors = _errors_of(batch, quote) or _begin(lease, quote)
        if errors:
            _fail(lease, errors)
    return True


def _errors_of(batch: Batch, quote: Quote) -> Errors:
    """Give what is against the batch, as OpenAI lists it; nothing if its file is good."""
    if quote.status == QuoteStatus.FAILED:
        error = orjson.loads(bytes(quote.answer))
        return [_error(**_named(each)) for each in error.get("errors") or [error]]
    if batch.organisation.billing_blocked_at is not None:
        return [_error("billing_blocked", "The account is blocked for billing. Nothing was held.")]
    return []


def _named(error: Mapping[str, Any]) -> dict[str, Any]:
    return {name: error.get(name) for name in ("code", "message", "param", "line")}


def _error(code: str, message: str, param: str | None = None, line: int | None = None) -> dict[str, Any]:
    return {"code": code, "line": line, "message": message, "param": param}


def _begin(lease: Lease, quote: Quote) -> Errors:
    """Let the batch go; give the error where its credit is not enough."""
    plan = BatchPlan.from_bytes(quote.plan)
    try:
        with moving_on(Batch, lease) as batch:
            batch.status, batch.in_progress_at = BatchStatus.IN_PROGRESS, clock.now()
            batch.plan, batch.row_count = quote.plan, quote.row_count
            batch.total_estimate_micro_usd, batch.ceiling_micro_usd = plan.total_micro_usd, plan.ceiling_micro_usd
            batch.due_at = None
            begin_batch(batch, plan)
    except PaymentRequired as refused:
        return [_error(refused.code, refused.message)]
    return []


def _fail(lease: Lease, errors: Errors) -> None:
    with moving_on(Batch, lease) as batch:
        at = clock.now()
        batch.status, batch.failed_at, batch.due_at = BatchStatus.FAILED, at, None
        batch.errors = errors
        # Its payload goes with the next sweep.
        of_batch = Quote.objects.filter(public_id=batch.quote_id, created_at=created_at_of(batch.quote_id))
        of_batch.update(payload_kept_until=at)
        tell_of(batch, [], BatchPlan.from_bytes(batch.plan).workflow, at)
