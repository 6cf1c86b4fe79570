"""Accepting a quote: the hold, the batch and its sub-lanes in one transaction, once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import orjson
from django.conf import settings
from django.db import IntegrityError, transaction

from accounts.selectors import Caller
from accounts.services.limits import take_accept
from billing.domain.records import GroupHold
from billing.services.holds import place_holds
from ground import clock
from ground.errors import InvalidRequest, PaymentRequired, RateLimited
from ground.fault_points import FaultPoint, reach
from ground.given_texts import is_storable
from ground.ids import created_at_of, new_public_id
from ground.wake import wake
from routing.domain.pins import BatchPlan, GroupPlan
from routing.models import Batch, BatchStatus, Quote, QuoteStatus, SubLane
from routing.selectors import quote_by_id, quote_has_expired
from routing.services.offers import check_offer

_METADATA_MAX_PAIRS = 16
_METADATA_KEY_MAX_CHARACTERS = 64
_METADATA_VALUE_MAX_CHARACTERS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBatch:
    """The batch of a quote; ``is_replay`` when an earlier call with the same body had made it."""

    batch: Batch
    is_replay: bool
    # Those that were just made; none where they have to be read.
    sub_lanes: tuple[SubLane, ...] | None = None


def accept_quote(
    *,
    caller: Caller,
    quote_id: str,
    metadata: Mapping[str, object] | None,
    output_kept_for: timedelta | None = None,
    quote: Quote | None = None,
) -> AcceptedBatch:
    """Turn a quote into a batch: hold its reservation, pin its plan, queue its sub-lanes.

    The same organisation and body again gives the same batch. ``output_kept_for`` is how long what it puts out is kept;
    None: the house's time. ``quote`` is the quote itself, where the caller has read it.

    Raises:
        NotFound: The organisation has no such quote.
        InvalidRequest: ``quote_expired``, ``quote_already_used`` (with another body), ``lane_unavailable`` or
            ``model.deprecated_post_quote`` (each with a new quote where there can be one), or bad metadata. Nothing is
            held.
        PaymentRequired: ``insufficient_credit`` with the estimate, or ``billing_blocked``. Nothing is held.
        RateLimited: The organisation has accepted as many quotes as it may in a minute. Nothing is held.
    """
    clean_metadata = checked_metadata(metadata)
    quote = quote or quote_by_id(organisation=caller.organisation, public_id=quote_id)
    kept_seconds = seconds_of(output_kept_for)
    wanted: dict[str, object] = {"quote_id": quote_id, "metadata": clean_metadata}
    if kept_seconds is not None:
        wanted["output_kept_seconds"] = kept_seconds
    body_hash = hashlib.sha256(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)).digest()
    earlier = _earlier(quote, body_hash)
    if earlier is not None:
        return earlier
    if caller.organisation.billing_blocked_at is not None:
        raise PaymentRequired("The account is blocked for billing. Nothing was held.", code="billing_blocked")
    if quote.status != QuoteStatus.READY:
        raise InvalidRequest(f"The quote is {quote.status}; only a ready quote can be accepted.", param="quote_id")
    if quote_has_expired(quote):
        raise InvalidRequest(
            f"The quote expired at {quote.expires_at:%Y-%m-%d %H:%M:%S} UTC. Quote the file again.",
            code="quote_expired",
            param="quote_id",
        )
    plan = BatchPlan.from_bytes(quote.plan)
    check_offer(caller, quote, plan)
    try:
        batch, sub_lanes = _create(caller, quote, plan, body_hash, clean_metadata, kept_seconds)
    except PaymentRequired as refused:
        raise (_with_estimate(refused, quote) if refused.code == PaymentRequired.code else refused) from None
    except (IntegrityError, RateLimited):
        # Two accepts at once: the unique quote_id, or the last place of the minute, let one through; its hold is the
        # only one, and the other gives its batch.
        earlier = _earlier(quote, body_hash)
        if earlier is None:
            raise
        return earlier
    reach(FaultPoint.ACCEPT_AFTER_COMMIT)
    return AcceptedBatch(batch=batch, is_replay=False, sub_lanes=sub_lanes)


def seconds_of(kept_for: timedelta | None) -> int | None:
    """Give how long what a batch puts out is kept, in whole seconds; None where the house's rule holds."""
    return None if kept_for is None else int(kept_for.total_seconds())


def checked_metadata(metadata: Mapping[str, object] | None) -> dict[str, str] | None:
    """Give metadata that OpenAI's rules allow: 16 pairs, keys of 64 characters, string values of 512; empty is none.

    Raises:
        InvalidRequest: The rule that is broken; the message never holds a key or a value.
    """
    if not metadata:
        return None
    if len(metadata) > _METADATA_MAX_PAIRS:
        raise InvalidRequest(f"metadata has at most {_METADATA_MAX_PAIRS} pairs.", param="metadata")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise InvalidRequest("Metadata values are strings.", code="invalid_type", param="metadata")
        if len(key) > _METADATA_KEY_MAX_CHARACTERS:
            raise InvalidRequest(
                f"A metadata key has at most {_METADATA_KEY_MAX_CHARACTERS} characters.", param="metadata"
            )
        if len(value) > _METADATA_VALUE_MAX_CHARACTERS:
            raise InvalidRequest(
                f"A metadata value has at most {_METADATA_VALUE_MAX_CHARACTERS} characters.", param="metadata"
            )
        if not is_storable(key + value):
            raise InvalidRequest("Metadata holds a NUL or half of a surrogate pair.", param="metadata")
    return {key: str(value) for key, value in metadata.items()}


