"""Notices of providers that a job has ended: verified, and then no more than a wake-up of the poll.

Nothing that a notice says is believed: the provider is asked. So a notice that is lost, doubled or sent again changes
nothing but time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from django.db.models import Q

from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.secrets import decrypt
from ground.wake import wake
from routing.models import JobState, ProviderAccount, ProviderJob
from webhooks.domain.signing import is_signed, key_of

# Standard Webhooks: what is older, or further ahead, is refused.
_TOLERANCE: Final = timedelta(minutes=5)
# A poll this much later than a notice has seen what it tells of, whatever the two clocks say.
_CLOCK_MARGIN: Final = timedelta(seconds=30)
_SECONDS: Final = re.compile(r"[0-9]{1,11}")


class NoticeRefused(InvalidRequest):
    """The notice was not signed by the account's provider, or not lately."""


class _Subject(msgspec.Struct, frozen=True):
    id: str


class _Notice(msgspec.Struct, frozen=True):
    """OpenAI's: the kind of the event and the batch it is about."""

    type: str
    data: _Subject


_decode: Final = msgspec.json.Decoder(_Notice).decode


def hear_notice(*, provider: str, kind: str, event_id: str, timestamp: str, signatures: str, body: bytes) -> int:
    """Let the job that a notice is about be polled at once; give how many jobs were (none if it was polled since).

    Args:
        provider: Whose account, and of which kind of organisation.
        kind: See there.
        event_id: ``webhook-id``.
        timestamp: ``webhook-timestamp``, Unix seconds.
        signatures: ``webhook-signature``.
        body: The body exactly as it came.

    Raises:
        NotFound: There is no such account, or its provider sends no notices.
        NoticeRefused: It is not signed with the account's secret, or its time is more than five minutes away.
        InvalidRequest: It is signed and cannot be read.
    """
    account = ProviderAccount.objects.filter(provider=provider, kind=kind).first()
    if account is None or not account.notice_secret_encrypted:
        raise NotFound("There is nothing at this address.")
    if not _SECONDS.fullmatch(timestamp) or not event_id:
        raise NoticeRefused("The notice has no id or no time.", code="invalid_signature")
    key = key_of(decrypt(bytes(account.notice_secret_encrypted)))
    seconds = int(timestamp)
    if not is_signed(signatures, event_id=event_id, timestamp_seconds=seconds, payload=body, keys=[key]):
        raise NoticeRefused("The signature is not the account's.", code="invalid_signature")
    at, sent_at = clock.now(), datetime.fromtimestamp(seconds, UTC)
    if abs(at - sent_at) > _TOLERANCE:
        raise NoticeRefused("The notice is too old, or from the future.", code="invalid_signature")
    try:
        notice = _decode(body)
    except msgspec.DecodeError as error:
        raise InvalidRequest("The notice cannot be read.", code="invalid_json_line") from error
    if not notice.type.startswith("batch."):
        return 0
    polled_since = Q(polled_at__gte=sent_at + _CLOCK_MARGIN)
    waits = Q(due_at__gt=at) | Q(lease_until__gt=at)
    named = ProviderJob.objects.filter(waits, account=account, state=JobState.RUNNING, batch_ref=notice.data.id)
    called_count = named.exclude(polled_since).update(due_at=at)
    if called_count:
        wake("routing.poll_jobs")
    return called_count
