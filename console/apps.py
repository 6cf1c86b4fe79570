"""The console app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Pages that cross apps."""

    name = "console"
