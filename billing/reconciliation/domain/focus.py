"""FOCUS (FinOps Open Cost and Usage Specification) 1.0 to 1.2, as CSV or Parquet: one reader for several clouds.

``BilledCost`` is what the invoice asks. Missing is null. Periods are UTC, the end exclusive. Model, tier and project
have no column of their own: they stand in ``x_`` columns, in ``SkuPriceDetails``, or in the resource's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC
from decimal import Decimal, InvalidOperation
from typing import BinaryIO, Final

from billing.reconciliation.domain.openai_reports import tier_in, token_class_in
from billing.reconciliation.domain.records import (
    BadLine,
    BillLine,
    ChargeKind,
    FileEnd,
    Item,
    ReadOptions,
)
from billing.reconciliation.domain.tables import TableRow, rows_of
from billing.reconciliation.domain.values import (
    BadValue,
    amount_of,
    checked_window,
    count_of,
    count_or_none,
    instant_of,
    text_of,
    upper_text_of,
)

NEEDED: Final = ("BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodStart", "ChargePeriodEnd")
_MODEL_NAMES: Final = ("x_Model", "x_model", "x_ModelId", "x_model_id", "x_ModelName")
# Athena and other tools write all names in small letters.
_COLUMNS: Final = (
    *NEEDED,
    *("BillingAccountId", "ChargeDescription", "ConsumedQuantity", "ConsumedUnit", "InvoiceId", "PricingQuantity"),
    *("PricingUnit", "ResourceId", "ResourceName", "SkuId", "SkuMeter", "SkuPriceDetails", "SubAccountId"),
    *("x_Tier", "x_TokenClass", "x_Model", "x_ModelId", "x_ModelName"),
)
_KINDS: Final = {
    "Usage": ChargeKind.USAGE,
    "Tax": ChargeKind.TAX,
    "Credit": ChargeKind.CREDIT,
    "Adjustment": ChargeKind.CREDIT,
    "Purchase": ChargeKind.COMMITMENT,
}
_TOKENS_PER_UNIT: Final = {
    "token": 1,
    "tokens": 1,
    "1k tokens": 1_000,
    "1000 tokens": 1_000,
    "1,000 tokens": 1_000,
    "thousand tokens": 1_000,
    "1m tokens": 1_000_000,
    "1000000 tokens": 1_000_000,
    "1,000,000 tokens": 1_000_000,
    "million tokens": 1_000_000,
    "requests": 1,
}


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[Item]:
    """Read a FOCUS cost and usage table."""
    issued_count, not_issued_count = 0, 0
    for row in rows_of(stream, options, needed=NEEDED, known=_COLUMNS):
        if isinstance(row, BadLine):
            yield row
            continue
        issued_count += "InvoiceId" in row.cells
        not_issued_count += "InvoiceId" not in row.cells
        try:
            yield _line(row)
        except BadValue as error:
            yield BadLine(line=row.line, code=error.code, message=error.message, raw=row.raw)
    # Before 1.2 no line has an invoice id; where some have, a null says that the charge is on no invoice yet.
    reason = f"{not_issued_count} lines are on no invoice yet." if issued_count and not_issued_count else ""
    yield FileEnd(page_count=1, incomplete_reason=reason)


def tokens_in(quantity: str | None, unit: str, *, name: str, is_given_back: bool) -> tuple[int | None, str]:
    """Give a quantity as tokens where its unit is of tokens, else as it is and None if it is not whole."""
    if quantity is None:
        return None, unit
    times = _TOKENS_PER_UNIT.get(unit.lower().removeprefix("per ").strip())
    if times is not None:
        count = count_of(quantity, name=name, times=times, is_given_back=is_given_back)
        return count, "requests" if unit.lower() == "requests" else "tokens"
    return count_or_none(quantity, name=name), unit


def _line(row: TableRow) -> BillLine:
    cells = row.cells
    category = text_of(cells.get("ChargeCategory"))
    kind = _KINDS.get(category)
    details = _details(cells)
    meter = text_of(cells.get("SkuMeter") or details.get("x_TokenClass") or cells.get("x_TokenClass"))
    words = " ".join((meter, text_of(cells.get("ChargeDescription")), text_of(cells.get("SkuId"))))
    amount = amount_of(cells.get("BilledCost", ""), name="BilledCost")
    quantity, unit = _quantity(cells, is_given_back=amount <= 0) if kind is ChargeKind.USAGE else (None, "")
    start, end = (
        instant_of(cells.get(name, ""), name=name, zone=UTC) for name in ("ChargePeriodStart", "ChargePeriodEnd")
    )
    checked_window(start, end)
    return BillLine(
        line=row.line,
        account=text_of(cells.get("BillingAccountId")),
        window_start=start,
        window_end=end,
        model_name=_model(cells, details),
        tier=text_of(cells.get("x_Tier") or details.get("x_Tier")) or tier_in(words),
        token_class=token_class_in(meter or words),
        project=text_of(cells.get("SubAccountId")),
        quantity=quantity,
        unit=unit,
        amount=amount,
        currency=upper_text_of(cells.get("BillingCurrency")),
        charge_kind=kind or ChargeKind.USAGE,
        is_long_context="long context" in meter.lower(),
        reference=text_of(cells.get("ResourceId")),
        format_note="" if kind else f"ChargeCategory {category!r} is not known.",
        raw=row.raw,
        raw_row_hash=row.row_hash,
    )


def _quantity(cells: Mapping[str, str], *, is_given_back: bool) -> tuple[int | None, str]:
    of = "Consumed" if "ConsumedQuantity" in cells else "Pricing"
    name = f"{of}Quantity"
    return tokens_in(cells.get(name), text_of(cells.get(f"{of}Unit")), name=name, is_given_back=is_given_back)


def _details(cells: Mapping[str, str]) -> Mapping[str, object]:
    try:
        details = json.loads(cells.get("SkuPriceDetails", "{}"), parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation):
        return {}
    return details if isinstance(details, dict) else {}


def _model(cells: Mapping[str, str], details: Mapping[str, object]) -> str:
    named = next(
        (cells.get(name) or details.get(name) for name in _MODEL_NAMES if name in cells or name in details), ""
    )
    return text_of(named or cells.get("ResourceName") or "")
