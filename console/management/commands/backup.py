"""Back up database and blobs into a new folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.audit import Hand, acting
from console.backup import BackupProblem, back_up


class Command(BaseCommand):
    """Run it with the owner's DATABASE_URL."""

    help = "Back up database and blobs into a new folder; DATABASE_URL is the owner's."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the folder."""
        parser.add_argument("folder", type=Path)

    def handle(self, *_args: Any, **options: Any) -> None:  # noqa: ANN401 -- Django's signature
        """Do it and say what is there."""
        try:
            with acting(Hand(name="backup")):
                said = back_up(options["folder"], settings.DATABASE_URL)
        except (BackupProblem, OSError, ValueError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(", ".join(f"{name} {value}" for name, value in said.items()))
