"""Files of customers: kept, and their bytes counted against what an organisation may store."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, Sum

from accounts.models import Organisation
from accounts.selectors import DATABASE_NOW, Caller
from ground import clock
from ground.blobs import SavingBlob, WrittenBlob, delete_blob, wait_quietly
from ground.errors import InvalidRequest, PayloadTooLarge, StoreFull
from ground.ids import created_at_of, new_public_id
from routing.domain.scoring import WorkflowProfile
from routing.models import FilePurpose, StoredFile
from routing.quote_room import take_quote_room
from routing.services.file_quotes import begin_pricing

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
    caller: Caller,
    public_id: str,
    filename: str,
    saving: SavingBlob,
    lifetime: timedelta | None = None,
    workflow: WorkflowProfile | None = None,
    is_retry: bool = False,
) -> StoredFile:
    """Make the row of an uploaded file as its bytes get their name; without a row they are removed again.

    Args:
        caller: Who sent it.
        public_id: The id by which the blob is named.
        filename: As it is shown.
        saving: The blob; it is whole before the row is there.
        lifetime: None for the house's.
        workflow: Under which the file is priced at once; None: it is not. Nobody asked for that price, so it is left
            out where open quotes have half of the room they may have.
        is_retry: The client says that it sent this before: what the key sent in the last 15 minutes is given again, if
            it is there.

    Raises:
        PayloadTooLarge: The organisation has no room for it.
    """
    kept_for = lifetime or settings.FILE_LIFETIME
    written = saving.written
    try:
        with transaction.atomic():
            _lock_uploads(caller.organisation)
            stored = _sent_before(caller, filename, written, kept_for) if is_retry else None
            if stored is None:
                check_room(caller.organisation, written.size_bytes)
                quote_id = _room_for_quote(caller, written) if workflow is not None else ""
                stored = _make(caller, public_id, filename, written, kept_for, quote_id)
                if quote_id and workflow is not None:
                    begin_pricing(caller, quote_id, workflow=workflow, size_bytes=written.size_bytes, stored=stored)
            saving.wait()
    except BaseException as error:
        wait_quietly(saving)
        # Where the connection broke while it committed, the row may be there. The sweep removes what has none.
        if not isinstance(error, OperationalError | InterfaceError):
            delete_blob(written.name)
        raise
    if stored.public_id != public_id:
        delete_blob(written.name)
    return stored


def _make(
    caller: Caller, public_id: str, filename: str, written: WrittenBlob, kept_for: timedelta, quote_id: str
) -> StoredFile:
    at = clock.now()
    return StoredFile.objects.create(
        public_id=public_id,
        organisation=caller.organisation,
        api_key=caller.api_key,
        purpose=FilePurpose.BATCH,
        filename=filename,
        size_bytes=written.size_bytes,
        sha256=written.sha256,
        blob_name=written.name,
        quote_id=quote_id,
        created_at=at,
        expires_at=at + kept_for,
    )


def _room_for_quote(caller: Caller, written: WrittenBlob) -> str:
    """Give a new quote's id, or nothing where open quotes have half of their room."""
    try:
        take_quote_room(caller.organisation, written.size_bytes, maximum_bytes=settings.STORED_QUOTES_MAX_BYTES // 2)
    except StoreFull:
        return ""
    return new_public_id("qt_", clock.now())


def _sent_before(caller: Caller, filename: str, written: WrittenBlob, kept_for: timedelta) -> StoredFile | None:
    """Give the newest file that the key sent in the last minutes with the same bytes, name and lifetime."""
    same = StoredFile.objects.filter(
        organisation=caller.organisation, api_key=caller.api_key, filename=filename, sha256=written.sha256
    )
    recent = same.filter(created_at__gt=DATABASE_NOW - RETRIED_WITHIN, expires_at=F("created_at") + kept_for)
    return recent.filter(purpose=FilePurpose.BATCH, deleted_at=None, swept_at=None).order_by("-pk").first()


def _lock_uploads(organisation: Organisation) -> None:
    """Let an organisation's uploads be counted one after another until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_LOCK_CLASS, organisation.pk])
