"""Django's entry for the routing app."""

from django.apps import AppConfig


class RoutingConfig(AppConfig):
    """See the package's docstring."""

    name = "routing"

    def ready(self) -> None:
        """Let the proof of the books keep the laws of batches too."""
        # Models may be read from now on.
        from billing.selectors import add_laws
        from routing.laws import LAWS

        add_laws(LAWS)
