"""Django's entry for the ground floor."""

from django.apps import AppConfig
from django.conf import settings

from ground import fault_points


class GroundConfig(AppConfig):
    """Clock, ids, errors, leases, broker."""

    name = "ground"

    def ready(self) -> None:
        """Wake the fault points that the start names; none but tests' do."""
        fault_points.arm(settings.FAULT_POINTS, settings.STATE_DIR / "fault-points")
