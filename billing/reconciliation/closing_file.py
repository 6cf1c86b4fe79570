"""The closing file of a month: its invoices and every break, as CSV, the same bytes whenever it is made of the same."""

from __future__ import annotations

import csv
import io
from datetime import date

from billing.domain.cells import exact_usd_cell
from billing.reconciliation.models import Break, BreakState, FileState, InvoiceFile, ProviderInvoice
from ground.cells import text_cell

_COLUMNS = (
    "record", "id", "invoice_id", "provider", "account", "period", "day", "class", "state", "model", "tier",
    "token_class", "project", "invoiced_tokens", "ours_tokens", "invoiced_usd", "ours_usd", "difference_usd", "reason",
    "decided_by", "decided_at_utc", "ledger_entry", "sha256",
)  # fmt: skip


def closing_file(month: date) -> bytes:
    """Give the file; amounts have twelve decimals, and the last line adds up the differences."""
    written = io.StringIO()
    writer = csv.DictWriter(written, _COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    invoices = ProviderInvoice.objects.filter(period=month).order_by("provider", "provider_account")
    for invoice in invoices:
        for file in InvoiceFile.objects.filter(invoice=invoice, state=FileState.READ).order_by("-has_money"):
            writer.writerow(_of_file(invoice, file))
        writer.writerow(_of_invoice(invoice))
    total_pico_usd = 0
    breaks = Break.objects.filter(invoice__period=month).exclude(state=BreakState.CLEARED)
    for found in breaks.select_related("invoice", "decided_by").order_by("invoice_id", "pk").iterator():
        total_pico_usd += int(found.difference_pico_usd)
        writer.writerow(_of_break(found))
    writer.writerow({"record": "total", "period": f"{month:%Y-%m}", "difference_usd": exact_usd_cell(total_pico_usd)})
    return written.getvalue().encode()


def _of_invoice(invoice: ProviderInvoice) -> dict[str, str]:
    invoiced, ours = int(invoice.invoiced_pico_usd or 0), int(invoice.ours_pico_usd or 0)
    return {
        "record": "invoice",
        "id": invoice.public_id,
        "invoice_id": invoice.public_id,
        "provider": text_cell(invoice.provider),
        "account": text_cell(invoice.provider_account),
        "period": f"{invoice.period:%Y-%m}",
        "invoiced_usd": exact_usd_cell(invoiced),
        "ours_usd": exact_usd_cell(ours),
        "difference_usd": exact_usd_cell(invoiced - ours),
    }


def _of_file(invoice: ProviderInvoice, file: InvoiceFile) -> dict[str, str]:
    return {
        "record": "file",
        "id": file.public_id,
        "invoice_id": invoice.public_id,
        "class": file.report_format,
        "state": file.state,
        "invoiced_usd": exact_usd_cell(int(file.total_pico_usd)) if file.has_money else "",
        "sha256": bytes(file.sha256).hex(),
    }


def _of_break(found: Break) -> dict[str, str]:
    return {
        "record": "break",
        "id": found.public_id,
        "invoice_id": found.invoice.public_id,
        "provider": text_cell(found.invoice.provider),
        "account": text_cell(found.invoice.provider_account),
        "period": f"{found.invoice.period:%Y-%m}",
        "day": found.day.isoformat() if found.day else "",
        "class": found.kind,
        "state": found.state,
        "model": text_cell(found.model),
        "tier": text_cell(found.tier),
        "token_class": found.token_class,
        "project": text_cell(found.project),
        "invoiced_tokens": "" if found.invoiced_quantity is None else str(found.invoiced_quantity),
        "ours_tokens": "" if found.ours_quantity is None else str(found.ours_quantity),
        "invoiced_usd": exact_usd_cell(int(found.invoiced_pico_usd)),
        "ours_usd": exact_usd_cell(int(found.ours_pico_usd)),
        "difference_usd": exact_usd_cell(int(found.difference_pico_usd)),
        "reason": text_cell(found.reason),
        "decided_by": text_cell(found.decided_by.name) if found.decided_by else "",
        "decided_at_utc": f"{found.decided_at:%Y-%m-%dT%H:%M:%SZ}" if found.decided_at else "",
        "ledger_entry": found.entry_key,
    }
