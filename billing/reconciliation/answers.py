"""How ``/v1/finance`` shows its things."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from billing.reconciliation import selectors
from billing.reconciliation.checklist import checklist
from billing.reconciliation.models import Break, InvoiceFile, Period, ProviderInvoice


def instant_answer(instant: datetime | None) -> int | None:
    """Give an instant as whole Unix seconds."""
    return int(instant.timestamp()) if instant else None


def _whole(value: Decimal | None) -> int | None:
    return None if value is None else int(value)


def invoice_answer(invoice: ProviderInvoice) -> dict[str, Any]:
    """Give an invoice with its figures."""
    headline = selectors.headline(ProviderInvoice.objects.filter(pk=invoice.pk))
    return {
        "id": invoice.public_id,
        "object": "provider_invoice",
        "provider": invoice.provider,
        "provider_account": invoice.provider_account,
        "month": f"{invoice.period:%Y-%m}",
        "number": invoice.number,
        "match_state": invoice.match_state,
        "match_trouble": invoice.match_trouble,
        "matched_at": instant_answer(invoice.matched_at),
        "invoiced_pico_usd": _whole(invoice.invoiced_pico_usd),
        "ours_pico_usd": _whole(invoice.ours_pico_usd),
        "exact_pico_usd": headline.exact_pico_usd,
        "explained_pico_usd": headline.explained_pico_usd,
        "unexplained_pico_usd": headline.unexplained_pico_usd,
        "waiting_pico_usd": headline.waiting_pico_usd,
        "undecided_count": headline.undecided_count,
        "oldest_unexplained_at": instant_answer(headline.oldest_unexplained_at),
        "files": [file.public_id for file in invoice.files.order_by("-pk")],
    }


def file_answer(file: InvoiceFile) -> dict[str, Any]:
    """Give a file, with its first 200 bad lines."""
    return {
        "id": file.public_id,
        "object": "invoice_file",
        "invoice_id": file.invoice.public_id,
        "format": file.report_format,
        "status": file.state,
        "file_name": file.file_name,
        "size_bytes": file.size_bytes,
        "sha256": bytes(file.sha256).hex(),
        "parser_version": file.parser_version,
        "page_count": file.page_count,
        "line_count": file.line_count,
        "read_line_count": file.read_line_count,
        "bad_line_count": file.bad_line_count,
        "bad_lines": [
            {"line": line.line, "code": line.code, "message": line.message}
            for line in file.bad_lines.order_by("line", "pk")[:200]
        ],
        "total_pico_usd": int(file.total_pico_usd),
        "is_complete": file.is_complete,
        "incomplete_reason": file.incomplete_reason,
        "trouble": file.trouble,
        "uploaded_at": instant_answer(file.uploaded_at),
        "read_at": instant_answer(file.read_at),
    }


def break_answer(found: Break) -> dict[str, Any]:
    """Give a break."""
    return {
        "id": found.public_id,
        "object": "break",
        "invoice_id": found.invoice.public_id,
        "kind": found.kind,
        "state": found.state,
        "explanation": found.said,
        "day": found.day.isoformat() if found.day else None,
        "model": found.model,
        "tier": found.tier,
        "token_class": found.token_class,
        "project": found.project,
        "invoiced_tokens": found.invoiced_quantity,
        "ours_tokens": found.ours_quantity,
        "invoiced_pico_usd": int(found.invoiced_pico_usd),
        "ours_pico_usd": int(found.ours_pico_usd),
        "difference_pico_usd": int(found.difference_pico_usd),
        "owner": found.owner.email if found.owner else None,
        "reason": found.reason,
        "entry_key": found.entry_key,
        "opened_at": instant_answer(found.opened_at),
        "decided_at": instant_answer(found.decided_at),
    }


def period_answer(month: date) -> dict[str, Any]:
    """Give a month with its checklist."""
    period = Period.objects.select_related("requested_by", "closed_by").filter(month=month).first()
    return {
        "object": "period",
        "month": f"{month:%Y-%m}",
        "state": period.state if period else "open",
        "requested_by": period.requested_by.email if period and period.requested_by else None,
        "closed_by": period.closed_by.email if period and period.closed_by else None,
        "closed_at": instant_answer(period.closed_at) if period else None,
        "sha256": bytes(period.export_sha256).hex() if period and period.export_sha256 else None,
        "checklist": [{"key": item.key, "is_met": item.is_met, "said": item.said} for item in checklist(month)],
    }
