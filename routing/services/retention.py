"""What is removed when its time is over: bytes of files, and uploads that never got a row.

Each removal is safe to kill and to repeat: bytes first, then the mark that they are gone; a blob that is gone already
is no error.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from django.db.models import Q

from accounts.selectors import DATABASE_NOW
from ground import clock
from ground.ids import created_at_of, is_public_id
from routing.blobs import blob_names, delete_blob
from routing.models import StoredFile

_FILES_PER_TURN: Final = 500
_NAMES_PER_QUERY: Final = 500
# A blob gets its name when it is whole, and its row right after: what has none by then has nobody who would make it.
_ROW_IS_LATE_AFTER: Final = timedelta(hours=1)


def sweep_files() -> bool:
    """Remove the bytes of files that were deleted or whose time is over; say whether there may be more to do."""
    # By the database's clock, as readers judge it: what is removed here is what they are told is gone.
    over = StoredFile.objects.filter(Q(deleted_at__isnull=False) | Q(expires_at__lte=DATABASE_NOW), swept_at=None)
    found = list(over.order_by("pk").values_list("pk", "blob_name")[:_FILES_PER_TURN])
    for key, name in found:
        delete_blob(name)
        StoredFile.objects.filter(pk=key, swept_at=None).update(swept_at=clock.now())
    return len(found) == _FILES_PER_TURN


def sweep_orphans() -> int:
    """Remove uploads whose process was killed between the bytes and the row; give how many there were."""
    latest = clock.now() - _ROW_IS_LATE_AFTER
    names = (name for name in blob_names("files") if _is_named_before(name, latest))
    removed_count = 0
    while some := list(islice(names, _NAMES_PER_QUERY)):
        known = set(StoredFile.objects.filter(blob_name__in=some).values_list("blob_name", flat=True))
        for name in some:
            if name not in known:
                delete_blob(name)
                removed_count += 1
    return removed_count


def _is_named_before(name: str, latest: datetime) -> bool:
    file_id = name.rpartition("/")[2].partition(".")[0]
    return is_public_id(file_id, "file-") and created_at_of(file_id) <= latest
