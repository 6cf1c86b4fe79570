"""Django's entry for the webhooks app."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """Endpoints, events, deliveries."""

    name = "webhooks"