def _earlier(quote: Quote, body_hash: bytes) -> AcceptedBatch | None:
    batch = Batch.objects.filter(quote_id=quote.public_id, organisation_id=quote.organisation_id).first()
    if batch is None:
        return None
    if bytes(batch.accept_body_hash) != body_hash:
        raise InvalidRequest(
            f"The quote was accepted before with another body, as {batch.public_id}.",
            code="quote_already_used",
            param="quote_id",
        )
    return AcceptedBatch(batch=batch, is_replay=True)


def _with_estimate(refused: PaymentRequired, quote: Quote) -> PaymentRequired:
    """Give a refusal for credit that says what the quote expects and where its reservation comes from."""
    estimate = orjson.loads(quote.answer)["estimate"]
    return PaymentRequired(
        f"{refused.message} The quote expects {estimate['total_micro_usd']} micro-USD for {estimate['input_tokens']}"
        f" input and {estimate['output_tokens']} output tokens, {estimate['fee_micro_usd']} of it fees; the reservation"
        f" covers up to {estimate['high_micro_usd']} and a margin, never more than {estimate['ceiling_micro_usd']}."
        " Nothing was held.",
        extra={**refused.extra, "estimate": estimate},
    )


@transaction.atomic
def _create(
    caller: Caller,
    quote: Quote,
    plan: BatchPlan,
    body_hash: bytes,
    metadata: dict[str, str] | None,
    output_kept_seconds: int | None,
) -> tuple[Batch, tuple[SubLane, ...]]:
    take_accept(caller.organisation)
    at = clock.now()
    public_id = new_public_id("batch_", at)
    batch = Batch.objects.create(
        public_id=public_id,
        organisation=caller.organisation,
        api_key=caller.api_key,
        quote_id=quote.public_id,
        accept_body_hash=body_hash,
        workflow=quote.workflow,
        input_file_id=quote.input_file_id,
        retry_of=quote.retry_of,
        output_kept_seconds=output_kept_seconds,
        endpoint=quote.endpoint,
        metadata=metadata,
        status=BatchStatus.IN_PROGRESS,
        plan=quote.plan,
        row_count=quote.row_count,
        total_estimate_micro_usd=plan.total_micro_usd,
        ceiling_micro_usd=plan.ceiling_micro_usd,
        created_at=at,
        in_progress_at=at,
        expires_at=at + settings.BATCH_WINDOW,
    )
    sub_lanes = begin_batch(batch, plan)
    reach(FaultPoint.ACCEPT_BEFORE_COMMIT)
    return batch, sub_lanes


def begin_batch(batch: Batch, plan: BatchPlan) -> tuple[SubLane, ...]:
    """Queue a batch's sub-lanes and give them; keep its payload, hold its reservation. In the transaction of its start.

    Raises:
        PaymentRequired: ``insufficient_credit``.
    """
    sub_lanes = tuple(SubLane.objects.bulk_create(_sub_lanes(batch, plan.groups)))
    minutes = plan.workflow.constraints.finish_by_minutes
    if minutes is not None:
        assert batch.in_progress_at is not None, "a batch goes from an instant on"
        batch.finish_by = batch.in_progress_at + timedelta(minutes=minutes)
        Batch.objects.filter(pk=batch.pk).update(finish_by=batch.finish_by)
    of_batch = Quote.objects.filter(public_id=batch.quote_id, created_at=created_at_of(batch.quote_id))
    of_batch.update(payload_kept_until=None)
    # The balance row is contended by the organisation's own accepts only, and locked last and shortest.
    place_holds(
        batch.organisation,
        batch.public_id,
        [GroupHold(group_key=group.group_key, reserved_micro_usd=group.reservation_micro_usd) for group in plan.groups],
    )
    wake("routing.start_sub_lanes")
    return sub_lanes


def _sub_lanes(batch: Batch, groups: tuple[GroupPlan, ...]) -> list[SubLane]:
    assert batch.in_progress_at is not None, "a batch goes before its lanes do"
    sub_lanes: list[SubLane] = []
    for group in groups:
        for lane in group.lanes:
            sub_lanes.append(
                SubLane(
                    batch=batch,
                    number=len(sub_lanes),
                    group_index=group.index,
                    lane_id=lane.lane_id,
                    model_slug=group.model_slug,
                    provider=lane.provider,
                    region=lane.region,
                    model_id=lane.model_id,
                    model_snapshot=group.model_snapshot,
                    is_quoted=True,
                    pins=lane.to_bytes(),
                    row_count=lane.row_count,
                    estimated_input_tokens=lane.input_tokens,
                    fee_micro_usd=lane.fee_micro_usd,
                    created_at=batch.in_progress_at,
                    due_at=batch.in_progress_at,
                )
            )
    return sub_lanes
