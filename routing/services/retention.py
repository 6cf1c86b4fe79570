"""What is removed when its time is over: bytes of files and quotes, and blobs that never got a row.

Each removal is safe to kill and to repeat: bytes first, then the mark that they are gone; a blob that is gone already
is no error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from django.db import transaction
from django.db.models import Q

from accounts.selectors import DATABASE_NOW
from ground import clock, retention_record
from ground.blobs import blob_names, delete_blob
from ground.ids import created_at_of, is_public_id
from ground.retention_record import Kept
from routing.models import Batch, FilePricing, PricingState, ProviderJob, Quote, StoredFile
from routing.payloads import payload_name, placement_name
from routing.services.file_quotes import link_to_quote

_FILES_PER_TURN: Final = 500
_BATCHES_PER_TURN: Final = 50
_NAMES_PER_QUERY: Final = 500
# A blob gets its name when it is whole, and its row right after: what has none by then has nobody who would make it.
_ROW_IS_LATE_AFTER: Final = timedelta(hours=1)


def sweep_files() -> bool:
    """Remove the bytes of files that were deleted or whose time is over; say whether there may be more to do."""
    # By the database's clock, as readers judge it: what is removed here is what they are told is gone.
    over = StoredFile.objects.filter(Q(deleted_at__isnull=False) | Q(expires_at__lte=DATABASE_NOW), swept_at=None)
    found = list(over.order_by("pk").values_list("pk", "blob_name")[:_FILES_PER_TURN])
    _keep_for_pricing([key for key, _ in found])
    for key, name in found:
        delete_blob(name)
        with transaction.atomic():
            marked = StoredFile.objects.select_for_update().filter(pk=key, swept_at=None)
            sizes = list(marked.values_list("size_bytes", flat=True))
            marked.update(swept_at=clock.now())
            retention_record.add(Kept.FILES, len(sizes), size_bytes=sum(sizes))
    if not found:
        retention_record.add(Kept.FILES, 0, size_bytes=0)
    return len(found) == _FILES_PER_TURN


def _keep_for_pricing(keys: Sequence[int]) -> None:
    """Give the bytes of files to their quotes that are still to be priced: these were asked for in time."""
    pending = FilePricing.objects.filter(state=PricingState.PENDING, due_at__isnull=False)
    files = {stored.quote_id: stored for stored in StoredFile.objects.filter(pk__in=keys).exclude(quote_id="")}
    for quote_id in pending.filter(quote_id__in=files).values_list("quote_id", flat=True):
        with contextlib.suppress(FileNotFoundError):
            link_to_quote(files[quote_id], quote_id)


def sweep_payloads() -> bool:
    """Remove payload and placement of quotes that nobody can accept any more; say whether there may be more to do.

    A quote that became a batch has no time set: its batch needs them.
    """
    over = Quote.objects.filter(payload_kept_until__lte=DATABASE_NOW).order_by("payload_kept_until")
    found = list(over.values_list("public_id", "created_at")[:_FILES_PER_TURN])
    for quote_id, created_at in found:
        delete_blob(payload_name(quote_id))
        delete_blob(placement_name(quote_id))
        with transaction.atomic():
            quote = Quote.objects.filter(public_id=quote_id, created_at=created_at, payload_kept_until__isnull=False)
            sizes = list(quote.select_for_update().values_list("body_size_bytes", flat=True))
            quote.update(payload_kept_until=None)
            retention_record.add(Kept.PAYLOADS, len(sizes), size_bytes=sum(sizes))
    if not found:
        retention_record.add(Kept.PAYLOADS, 0, size_bytes=0)
    return len(found) == _FILES_PER_TURN


def sweep_batches() -> bool:
    """Remove what is kept of batches whose files were deleted, beside these: their rows, and what providers answered.

    Say whether there may be more to do.
    """
    over = Batch.objects.filter(files_deleted_at__isnull=False, files_swept_at=None).order_by("files_deleted_at")
    found = list(over[:_BATCHES_PER_TURN])
    for batch in found:
        for name in (
            ProviderJob.objects.filter(batch=batch).exclude(results_blob="").values_list("results_blob", flat=True)
        ):
            delete_blob(name)
        delete_blob(payload_name(batch.quote_id))
        delete_blob(placement_name(batch.quote_id))
        with transaction.atomic():
            marked_count = Batch.objects.filter(pk=batch.pk, files_swept_at=None).update(files_swept_at=clock.now())
            retention_record.add(Kept.BATCHES, marked_count)
    if not found:
        retention_record.add(Kept.BATCHES, 0)
    return len(found) == _BATCHES_PER_TURN


def sweep_orphans() -> int:
    """Remove blobs whose process was killed between the bytes and the row; give how many there were."""
    return _sweep_orphans("files", "file-", _known_files) + _sweep_orphans("payloads", "qt_", _known_quotes)


def _sweep_orphans(folder: str, prefix: str, known_of: Callable[[Sequence[str]], set[str]]) -> int:
    latest = clock.now() - _ROW_IS_LATE_AFTER
    names = (name for name in blob_names(folder) if _is_named_before(name, prefix, latest))
    removed_count = 0
    while some := list(islice(names, _NAMES_PER_QUERY)):
        known = known_of([_id_in(name) for name in some])
        for name in some:
            if _id_in(name) not in known:
                delete_blob(name)
                removed_count += 1
    return removed_count


def _known_files(ids: Sequence[str]) -> set[str]:
    return set(StoredFile.objects.filter(public_id__in=ids).values_list("public_id", flat=True))


def _known_quotes(ids: Sequence[str]) -> set[str]:
    """A quote's row may go with its month; its batch keeps the payload."""
    quotes = Quote.objects.filter(public_id__in=ids).values_list("public_id", flat=True)
    batches = Batch.objects.filter(quote_id__in=ids).values_list("quote_id", flat=True)
    return {*quotes, *batches}


def _is_named_before(name: str, prefix: str, latest: datetime) -> bool:
    public_id = _id_in(name)
    return is_public_id(public_id, prefix) and created_at_of(public_id) <= latest


def _id_in(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]
