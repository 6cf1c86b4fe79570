"""Django's entry for the ground floor."""

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import register

from ground import checks, fault_points


class GroundConfig(AppConfig):
    """Clock, ids, errors, leases, broker."""

    name = "ground"

    def ready(self) -> None:
        """Say what a start refuses; wake the fault points that it names, which only those of tests do."""
        register(checks.files_are_where_every_host_finds_them)
        fault_points.arm(settings.FAULT_POINTS, settings.STATE_DIR / "fault-points")
