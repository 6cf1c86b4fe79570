"""Quotes of uploaded files: asked for at once, priced in the background.

The quote's payload is the file itself under a second name, so a file may be deleted as soon as it was asked about.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import BinaryIO

import orjson
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import QuerySet

from accounts.selectors import Caller
from catalog.domain.records import Catalog, Endpoint
from catalog.selectors import current_catalog
from ground import clock
from ground.blobs import delete_blob, link_blob, open_blob, size_of_blob
from ground.errors import InvalidRequest, members_of
from ground.fault_points import FaultPoint, reach
from ground.functions import call
from ground.ids import created_at_of, new_public_id
from ground.leases import Keeper, Lease, LeaseLost, claim, moving_on, unless_lost
from ground.wake import wake
from routing.domain.jsonl.table import MAXIMUM_ROWS_BY_FILE, FileLimits
from routing.domain.long_files import LongFile, make_long_quote_plan
from routing.domain.offering import Pricing, QuoteSettings
from routing.domain.pins import BatchPlan, pin
from routing.domain.plan import QuotePlan
from routing.domain.scoring import WorkflowProfile
from routing.learned import learned_for
from routing.models import (
    Batch,
    BatchStatus,
    FilePricing,
    FilePurpose,
    PricingState,
    Quote,
    QuoteStatus,
    StoredFile,
)
from routing.payloads import payload_name, placement_name, store_placement
from routing.quote_room import take_quote_room
from routing.retried_rows import UndoneChoice, store_undone_rows
from routing.selectors import file_by_id
from routing.services.quotes import PAYLOAD_KEPT_AFTER_EXPIRY, frozen_answer, quote_settings

_BLOCK_BYTES = 1024 * 1024
# So many processes may die of one file before it is given up.
_TRIES = 5


def uploaded_file(caller: Caller, file_id: str) -> StoredFile:
    """Give the file that a call names as its input.

    Raises:
        NotFound: The organisation has no such file.
        InvalidRequest: It was put out by a batch.
    """
    stored = file_by_id(organisation=caller.organisation, public_id=file_id, param="input_file_id")
    if stored.purpose != FilePurpose.BATCH:
        raise InvalidRequest("'input_file_id' is a file that was uploaded for batches.", param="input_file_id")
    return stored


def request_quote(
    *,
    caller: Caller,
    stored: StoredFile,
    workflow: WorkflowProfile,
    endpoint: Endpoint | None = None,
) -> Quote:
    """Ask for an uploaded file to be priced; the quote is pending until it was read, and is the file's from now on.

    Args:
        caller: Who asks.
        stored: The file.
        workflow: What lanes are judged by; the quote keeps it as it is now.
        endpoint: Where the rows must go; None where the file's first row decides.

    Raises:
        NotFound: It went since it was found.
        FileNotFoundError: It is there and its bytes are not, which is our fault.
        StoreFull: The organisation's open quotes have no room for it.
    """
    take_quote_room(caller.organisation, stored.size_bytes)
    quote_id = new_public_id("qt_", clock.now())
    if FilePricing.objects.filter(quote_id=stored.quote_id, state=PricingState.PENDING).exists():
        # The sweep knows a file's newest quote alone.
        link_to_quote(stored, stored.quote_id)
    try:
        link_blob(stored.blob_name, payload_name(quote_id))
    except FileNotFoundError:
        # It went since it was found; else its bytes are lost, which is our fault.
        file_by_id(organisation=caller.organisation, public_id=stored.public_id, param="input_file_id")
        raise
    try:
        return begin_pricing(
            caller,
            quote_id,
            workflow=workflow,
            endpoint=endpoint,
            size_bytes=stored.size_bytes,
            stored=stored,
        )
    except (OperationalError, InterfaceError):
        # The connection broke, and if that was while it committed, the row is there. The sweep removes what has none.
        raise
    except BaseException:
        delete_blob(payload_name(quote_id))
        raise


@transaction.atomic(savepoint=False)
def begin_pricing(
    caller: Caller,
    quote_id: str = "",
    *,
    workflow: WorkflowProfile,
    endpoint: Endpoint | None = None,
    size_bytes: int,
    stored: StoredFile | None = None,
    retry_of: str = "",
    choice: UndoneChoice | None = None,
) -> Quote:
    """Make a pending quote and the pricing that is due; its payload is an uploaded file, or made of another batch.

    What has none by then gets it when it is priced (:func:`_store_payload`).
    """
    quote_id = quote_id or new_public_id("qt_", clock.now())
    if stored is not None and stored.quote_id != quote_id:
        stored.quote_id = quote_id
        stored.save(update_fields=["quote_id"])
    quote = unpriced_quote(caller, quote_id, workflow=workflow, endpoint=endpoint, size_bytes=size_bytes, stored=stored)
    quote.retry_of = retry_of
    call(
        "routing_begin_pricing",
        [
            caller.organisation.pk,
            quote.api_key_id,
            quote_id,
            quote.created_at,
            quote.payload_kept_until,
            quote.workflow,
            quote.plan,
            quote.endpoint,
            size_bytes,
            quote.input_file_id,
            retry_of,
            orjson.dumps(choice.codes if choice else []).decode(),
            orjson.dumps(choice.outcomes if choice else []).decode(),
        ],
        "bigint bigint text timestamptz timestamptz text bytea text bigint text text jsonb jsonb",
    )
    wake("routing.price_files")
    return quote


def unpriced_quote(
    caller: Caller,
    quote_id: str,
    *,
    workflow: WorkflowProfile,
    endpoint: Endpoint | None = None,
    size_bytes: int,
    stored: StoredFile | None = None,
) -> Quote:
    """Give a pending quote as it is begun; not saved."""
    at = created_at_of(quote_id)
    return Quote(
        public_id=quote_id,
        created_at=at,
        organisation=caller.organisation,
        api_key=caller.api_key,
        workflow=workflow.name,
        status=QuoteStatus.PENDING,
        endpoint=endpoint.value if endpoint else "",
        row_count=0,
        body_size_bytes=size_bytes,
        input_file_id=stored.public_id if stored else "",
        # Until it is priced and there is a better instant; nobody waits as long.
        payload_kept_until=at + settings.FILE_LIFETIME,
        answer=b"",
        plan=BatchPlan.unpriced(workflow).to_bytes(),
    )


def price_next_file() -> bool:
    """Price the file that has waited longest: its quote becomes ready, or failed with all that is wrong."""
    lease = claim(FilePricing, state_field="state", states=(PricingState.PENDING,))
    if lease is None:
        return False
    reach(FaultPoint.PRICE_CLAIMED)
    with unless_lost():
        pricing = FilePricing.objects.get(pk=lease.row_id)
        quote = _quote_of(pricing)
        try:
            catalog = current_catalog()
            plan = _priced(lease, pricing, quote, catalog)
        except InvalidRequest as error:
            _fail(lease, quote, error)
        else:
            _make_ready(lease, quote, plan, catalog)
    return True


def fail_pending(quote_id: str, error: InvalidRequest) -> None:
    """End a pending quote from outside: whoever is pricing it finds that its claim is gone. Call in a transaction.

    A quote that is not pending any more is left as it is.
    """
    pricing = FilePricing.objects.select_for_update().filter(quote_id=quote_id).first()
    if pricing is not None and pricing.state == PricingState.PENDING:
        quote = _quote_of(pricing)
        pricing.fence += 1
        _end(pricing)
        pricing.save()
        _store_failure(quote, error)


def _priced(lease: Lease, pricing: FilePricing, quote: Quote, catalog: Catalog) -> QuotePlan:
    if lease.fence > _TRIES:
        raise InvalidRequest("The file could not be priced. Tell support the quote's id.", code="internal_error")
    house = quote_settings()
    workflow = BatchPlan.from_bytes(quote.plan).workflow
    bound = Pricing(
        catalog=catalog,
        workflow=workflow,
        settings=QuoteSettings(
            fee_micro_usd=house.fee_micro_usd,
            margin_basis_points=house.margin_basis_points,
            fill_percent=house.fill_percent,
            limits=FileLimits(maximum_rows=MAXIMUM_ROWS_BY_FILE),
        ),
        at=clock.now(),
        learned=learned_for(quote.organisation, workflow.name, catalog),
    )
    size_bytes = _store_payload(lease, pricing, quote)
    with open_blob(payload_name(quote.public_id)) as blob:
        reading = LeasedReading(lease, blob, size_bytes=size_bytes)
        file = LongFile(blocks=reading.blocks, read=reading.read)
        return make_long_quote_plan(file, bound, endpoint=Endpoint(pricing.endpoint) if pricing.endpoint else None)


def _store_payload(lease: Lease, pricing: FilePricing, quote: Quote) -> int:
    """See that a quote's payload is there, and give its bytes.

    Made at once it would cost every upload a second name on the disk. The sweep makes it for a file that is deleted
    before (:mod:`routing.services.retention`).
    """
    if quote.retry_of:
        return _store_retried(lease, pricing, quote)
    try:
        return size_of_blob(payload_name(quote.public_id))
    except FileNotFoundError:
        stored = StoredFile.objects.get(organisation_id=quote.organisation_id, public_id=quote.input_file_id)
        link_to_quote(stored, quote.public_id)
    return pricing.size_bytes


def link_to_quote(stored: StoredFile, quote_id: str) -> None:
    """Make a file's bytes a quote's payload; they stay as long as either is kept."""
    with contextlib.suppress(FileExistsError):
        link_blob(stored.blob_name, payload_name(quote_id))


def _store_retried(lease: Lease, pricing: FilePricing, quote: Quote) -> int:
    """Make the payload of a quote that does another batch's rows again, and give its bytes."""
    origin = Batch.objects.get(public_id=quote.retry_of, organisation_id=quote.organisation_id)
    try:
        choice = UndoneChoice(codes=tuple(pricing.retried_codes), outcomes=tuple(pricing.retried_outcomes))
        size_bytes = store_undone_rows(origin, choice, quote.public_id, Keeper(lease))
    except FileNotFoundError:
        origin.refresh_from_db()
        if origin.files_deleted_at is None:
            raise
        raise InvalidRequest("The files of the batch were deleted, and its rows with them.", code="not_found") from None
    with transaction.atomic():
        if not FilePricing.objects.filter(pk=lease.row_id, fence=lease.fence).update(size_bytes=size_bytes):
            raise LeaseLost
        _rows_of(quote).update(body_size_bytes=size_bytes)
    return size_bytes


