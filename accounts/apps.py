"""Django's entry for the accounts app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Organisations, members, keys."""

    name = "accounts"
