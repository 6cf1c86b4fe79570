"""Files of customers: kept, and their bytes counted against what an organisation may store."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, Sum

from accounts.models import ApiKey, Organisation
from accounts.selectors import DATABASE_NOW
from ground import clock
from ground.blobs import WrittenBlob, delete_blob
from ground.errors import InvalidRequest, PayloadTooLarge
from ground.ids import created_at_of
from routing.models import FilePurpose, StoredFile

LIFETIME_MIN_SECONDS = 3_600
LIFETIME_MAX_SECONDS = 2_592_000
# A client that repeats a call by itself does so soon.
RETRIED_WITHIN = timedelta(minutes=15)
_ANCHOR = "created_at"
# The first half of the key of the lock that lets an organisation's uploads be counted one by one.
_LOCK_CLASS = 0x66696C65


def uploaded_blob_name(file_id: str) -> str:
    """Give the name of an uploaded file's bytes; a folder a day keeps folders small."""
    return f"files/{created_at_of(file_id):%Y/%m/%d}/{file_id}.jsonl"


def checked_lifetime(*, anchor: object, seconds: object, param: str) -> timedelta:
    """Give how long a file shall be kept: OpenAI's rule, an hour to 30 days from its creation.

    Raises:
        InvalidRequest: Another anchor, no whole number, or out of bounds.
    """
    if anchor != _ANCHOR:
        raise InvalidRequest(f"'{param}.anchor' is {_ANCHOR!r}.", param=param)
    if isinstance(seconds, str) and seconds.isdecimal() and len(seconds) <= len(str(LIFETIME_MAX_SECONDS)):
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise InvalidRequest(f"'{param}.seconds' is a whole number.", code="invalid_type", param=param)
    if not LIFETIME_MIN_SECONDS <= seconds <= LIFETIME_MAX_SECONDS:
        raise InvalidRequest(f"'{param}.seconds' is {LIFETIME_MIN_SECONDS} to {LIFETIME_MAX_SECONDS}.", param=param)
    return timedelta(seconds=seconds)


def check_room(organisation: Organisation, wanted_bytes: int) -> None:
    """Refuse a file for which an organisation has no room.

    Raises:
        PayloadTooLarge: Its uploaded files would be more than it may store; says how much there is.
    """
    kept = StoredFile.objects.filter(organisation=organisation, purpose=FilePurpose.BATCH, deleted_at=None)
    stored_bytes = kept.filter(Q(swept_at=None)).aggregate(total=Sum("size_bytes"))["total"] or 0
    if stored_bytes + wanted_bytes > settings.STORED_FILES_MAX_BYTES:
        raise PayloadTooLarge(
            f"The organisation's files have {stored_bytes} bytes; with this one they would be more than the"
            f" {settings.STORED_FILES_MAX_BYTES} it may store. Delete files that are no longer needed.",
            param="file",
            extra={"stored_bytes": stored_bytes, "stored_max_bytes": settings.STORED_FILES_MAX_BYTES},
        )


def keep_file(
    *,
    organisation: Organisation,
    public_id: str,
    filename: str,
    written: WrittenBlob,
    lifetime: timedelta | None,
    api_key: ApiKey | None = None,
    is_retry: bool = False,
) -> StoredFile:
    """Make the row of an uploaded file whose bytes are there already; without a row they are removed again.

    Args:
        organisation: Whose file it is.
        public_id: The id by which the blob is named.
        filename: As it is shown.
        written: The blob.
        lifetime: None for the house's.
        api_key: Who sent it.
        is_retry: The client says that it sent this before: what the key sent in the last 15 minutes is given again, if
            it is there.

    Raises:
        PayloadTooLarge: The organisation has no room for it.
    """
    try:
        with transaction.atomic():
            _lock_uploads(organisation)
            kept_for = lifetime or settings.FILE_LIFETIME
            earlier = _sent_before(organisation, api_key, filename, written, kept_for) if is_retry else None
            if earlier is not None:
                delete_blob(written.name)
                return earlier
            check_room(organisation, written.size_bytes)
            at = clock.now()
            return StoredFile.objects.create(
                public_id=public_id,
                organisation=organisation,
                api_key=api_key,
                purpose=FilePurpose.BATCH,
                filename=filename,
                size_bytes=written.size_bytes,
                sha256=written.sha256,
                blob_name=written.name,
                created_at=at,
                expires_at=at + kept_for,
            )
    except (OperationalError, InterfaceError):
        # The connection broke, and if that was while it committed, the row is there. The sweep removes what has none.
        raise
    except BaseException:
        delete_blob(written.name)
        raise


def _sent_before(
    organisation: Organisation, api_key: ApiKey | None, filename: str, written: WrittenBlob, kept_for: timedelta
) -> StoredFile | None:
    """Give the newest file that the key sent in the last minutes with the same bytes, name and lifetime."""
    same = StoredFile.objects.filter(
        organisation=organisation, api_key=api_key, filename=filename, sha256=written.sha256
    )
    recent = same.filter(created_at__gt=DATABASE_NOW - RETRIED_WITHIN, expires_at=F("created_at") + kept_for)
    return recent.filter(purpose=FilePurpose.BATCH, deleted_at=None, swept_at=None).order_by("-pk").first()


def _lock_uploads(organisation: Organisation) -> None:
    """Let an organisation's uploads be counted one after another until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK_CLASS, organisation.pk])
