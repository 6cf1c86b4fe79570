"""Where and as whom we submit."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction

from accounts.audit import record
from accounts.domain.audit import Change, changed
from ground.secrets import decrypt, encrypt
from routing.models import ProviderAccount
from routing.providers import base
from routing.providers.registry import open_provider

# The slowest upload that is still waited for.
_UPLOAD_BYTES_PER_SECOND = 250_000
_IDLE_MIN_SECONDS = 10.0
# Connections are made twice, outside the deadlines at worst.
_CONNECTING_SECONDS = 10.0


@transaction.atomic
def set_provider_account(
    *, provider: str, kind: str, name: str, base_url: str, api_key: str, at: datetime, project: str = ""
) -> ProviderAccount:
    """Make or change the account of a provider for one kind of organisation; the key is stored encrypted."""
    values = {"name": name, "base_url": base_url, "api_key_encrypted": encrypt(api_key), "project": project}
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


def longest_submit_seconds(upload_bytes: int) -> float:
    """Give after how long a submit that began to upload can surely have no effect any more."""
    return _upload_seconds(upload_bytes) + settings.PROVIDER_TIMEOUT_SECONDS + _CONNECTING_SECONDS


def _upload_seconds(upload_bytes: int) -> float:
    return settings.PROVIDER_TIMEOUT_SECONDS + upload_bytes / _UPLOAD_BYTES_PER_SECOND
