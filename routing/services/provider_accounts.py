"""Where and as whom we submit."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import transaction

from accounts.audit import record
from accounts.domain.audit import Change, changed
from accounts.models import User
from ground import clock
from ground.errors import InvalidRequest, NotFound, ProviderError
from ground.reasons import checked_reason
from ground.secrets import decrypt, encrypt
from routing.models import ProviderAccount
from routing.providers import base
from routing.providers.registry import open_provider
from webhooks.domain.signing import key_of

_log = logging.getLogger(__name__)

# Standard Webhooks: how long a key is.
_NOTICE_KEY_BYTES: Final = range(24, 65)

# What no repetition heals: the account itself must be put right by people.
_REFUSALS: Final = frozenset({base.Fault.ACCOUNT_REFUSED, base.Fault.QUOTA_EXHAUSTED})
# The slowest upload that is still waited for.
_UPLOAD_BYTES_PER_SECOND = 250_000
_IDLE_MIN_SECONDS = 10.0
# Connections are made twice, outside the deadlines at worst.
_CONNECTING_SECONDS = 10.0


@transaction.atomic
def set_provider_account(
    *,
    provider: str,
    kind: str,
    name: str,
    base_url: str,
    api_key: str,
    at: datetime,
    project: str = "",
    notice_secret: str = "",
) -> ProviderAccount:
    """Make or change the account of a provider for one kind of organisation; its secrets are stored encrypted.

    ``notice_secret`` (``whsec_...``) is what the provider signs its notices with; empty: it sends none, or what was
    given before stays.
    """
    values = {"name": name, "base_url": base_url, "api_key_encrypted": encrypt(api_key), "project": project}
    if notice_secret:
        # A secret that cannot be read must not be found out when the first notice comes.
        key_of(notice_secret)
        values["notice_secret_encrypted"] = encrypt(notice_secret)
    before = ProviderAccount.objects.select_for_update().filter(provider=provider, kind=kind).first()
    account, _ = ProviderAccount.objects.update_or_create(
        provider=provider, kind=kind, defaults=values, create_defaults={**values, "created_at": at}
    )
    changes = changed(_said(before), _said(account))
    if before is not None and decrypt(bytes(before.api_key_encrypted)) != api_key:
        changes["api_key"] = ("one", "another")
    if changes:
        record("provider.account_set", object_type="provider_account", object_id=name, changes=changes)
    return account


@transaction.atomic
def set_notice_secret(*, provider: str, kind: str, secret: str, reason: str, user: User) -> ProviderAccount:
    """Set what a provider signs its notices to us with; an empty one ends them. The next notice is judged by it.

    Raises:
        NotFound: There is no such account.
        InvalidRequest: The secret is not ``whsec_`` and the Base64 of 24 to 64 bytes, or the reason (stripped) is not
            3 to 200 characters.
    """
    reason = checked_reason(reason)
    if secret:
        _check_secret(secret)
    account = ProviderAccount.objects.select_for_update().filter(provider=provider, kind=kind).first()
    if account is None:
        raise NotFound("There is no such account.")
    before = "one" if account.notice_secret_encrypted else "none"
    account.notice_secret_encrypted = encrypt(secret) if secret else b""
    account.save(update_fields=["notice_secret_encrypted"])
    record(
        "provider.account_set",
        object_type="provider_account",
        object_id=account.name,
        changes={"notice_secret": (before, ("another" if before == "one" else "one") if secret else "none")},
        reason=reason,
        user=user,
    )
    return account


def _check_secret(secret: str) -> None:
    try:
        size_bytes = len(key_of(secret)) if secret.startswith("whsec_") else 0
    except ValueError:
        size_bytes = 0
    if size_bytes not in _NOTICE_KEY_BYTES:
        raise InvalidRequest("A secret is whsec_ and the Base64 of 24 to 64 bytes.", param="secret")


def _said(account: ProviderAccount | None) -> dict[str, Change]:
    names = ("name", "base_url", "project")
    return {name: getattr(account, name) if account else None for name in names}


def opened(account: ProviderAccount, *, upload_bytes: int = 0) -> base.Provider:
    """Give the adapter of an account, to be used in a ``with``; the key is in clear in there and nowhere else.

    ``upload_bytes`` is what will be uploaded, for the deadline.
    """
    return open_provider(
        base.ProviderAccount(
            provider=account.provider,
            name=account.name,
            base_url=account.base_url,
            api_key=decrypt(bytes(account.api_key_encrypted)),
            project=account.project or None,
        ),
        base.Deadlines(
            call_seconds=settings.PROVIDER_TIMEOUT_SECONDS,
            upload_seconds=_upload_seconds(upload_bytes),
            # A provider that says nothing must not cost the lease, which is kept as rows come.
            idle_seconds=max(_IDLE_MIN_SECONDS, settings.LEASE_SECONDS / 2),
        ),
    )


def note_refusal(account: ProviderAccount, error: ProviderError) -> None:
    """Ring the alarm if a provider refuses an account itself (401, 403, an exhausted quota), once until it answers.

    Every lane of the account stands still then, and nothing that the engine repeats helps.
    """
    if error.code not in _REFUSALS:
        return
    at = clock.now()
    unheard = ProviderAccount.objects.filter(pk=account.pk, refused_since=None)
    if unheard.update(refused_since=at, refusal=f"{error.code}: {error.message}"[:300]):
        _log.error("provider account %s is refused and people must see to it: %s", account.name, error.message)


def note_answer(account: ProviderAccount) -> None:
    """End the alarm of an account that its provider answers again; costs nothing where none rings."""
    if account.refused_since is None:
        return
    rung = ProviderAccount.objects.filter(pk=account.pk, refused_since=account.refused_since)
    if rung.update(refused_since=None, refusal=""):
        _log.warning("provider account %s is answered again", account.name)


def longest_submit_seconds(upload_bytes: int) -> float:
    """Give after how long a submit that began to upload can surely have no effect any more."""
    return _upload_seconds(upload_bytes) + settings.PROVIDER_TIMEOUT_SECONDS + _CONNECTING_SECONDS


def _upload_seconds(upload_bytes: int) -> float:
    return settings.PROVIDER_TIMEOUT_SECONDS + upload_bytes / _UPLOAD_BYTES_PER_SECOND
