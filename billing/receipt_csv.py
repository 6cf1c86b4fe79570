"""A receipt as a CSV file: one row a line, amounts in USD."""

from __future__ import annotations

import csv
import io
from datetime import UTC
from zoneinfo import ZoneInfo

from billing.domain.cells import exact_usd_cell, usd_cell
from billing.models import Receipt, ReceiptLine
from ground.cells import text_cell

_ENDS_IN_SECONDS = "%Y-%m-%d %H:%M:%S"


def receipt_csv(receipt: Receipt, zone: ZoneInfo) -> str:
    """Give a receipt whose lines are loaded; the amounts of the rows add up to its total.

    Args:
        receipt: The receipt.
        zone: For the column of local time, which names it.
    """
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(
        [
            "receipt_id",
            "batch_id",
            "settled_at_utc",
            f"settled_at {zone.key}",
            "line",
            "lane_id",
            "model",
            "kind",
            "tokens",
            "usd_per_1m_tokens",
            "amount_usd",
            "exact_usd",
        ]
    )
    head = [
        text_cell(receipt.public_id),
        text_cell(receipt.batch_public_id),
        receipt.settled_at.astimezone(UTC).strftime(_ENDS_IN_SECONDS),
        receipt.settled_at.astimezone(zone).strftime(_ENDS_IN_SECONDS),
    ]
    writer.writerows([*head, *_line_cells(line)] for line in receipt.lines.all())
    return stream.getvalue()


def _line_cells(line: ReceiptLine) -> list[str]:
    rate = line.rate_micro_usd_per_mtok
    return [
        str(line.line_number),
        text_cell(line.lane_id),
        text_cell(line.model_slug),
        text_cell(line.kind),
        "" if line.tokens is None else str(line.tokens),
        "" if rate is None else usd_cell(rate),
        usd_cell(line.amount_micro_usd),
        exact_usd_cell(int(line.exact_pico_usd)),
    ]
