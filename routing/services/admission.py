"""Letting a call in: one statement that says who calls, counts the call, and gives what the quote path needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accounts.domain.keys import hash_key, is_well_formed
from accounts.domain.limits import Bucket, BucketKind, CallLimits
from accounts.models import ApiKey, Organisation
from accounts.selectors import Caller, not_a_key
from ground.connections import preparing_cursor

_KEY_FIELDS = ("id", "public_id", "name", "scopes")
_ORGANISATION_FIELDS = (
    *("id", "public_id", "slug", "name", "kind", "reporting_zone"),
    *("billing_blocked_at", "calls_per_minute", "input_tokens_per_minute"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenCall(Caller):
    """A caller over the API, with what was true of its organisation when the call came.

    ``catalog_versions`` is what :func:`catalog.selectors.current_catalog` compares its map with, ``learned_versions``
    what :func:`routing.learned.learned_for` does.
    """

    limits: CallLimits
    available_micro_usd: int
    is_blocked: bool
    catalog_versions: tuple[int, int]
    learned_versions: tuple[int, int]


def take_call(key_text: str) -> TakenCall:
    """Give the caller whom a bearer key stands for, by the database's clock, with its call counted.

    Whether the call is admitted is in its ``limits``: the answer says them in any case. A refused one takes nothing.
    Runs outside of any transaction, whose commit it would make as lax as its own.

    Raises:
        AuthenticationFailed: The key is malformed, unknown, revoked or expired; the message does not say which.
    """
    if not is_well_formed(key_text):
        raise not_a_key()
    with preparing_cursor() as cursor:
        cursor.execute("SELECT * FROM routing_take_call(%s)", [hash_key(key_text)])
        row = cursor.fetchone()
    if row is None:
        raise not_a_key()
    return _read(row)


def _read(row: tuple[Any, ...]) -> TakenCall:
    key_end = len(_KEY_FIELDS)
    organisation_end = key_end + len(_ORGANISATION_FIELDS)
    # What is not read here is read when it is asked for; nothing on a call's path does.
    organisation = Organisation.from_db("default", _ORGANISATION_FIELDS, row[key_end:organisation_end])
    (is_admitted, at, requests_full_at, tokens_full_at, available, _posted, _floor, receivable, *versions) = row[
        organisation_end:
    ]
    return TakenCall(
        organisation=organisation,
        api_key=ApiKey.from_db("default", _KEY_FIELDS, row[:key_end]),
        limits=CallLimits(
            is_admitted=is_admitted,
            requests=Bucket.seen(BucketKind.REQUESTS, organisation.calls_per_minute, full_at=requests_full_at, at=at),
            tokens=Bucket.seen(BucketKind.TOKENS, organisation.input_tokens_per_minute, full_at=tokens_full_at, at=at),
        ),
        available_micro_usd=available,
        is_blocked=organisation.billing_blocked_at is not None or receivable > 0,
        catalog_versions=(versions[0], versions[1]),
        learned_versions=(versions[2], versions[3]),
    )
