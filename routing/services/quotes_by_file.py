"""The quote that goes with an uploaded file: begun by the upload, and shown with the file.

A batch of the file takes it in the statement that makes the batch (``routing_create_file_batch``).
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef

from accounts.selectors import Caller
from ground import clock
from ground.blobs import BlobWriter
from ground.ids import created_at_of, new_public_id
from routing.domain.pins import BatchPlan
from routing.domain.scoring import WorkflowProfile
from routing.models import Batch, Quote, QuoteStatus, StoredFile
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
