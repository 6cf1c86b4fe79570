"""The file that goes to a provider with a dispute: what they billed, what we have, and the lines and jobs of both."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from billing.domain.cells import exact_usd_cell
from billing.reconciliation.models import Break
from ground.cells import text_cell

_COLUMNS = (
    "record", "break_id", "invoice_number", "account", "day_utc", "class", "model", "tier", "token_class", "project",
    "line_or_batch", "tokens", "billed_usd", "expected_usd", "difference_usd", "explanation",
)  # fmt: skip


def dispute_file(found: Iterable[Break]) -> bytes:
    """Give the CSV; each break is followed by the evidence of both sides."""
    written = io.StringIO()
    writer = csv.DictWriter(written, _COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for each in found:
        writer.writerows(_rows(each))
    return written.getvalue().encode()


def _rows(found: Break) -> Iterator[dict[str, str]]:
    yield {
        "record": "break",
        "break_id": found.public_id,
        "invoice_number": text_cell(found.invoice.number),
        "account": text_cell(found.invoice.provider_account),
        "day_utc": found.day.isoformat() if found.day else "",
        "class": found.kind,
        "model": text_cell(found.model),
        "tier": text_cell(found.tier),
        "token_class": found.token_class,
        "project": text_cell(found.project),
        "billed_usd": exact_usd_cell(int(found.invoiced_pico_usd)),
        "expected_usd": exact_usd_cell(int(found.ours_pico_usd)),
        "difference_usd": exact_usd_cell(int(found.difference_pico_usd)),
        "explanation": text_cell(found.said),
    }
    for line in found.evidence.get("lines", []):
        yield {
            "record": "your line",
            "break_id": found.public_id,
            "line_or_batch": str(line["line"]),
            "model": text_cell(line["model"]),
            "tier": text_cell(line["tier"]),
            "token_class": line["token_class"],
            "tokens": "" if line["quantity"] is None else str(line["quantity"]),
            "billed_usd": exact_usd_cell(int(line["pico_usd"])),
        }
    for job in found.evidence.get("jobs", []):
        yield {
            "record": "our job",
            "break_id": found.public_id,
            "line_or_batch": job["batch_id"],
            "tokens": str(job["tokens"]),
            "expected_usd": exact_usd_cell(int(job["pico_usd"])),
        }
