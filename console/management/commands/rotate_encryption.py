"""Encrypt every stored secret with the newest key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from accounts.audit import Hand, acting
from console.encryption import rotate_encryption


class Command(BaseCommand):
    """Say how many secrets were made anew."""

    help = "Encrypt every stored secret with the first of LANEHOUSE_ENCRYPTION_KEYS; safe to repeat."

    def handle(self, *_args: Any, **_options: Any) -> None:  # noqa: ANN401 -- Django's signature
        """Rotate."""
        with acting(Hand(name="rotate_encryption")):
            self.stdout.write(f"{rotate_encryption()} secrets were encrypted anew")
