"""Hand in a provider's report from the command line, and wait until it is read and matched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.audit import Hand, acting
from billing.domain.cells import exact_usd_cell
from billing.reconciliation.domain.records import ColumnMapping, Format
from billing.reconciliation.models import Break, BreakState, InvoiceFile
from billing.reconciliation.months import month_of
from billing.reconciliation.services.files import Report, stated_total_of, take_file
from billing.reconciliation.services.matching import match_next_invoice
from billing.reconciliation.services.reading import read_next_file
from ground import clock
from ground.errors import LanehouseError

_CHUNK_BYTES = 256 * 1024


class Command(BaseCommand):
    """``import_invoice FILE --provider openai --account openai-customer --month 2026-10 --format openai_costs``."""

    help = "Hand in a provider's report; the same file twice is refused, a corrected one takes the place of the first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what a file does not say of itself."""
        parser.add_argument("file", type=Path)
        parser.add_argument("--provider", required=True)
        parser.add_argument("--account", required=True, help="our account there, as it stands with our lanes")
        parser.add_argument("--month", required=True, help="for example 2026-10")
        parser.add_argument("--format", required=True, choices=[each.value for each in Format])
        parser.add_argument("--mapping", type=Path, help="a JSON file: columns, zone, amount_unit, ...")
        parser.add_argument("--number", default="", help="the invoice's number")
        parser.add_argument("--total", help="the invoice's total in USD, to compare with the sum of its lines")
        parser.add_argument("--fetched-with", default="", help="how the report was asked for")
        parser.add_argument("--background", action="store_true", help="hand it in, and let the engine do the rest")

    def handle(self, *_: Any, **options: Any) -> None:  # noqa: ANN401 -- Django's own signature
        """Hand it in and say what came of it."""
        try:
            with acting(Hand(name="import_invoice")):
                file = take_file(self._report(options), self._chunks(options["file"]), by=None)
        except (LanehouseError, OSError, ValueError, ArithmeticError, TypeError) as error:
            raise CommandError(str(error)) from error
        if options["background"]:
            self.stdout.write(f"{file.public_id}: handed in as {file.invoice.public_id}")
            return
        while read_next_file() or match_next_invoice():
            pass
        file.refresh_from_db()
        self._say(file)

    def _report(self, options: dict[str, Any]) -> Report:
        mapping = json.loads(options["mapping"].read_text()) if options["mapping"] else None
        total = options["total"]
        return Report(
            provider=options["provider"],
            provider_account=options["account"],
            period=month_of(options["month"]),
            report_format=Format(options["format"]),
            file_name=options["file"].name,
            mapping=None if mapping is None else ColumnMapping(**mapping),
            invoice_number=options["number"],
            stated_total_micro_usd=None if total is None else stated_total_of(total),
            request_parameters=options["fetched_with"],
            fetched_at=clock.now(),
        )

    def _chunks(self, path: Path) -> Any:  # noqa: ANN401 -- an iterator of bytes
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk

    def _say(self, file: InvoiceFile) -> None:
        invoice = file.invoice
        invoice.refresh_from_db()
        self.stdout.write(
            f"{file.public_id}: {file.state}, {file.line_count:,} lines, {file.bad_line_count:,} bad"
            f"{', not complete: ' + file.incomplete_reason if file.incomplete_reason else ''}{file.trouble}"
        )
        for line in file.bad_lines.order_by("line", "pk")[:20]:
            self.stdout.write(f"  line {line.line}: {line.message}")
        breaks = Break.objects.filter(invoice=invoice).exclude(state=BreakState.CLEARED)
        for found in breaks.order_by("kind", "pk"):
            self.stdout.write(f"  {found.kind:<24} {exact_usd_cell(int(found.difference_pico_usd)):>24} {found.said}")
        difference = int(invoice.invoiced_pico_usd or 0) - int(invoice.ours_pico_usd or 0)
        self.stdout.write(f"{invoice.public_id}: {exact_usd_cell(difference)} USD invoiced less ours")
