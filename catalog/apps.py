"""Django's entry for the catalog app."""

from django.apps import AppConfig


class CatalogConfig(AppConfig):
    """See the package's docstring."""

    name = "catalog"
