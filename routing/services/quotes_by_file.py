"""The quote that goes with an uploaded file: begun by the upload, shown with the file, taken by a batch of it."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef

from accounts.selectors import Caller
from catalog.domain.records import Endpoint
from ground import clock
from ground.blobs import BlobWriter
from ground.ids import created_at_of, new_public_id
from routing.domain.pins import BatchPlan
from routing.domain.scoring import WorkflowProfile
from routing.models import Batch, FilePricing, PricingState, Quote, QuoteStatus, StoredFile
from routing.selectors import quote_has_expired
from routing.services.file_quotes import request_quote
from routing.services.files import check_room, keep_file, uploaded_blob_name


def price_upload(*, caller: Caller, filename: str, chunks: Iterable[bytes], workflow: WorkflowProfile) -> str:
    """Keep a file that comes piece by piece, and ask for its price in the background; give the quote's id.

    Raises:
        PayloadTooLarge: The organisation has no room for the file.
        StoreFull: Its open quotes have no room for it; the file is kept.
    """
    check_room(caller.organisation, 1)
    with BlobWriter() as writer:
        writer.write_all(chunks)
        # Named when it is whole, as an upload by the API is.
        public_id = new_public_id("file-", clock.now())
        saving = writer.begin_save(uploaded_blob_name(public_id))
        stored = keep_file(caller=caller, public_id=public_id, filename=filename, saving=saving, workflow=workflow)
    return stored.quote_id or quote_by_file(caller=caller, stored=stored, workflow=workflow).public_id


def quote_by_file(*, caller: Caller, stored: StoredFile, workflow: WorkflowProfile) -> Quote:
    """Give the price that is being made of a file under a workflow, or ask for one: nobody waits for two readings.

    Raises:
        StoreFull: The organisation's open quotes have no room for it.
    """
    quote = _newest_quote(caller, stored)
    if quote is not None and quote.status == QuoteStatus.PENDING and _is_under(quote, workflow):
        return quote
    return request_quote(caller=caller, stored=stored, workflow=workflow)


def take_quote(
    *, caller: Caller, stored: StoredFile, workflow: WorkflowProfile | None, endpoint: Endpoint
) -> Quote | None:
    """Give a file's newest quote for a batch of it, if it can be that: valid or still to come, and nobody else's.

    Called in the transaction that makes the batch: while it holds the pricing's lock, the quote is not decided.

    Args:
        caller: Who makes the batch.
        stored: The file.
        workflow: What the batch names; None: whatever the quote was made under.
        endpoint: Where the batch's rows go. One that is not begun is told so.
    """
    pricing = (
        FilePricing.objects.select_for_update()
        .filter(quote_id=stored.quote_id, organisation=caller.organisation)
        .first()
    )
    quote = _newest_quote(caller, stored)
    if pricing is None or quote is None or (workflow is not None and not _is_under(quote, workflow)):
        return None
    if pricing.state == PricingState.PENDING and quote.endpoint in {"", endpoint.value}:
        if pricing.fence == 0:
            FilePricing.objects.filter(pk=pricing.pk).update(endpoint=endpoint.value)
        return quote
    if quote.status == QuoteStatus.READY and quote.endpoint == endpoint.value and not quote_has_expired(quote):
        # Its batch needs the bytes, whenever the engine comes to it.
        Quote.objects.filter(public_id=quote.public_id, created_at=quote.created_at).update(payload_kept_until=None)
        return quote
    return None


def _newest_quote(caller: Caller, stored: StoredFile) -> Quote | None:
    """Give a file's newest quote, unless a batch has it."""
    if not stored.quote_id:
        return None
    # The id's time names the partition.
    named = Quote.objects.filter(public_id=stored.quote_id, created_at=created_at_of(stored.quote_id))
    taken = Batch.objects.filter(quote_id=OuterRef("public_id"))
    return named.filter(~Exists(taken), organisation=caller.organisation).first()


def _is_under(quote: Quote, workflow: WorkflowProfile) -> bool:
    return BatchPlan.from_bytes(quote.plan).workflow == workflow
