"""AWS Cost and Usage Report 2.0 (Data Exports), as CSV or Parquet.

Traps (docs.aws.amazon.com/cur): a month's file is published again and again and replaces the whole billing period; the
invoice id is blank until the bill is final; what a line is for stands in ``line_item_line_item_type``; Bedrock's usage
types end in the kind of token, and count in thousands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC
from typing import BinaryIO, Final

from billing.reconciliation.domain.focus import tokens_in
from billing.reconciliation.domain.openai_reports import tier_in, token_class_in
from billing.reconciliation.domain.records import BadLine, BillLine, ChargeKind, FileEnd, Item, ReadOptions, TokenClass
from billing.reconciliation.domain.tables import TableRow, rows_of
from billing.reconciliation.domain.values import (
    BadValue,
    amount_of,
    checked_window,
    instant_of,
    text_of,
    upper_text_of,
)

_TYPE: Final = "line_item_line_item_type"
NEEDED: Final = (
    _TYPE,
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_unblended_cost",
    "line_item_usage_type",
)
_KINDS: Final = {
    "Usage": ChargeKind.USAGE,
    "DiscountedUsage": ChargeKind.USAGE,
    "Tax": ChargeKind.TAX,
    "Fee": ChargeKind.COMMITMENT,
    "RIFee": ChargeKind.COMMITMENT,
    "SavingsPlanUpfrontFee": ChargeKind.COMMITMENT,
    "SavingsPlanRecurringFee": ChargeKind.COMMITMENT,
    "SavingsPlanCoveredUsage": ChargeKind.USAGE,
    "SavingsPlanNegation": ChargeKind.CREDIT,
    "Credit": ChargeKind.CREDIT,
    "Refund": ChargeKind.CREDIT,
    "EdpDiscount": ChargeKind.CREDIT,
    "BundledDiscount": ChargeKind.CREDIT,
    "PrivateRateDiscount": ChargeKind.CREDIT,
}
# "USE1-Claude3Haiku-input-tokens-batch": region, model, what is counted.
_USAGE_TYPE: Final = re.compile(
    r"^(?:[A-Z]{2,4}\d?-)?(?P<model>.+?)[-_](?P<words>(?:input|output|cache|prompt|completion)[-_A-Za-z0-9]*)$"
)


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[Item]:
    """Read a CUR 2.0 table."""
    not_final_count = 0
    for row in rows_of(stream, options, needed=NEEDED):
        if isinstance(row, BadLine):
            yield row
            continue
        not_final_count += "bill_invoice_id" not in row.cells
        try:
            yield _line(row)
        except BadValue as error:
            yield BadLine(line=row.line, code=error.code, message=error.message, raw=row.raw)
    reason = f"The bill is not final: {not_final_count} lines have no bill_invoice_id." if not_final_count else ""
    yield FileEnd(page_count=1, incomplete_reason=reason)


def _line(row: TableRow) -> BillLine:
    cells = row.cells
    kind = _KINDS.get(cells.get(_TYPE, ""))
    usage_type = text_of(cells.get("line_item_usage_type"))
    found = _USAGE_TYPE.match(usage_type)
    words = found["words"].replace("_", "-") if found else ""
    start, end = (
        instant_of(cells.get(name, ""), name=name, zone=UTC)
        for name in ("line_item_usage_start_date", "line_item_usage_end_date")
    )
    amount = amount_of(cells.get("line_item_unblended_cost", ""), name="line_item_unblended_cost")
    quantity, unit = None, ""
    if kind is ChargeKind.USAGE:
        unit = text_of(cells.get("pricing_unit"))
        name = "line_item_usage_amount"
        quantity, unit = tokens_in(cells.get(name), unit, name=name, is_given_back=amount <= 0)
        checked_window(start, end)
    return BillLine(
        line=row.line,
        account=text_of(cells.get("bill_payer_account_id")),
        window_start=start,
        window_end=end,
        model_name=found["model"] if found else "",
        tier=tier_in(words) or ("standard" if found else ""),
        token_class=token_class_in(words) if words else TokenClass.OTHER,
        project=text_of(cells.get("line_item_usage_account_id")),
        quantity=quantity,
        unit=unit,
        amount=amount,
        currency=upper_text_of(cells.get("line_item_currency_code") or "USD"),
        charge_kind=kind or ChargeKind.USAGE,
        reference=text_of(cells.get("line_item_resource_id")),
        format_note="" if kind else f"{_TYPE} {text_of(cells.get(_TYPE))!r} is not known.",
        raw=row.raw,
        raw_row_hash=row.row_hash,
    )
