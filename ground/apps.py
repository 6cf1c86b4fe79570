"""Django's entry for the ground floor."""

from django.apps import AppConfig


class GroundConfig(AppConfig):
    """Clock, ids, errors, leases, broker."""

    name = "ground"
