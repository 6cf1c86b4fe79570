"""Load the catalog's data file; the start script runs it after the migrations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

import catalog.data
from accounts.audit import Hand, acting
from catalog.domain.document import parse_document
from catalog.services.loading import load_catalog

DATA_FILE = Path(catalog.data.__file__).with_name("catalog.json")


class Command(BaseCommand):
    """``load_catalog [FILE]``: idempotent."""

    help = "Bring the catalog to what its data file says; running it again changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take another file where one is given."""
        parser.add_argument("file", nargs="?", type=Path, default=DATA_FILE)

    def handle(self, *_: Any, file: Path, **__: Any) -> None:  # noqa: ANN401 -- Django's own signature
        """Load and say what changed."""
        with acting(Hand(name="load_catalog")):
            report = load_catalog(parse_document(file.read_bytes()))
        self.stdout.write(
            f"catalog: {report.rows_made} rows made, {report.rows_changed} changed, "
            f"{report.rate_versions_made} rate versions"
        )
