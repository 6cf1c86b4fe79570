"""Files of customers: kept, and their bytes counted against what an organisation may store."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q, Sum

from accounts.models import Organisation
from accounts.selectors import Caller
from ground import clock
from ground.blobs import SavingBlob, delete_blob, wait_quietly
from ground.errors import InvalidRequest, PayloadTooLarge, StoreFull
from ground.functions import call
from ground.ids import created_at_of, new_public_id
from ground.wake import wake
from routing.domain.scoring import WorkflowProfile
from routing.models import FilePurpose, StoredFile
from routing.quote_room import take_quote_room
from routing.sdk_tries import SdkTry, as_arguments
from routing.services.file_quotes import unpriced_quote

LIFETIME_MIN_SECONDS = 3_600
LIFETIME_MAX_SECONDS = 2_592_000
_ANCHOR = "created_at"


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
        raise _no_room(stored_bytes)


def _no_room(stored_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
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
    sdk_try: SdkTry | None = None,
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
        sdk_try: Which try of an SDK this is: what another one sent, with the same bytes, name and lifetime, is given
            again, if it is there.

    Raises:
        PayloadTooLarge: The organisation has no room for it.
    """
    at = clock.now()
    stored = StoredFile(
        public_id=public_id,
        organisation=caller.organisation,
        api_key=caller.api_key,
        purpose=FilePurpose.BATCH,
        filename=filename,
        size_bytes=saving.written.size_bytes,
        sha256=saving.written.sha256,
        blob_name=saving.written.name,
        created_at=at,
        expires_at=at + (lifetime or settings.FILE_LIFETIME),
    )
    try:
        with transaction.atomic(savepoint=False):
            kept = _insert(caller, stored, workflow, sdk_try)
            saving.wait()
    except BaseException as error:
        wait_quietly(saving)
        # Where the connection broke while it committed, the row may be there. The sweep removes what has none.
        if not isinstance(error, OperationalError | InterfaceError):
            delete_blob(stored.blob_name)
        raise
    if kept is not stored:
        delete_blob(stored.blob_name)
    return kept


def _insert(caller: Caller, stored: StoredFile, workflow: WorkflowProfile | None, sdk_try: SdkTry | None) -> StoredFile:
    """Save a file, or give the one that another try has saved, in one statement."""
    assert stored.expires_at is not None, "an uploaded file has its time"
    stored.quote_id = _room_for_quote(caller, stored.size_bytes) if workflow is not None else ""
    quote = None
    if stored.quote_id and workflow is not None:
        size_bytes = stored.size_bytes
        quote = unpriced_quote(caller, stored.quote_id, workflow=workflow, size_bytes=size_bytes, stored=stored)
    stored.pk, is_earlier, stored_bytes = call(
        "routing_keep_file",
        [
            stored.organisation_id,
            stored.api_key_id,
            stored.public_id,
            stored.filename,
            stored.size_bytes,
            stored.sha256,
            stored.blob_name,
            stored.created_at,
            stored.expires_at - stored.created_at,
            settings.STORED_FILES_MAX_BYTES,
            *as_arguments(sdk_try),
            *((stored.quote_id, quote.created_at, quote.payload_kept_until) if quote else ("", None, None)),
            *((quote.workflow, quote.plan) if quote else ("", b"")),
        ],
        "bigint bigint text text bigint bytea text timestamptz interval bigint boolean interval interval"
        " text timestamptz timestamptz text bytea",
    )
    if is_earlier:
        return StoredFile.objects.get(pk=stored.pk, organisation=caller.organisation)
    if stored.pk is None:
        raise _no_room(int(stored_bytes))
    if quote is not None:
        wake("routing.price_files")
    return stored


def _room_for_quote(caller: Caller, size_bytes: int) -> str:
    """Give a new quote's id, or nothing where open quotes have half of their room."""
    try:
        take_quote_room(caller.organisation, size_bytes, maximum_bytes=settings.STORED_QUOTES_MAX_BYTES // 2)
    except StoreFull:
        return ""
    return new_public_id("qt_", clock.now())
