"""Where and as whom we submit."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from ground.secrets import decrypt, encrypt
from routing.models import ProviderAccount
from routing.providers import base


@transaction.atomic
def set_provider_account(
    *, provider: str, kind: str, name: str, base_url: str, api_key: str, at: datetime, project: str = ""
) -> ProviderAccount:
    """Make or change the account of a provider for one kind of organisation; the key is stored encrypted."""
    values = {"name": name, "base_url": base_url, "api_key_encrypted": encrypt(api_key), "project": project}
    account, _ = ProviderAccount.objects.update_or_create(
        provider=provider, kind=kind, defaults=values, create_defaults={**values, "created_at": at}
    )
    return account


def opened_account(account: ProviderAccount) -> base.ProviderAccount:
    """Give an account as its adapter takes it, with the key in clear."""
    return base.ProviderAccount(
        provider=account.provider,
        name=account.name,
        base_url=account.base_url,
        api_key=decrypt(account.api_key_encrypted),
        project=account.project or None,
    )
