"""Django's entry for the routing app."""

from django.apps import AppConfig


class RoutingConfig(AppConfig):
    """See the package's docstring."""

    name = "routing"
