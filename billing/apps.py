"""Django's entry for the billing app."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """See the package's docstring."""

    name = "billing"