class LeasedReading:
    """Reads a file that is being priced: keeps the lease, and lets others see how far it has come."""

    def __init__(self, lease: Lease, blob: BinaryIO, *, size_bytes: int) -> None:
        self._lease = lease
        self._keep = Keeper(lease)
        self._blob = blob
        self._shown_bytes = 0
        # A fiftieth of the file is a step that people see, and writes little.
        self._step_bytes = max(_BLOCK_BYTES, size_bytes // 50)

    def blocks(self) -> Iterator[bytes]:
        """Give the whole file from its beginning."""
        position = 0
        while block := self.read(position, _BLOCK_BYTES):
            yield block
            position += len(block)
            if position >= self._shown_bytes + self._step_bytes:
                self._show(position)

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Give bytes from an offset on; fewer only at the end."""
        self._keep()
        self._blob.seek(offset)
        return self._blob.read(size_bytes)

    def _show(self, position: int) -> None:
        self._shown_bytes = position
        found = FilePricing.objects.filter(pk=self._lease.row_id, fence=self._lease.fence)
        if not found.update(read_bytes=position):
            raise LeaseLost


def _make_ready(lease: Lease, quote: Quote, plan: QuotePlan, catalog: Catalog) -> None:
    reach(FaultPoint.PRICE_READ)
    with moving_on(FilePricing, lease) as pricing:
        expires_at = clock.now() + settings.QUOTE_LIFETIME
        # Inside: a run that has lost its claim must not touch what the next one has written. One that was killed here
        # left a placement nobody knows of.
        delete_blob(placement_name(quote.public_id))
        store_placement(quote.public_id, plan.placement)
        answer = frozen_answer(
            quote.public_id,
            plan,
            expires_at,
            input_file_id=quote.input_file_id or None,
            retry_of=quote.retry_of or None,
        )
        has_batch = _end(pricing)
        _rows_of(quote).update(
            status=QuoteStatus.READY,
            expires_at=expires_at,
            payload_kept_until=None if has_batch else expires_at + PAYLOAD_KEPT_AFTER_EXPIRY,
            endpoint=plan.endpoint.value,
            row_count=plan.row_count,
            input_tokens=plan.estimate.input_tokens,
            answer=orjson.dumps(answer),
            plan=pin(plan, catalog).to_bytes(),
        )
        reach(FaultPoint.PRICE_BEFORE_COMMIT)
    reach(FaultPoint.PRICE_AFTER_COMMIT)


def _fail(lease: Lease, quote: Quote, error: InvalidRequest) -> None:
    with moving_on(FilePricing, lease) as pricing:
        _end(pricing)
        _store_failure(quote, error)


def _end(pricing: FilePricing) -> bool:
    """End a pricing, and say whether a batch waits for it, which is due from now on. Saved by the caller.

    Locks go one way: pricing, batch, quote.
    """
    pricing.state, pricing.due_at, pricing.lease_until = PricingState.ENDED, None, None
    waiting = Batch.objects.filter(
        quote_id=pricing.quote_id, organisation_id=pricing.organisation_id, status=BatchStatus.VALIDATING
    )
    if not waiting.update(due_at=clock.now()):
        return False
    wake("routing.validate_batches")
    return True


def _store_failure(quote: Quote, error: InvalidRequest) -> None:
    _rows_of(quote).update(
        status=QuoteStatus.FAILED, answer=orjson.dumps(members_of(error)), payload_kept_until=clock.now()
    )


def _quote_of(pricing: FilePricing) -> Quote:
    return Quote.objects.get(
        public_id=pricing.quote_id,
        created_at=created_at_of(pricing.quote_id),
        organisation_id=pricing.organisation_id,
    )


def _rows_of(quote: Quote) -> QuerySet[Quote]:
    # The time names the partition.
    return Quote.objects.filter(public_id=quote.public_id, created_at=quote.created_at)
