"""Batches of uploaded files: made at once, ``validating`` until their file is priced, then accepted or ``failed``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final

import msgspec
import orjson
from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.selectors import Caller
from accounts.services.limits import accepts_refused
from catalog.domain.records import Endpoint
from ground import clock
from ground.blobs import open_blob
from ground.errors import InvalidRequest, PaymentRequired
from ground.fault_points import FaultPoint, reach
from ground.functions import call
from ground.ids import created_at_of, is_public_id, new_public_id
from ground.leases import Lease, claim, moving_on, unless_lost
from ground.wake import wake
from routing.domain.pins import BatchPlan
from routing.domain.refusal import ROW_ERRORS_MAX_COUNT
from routing.domain.scoring import WorkflowProfile
from routing.models import Batch, BatchStatus, Quote, QuoteStatus
from routing.payloads import payload_name
from routing.sdk_tries import SdkTry, as_arguments
from routing.selectors import quote_by_id
from routing.services.batches import AcceptedBatch, begin_batch, seconds_of
from routing.services.file_quotes import request_quote, uploaded_file
from routing.services.notices import tell_of
from routing.services.offers import check_offer
from routing.workflows import DEFAULT_WORKFLOW

Errors = list[dict[str, Any]]
_JSON_BLANKS: Final = b" \t\r\n"


def create_file_batch(
    *,
    caller: Caller,
    file_id: str,
    endpoint: Endpoint,
    metadata: Mapping[str, str] | None,
    workflow: WorkflowProfile | None = None,
    output_kept_for: timedelta | None = None,
    sdk_try: SdkTry | None = None,
) -> AcceptedBatch:
    """Make a batch of an uploaded file; it runs under the file's newest quote, or a new one, if the credit is enough.

    Args:
        caller: Who asks.
        file_id: The file's id.
        endpoint: Where its rows go.
        metadata: As checked.
        workflow: What lanes are judged by; None: what the file's quote was made under, else the house's.
        output_kept_for: How long what it puts out is kept; None: the house's time.
        sdk_try: Which try of an SDK this is: what another one made is given again, and the file may be gone.

    Raises:
        NotFound: The organisation has no such file, or its bytes are gone.
        InvalidRequest: It was put out by a batch.
        RateLimited: The organisation has accepted as many as it may in a minute.
    """
    if not is_public_id(file_id, "file-"):
        # Refuses it: none can have this id, and the database cannot be asked for every text.
        uploaded_file(caller, file_id)
    wanted: dict[str, Any] = {"input_file_id": file_id, "endpoint": endpoint.value, "metadata": metadata}
    if workflow is not None:
        wanted["workflow"] = workflow.name
    kept_seconds = seconds_of(output_kept_for)
    if kept_seconds is not None:
        wanted["output_kept_seconds"] = kept_seconds
    body_hash = hashlib.sha256(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)).digest()
    asked = _Asked(
        caller=caller,
        file_id=file_id,
        endpoint=endpoint,
        metadata=metadata,
        workflow=workflow,
        output_kept_seconds=kept_seconds,
        body_hash=body_hash,
    )
    try:
        return _make(asked, sdk_try)
    except IntegrityError:
        # Another call took the file's quote between our look and our batch; now it is seen.
        return _make(asked, sdk_try)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A batch that is asked for."""

    caller: Caller
    file_id: str
    endpoint: Endpoint
    metadata: Mapping[str, str] | None
    workflow: WorkflowProfile | None
    output_kept_seconds: int | None
    body_hash: bytes


def _make(asked: _Asked, sdk_try: SdkTry | None) -> AcceptedBatch:
    caller = asked.caller
    with transaction.atomic():
        outcome, batch = _create(asked, sdk_try, is_counted=True)
        if outcome == "no_quote":
            request_quote(
                caller=caller,
                stored=uploaded_file(caller, asked.file_id),
                workflow=asked.workflow or DEFAULT_WORKFLOW,
                endpoint=asked.endpoint,
            )
            outcome, batch = _create(asked, sdk_try, is_counted=False)
        if outcome == "no_file":
            uploaded_file(caller, asked.file_id)
        if outcome == "no_accept":
            raise accepts_refused(caller.organisation)
        assert batch is not None, "a quote that was just asked for can be taken"
        return AcceptedBatch(batch=batch, is_replay=outcome == "earlier")


def _create(asked: _Asked, sdk_try: SdkTry | None, *, is_counted: bool) -> tuple[str, Batch | None]:
    """Say what came of it, with the batch if there is one; one statement."""
    at = clock.now()
    batch = Batch(
        public_id=new_public_id("batch_", at),
        organisation=asked.caller.organisation,
        api_key=asked.caller.api_key,
        accept_body_hash=asked.body_hash,
        input_file_id=asked.file_id,
        endpoint=asked.endpoint.value,
        metadata=asked.metadata,
        output_kept_seconds=asked.output_kept_seconds,
        status=BatchStatus.VALIDATING,
        row_count=0,
        total_estimate_micro_usd=0,
        ceiling_micro_usd=0,
        created_at=at,
        expires_at=at + settings.BATCH_WINDOW,
    )
    outcome, batch.pk, batch.quote_id, batch.workflow, batch.plan, is_priced = call(
        "routing_create_file_batch",
        [
            batch.organisation_id,
            batch.api_key_id,
            int.from_bytes(asked.body_hash[:4], signed=True),
            asked.body_hash,
            asked.file_id,
            batch.endpoint,
            None if asked.workflow is None else msgspec.json.encode(asked.workflow).decode(),
            None if asked.metadata is None else orjson.dumps(asked.metadata).decode(),
            asked.output_kept_seconds,
            *as_arguments(sdk_try),
            is_counted,
            batch.public_id,
            at,
            batch.expires_at,
        ],
        "bigint bigint integer bytea text text jsonb jsonb integer boolean interval interval boolean text"
        " timestamptz timestamptz",
    )
    if outcome == "earlier":
        return outcome, Batch.objects.get(pk=batch.pk, organisation=batch.organisation)
    if outcome != "made":
        return outcome, None
    if is_priced:
        batch.due_at = at
        wake("routing.validate_batches")
    return outcome, batch


def validate_next_batch() -> bool:
    """Accept the next batch whose file is priced, or let it fail; due is only what is decided.

    What has changed since its file was priced is judged as at any accept.
    """
    lease = claim(Batch, state_field="status", states=(BatchStatus.VALIDATING,))
    if lease is None:
        return False
    reach(FaultPoint.VALIDATE_CLAIMED)
    with unless_lost():
        batch = Batch.objects.select_related("organisation", "api_key").get(pk=lease.row_id)
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
    if quote.endpoint != batch.endpoint:
        # The file was being priced already when the batch said where its rows go: every row goes elsewhere.
        message = f"url is {quote.endpoint}, but the batch goes to {batch.endpoint}."
        return [_error("url_mismatch", message, "url", line) for line in _first_lines(quote)]
    if batch.organisation.billing_blocked_at is not None:
        return [_error("billing_blocked", "The account is blocked for billing. Nothing was held.")]
    try:
        # The file may have been priced half an hour ago.
        caller = Caller(organisation=batch.organisation, api_key=batch.api_key)
        check_offer(caller, quote, BatchPlan.from_bytes(quote.plan))
    except InvalidRequest as refused:
        return [_error(refused.code, refused.message)]
    return []


def _first_lines(quote: Quote) -> list[int]:
    """Give the physical lines of the first rows of a quote's file, as many as a refusal lists."""
    with open_blob(payload_name(quote.public_id)) as blob:
        lines = enumerate(iter(blob.readline, b""), start=1)
        return list(islice((number for number, line in lines if line.strip(_JSON_BLANKS)), ROW_ERRORS_MAX_COUNT))


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
            reach(FaultPoint.VALIDATE_BEFORE_COMMIT)
    except PaymentRequired as refused:
        return [_error(refused.code, refused.message)]
    reach(FaultPoint.VALIDATE_AFTER_COMMIT)
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
