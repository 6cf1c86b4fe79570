"""Anybody else's CSV, by a mapping made by a person: which column is what, the unit of money, the zone of its days."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import BinaryIO, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from billing.reconciliation.domain.openai_reports import token_class_in
from billing.reconciliation.domain.records import (
    BadLine,
    BillLine,
    ChargeKind,
    ColumnMapping,
    FileEnd,
    Item,
    ReadOptions,
    TokenClass,
    UnreadableFile,
)
from billing.reconciliation.domain.tables import TableRow, rows_of
from billing.reconciliation.domain.values import (
    BadValue,
    amount_of,
    checked_window,
    count_of,
    day_window,
    instant_of,
    lower_text_of,
    text_of,
    upper_text_of,
)

# Our field: what a person is asked for. The first two are needed.
FIELDS: Final = {
    "day": "Day or start",
    "amount": "Amount",
    "end": "End",
    "model": "Model",
    "token_class": "Token class",
    "quantity": "Tokens",
    "tier": "Tier",
    "project": "Project",
    "account": "Account",
    "currency": "Currency",
    "kind": "Kind of charge",
    "reference": "Reference",
}
NEEDED_FIELDS: Final = ("day", "amount")
# By how many decimals each unit lies below a dollar.
AMOUNT_UNITS: Final = {"usd": 0, "cents": 2, "micro_usd": 6}
_KINDS: Final = (
    (re.compile(r"tax|vat"), ChargeKind.TAX),
    (re.compile(r"credit|refund|discount|adjust"), ChargeKind.CREDIT),
    (re.compile(r"commit|fee|purchase|subscription"), ChargeKind.COMMITMENT),
)


def checked_mapping(mapping: ColumnMapping) -> ColumnMapping:
    """Give a mapping again.

    Raises:
        UnreadableFile: It lacks a needed field, names one that we do not know, or has no real zone or unit.
    """
    unknown = [name for name in mapping.columns if name not in FIELDS]
    missing = [FIELDS[name] for name in NEEDED_FIELDS if not mapping.columns.get(name)]
    if unknown or missing:
        said = f"no column for: {', '.join(missing)}" if missing else f"fields we do not know: {', '.join(unknown)}"
        raise UnreadableFile(f"The mapping has {said}.")
    if mapping.amount_unit not in AMOUNT_UNITS or len(mapping.delimiter) != 1:
        raise UnreadableFile("The mapping's unit of money or delimiter is not known.")
    if mapping.tokens_per_unit_count < 1:
        raise UnreadableFile("A unit is at least one token.")
    _zone(mapping)
    return mapping


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[Item]:
    """Read a table by its mapping."""
    if options.mapping is None:
        raise UnreadableFile("This format needs a mapping.")
    mapping = checked_mapping(options.mapping)
    zone, needed = _zone(mapping), [column for column in mapping.columns.values() if column]
    for row in rows_of(stream, options, needed=needed, delimiter=mapping.delimiter):
        if isinstance(row, BadLine):
            yield row
            continue
        try:
            yield _line(row, mapping, zone)
        except BadValue as error:
            yield BadLine(line=row.line, code=error.code, message=error.message, raw=row.raw)
    yield FileEnd(page_count=1, incomplete_reason="")


def _zone(mapping: ColumnMapping) -> ZoneInfo:
    try:
        return ZoneInfo(mapping.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnreadableFile(f"There is no time zone {mapping.zone[:60]!r}.") from None


def _line(row: TableRow, mapping: ColumnMapping, zone: ZoneInfo) -> BillLine:
    def cell(field: str) -> str:
        return row.cells.get(mapping.columns.get(field, ""), "")

    quantity, amount = cell("quantity"), _amount(cell("amount"), mapping)
    word = cell("token_class")
    window = _window(cell("day"), cell("end"), zone)
    kind = next((kind for pattern, kind in _KINDS if pattern.search(cell("kind").lower())), ChargeKind.USAGE)
    token_class = token_class_in(word)
    return BillLine(
        line=row.line,
        account=text_of(cell("account")),
        window_start=window[0],
        window_end=window[1],
        model_name=text_of(cell("model")),
        tier=lower_text_of(cell("tier")),
        token_class=token_class,
        project=text_of(cell("project")),
        quantity=(
            count_of(quantity, name="Tokens", times=mapping.tokens_per_unit_count, is_given_back=amount < 0)
            if quantity
            else None
        ),
        unit="tokens" if quantity else "",
        amount=amount,
        currency=upper_text_of(cell("currency") or mapping.currency),
        charge_kind=kind,
        reference=text_of(cell("reference")),
        format_note=f"Token class {word[:60]!r} is not known." if word and token_class is TokenClass.OTHER else "",
        raw=row.raw,
        raw_row_hash=row.row_hash,
    )


def _window(first: str, last: str, zone: ZoneInfo) -> tuple[datetime, datetime]:
    start = instant_of(first, name="Day", zone=zone)
    if last:
        return checked_window(start, instant_of(last, name="End", zone=zone))
    local = start.astimezone(zone)
    return day_window(local.date(), zone) if local.time() == time() else (start, start + timedelta(hours=1))


def _amount(text: str, mapping: ColumnMapping) -> Decimal:
    # "$1,234.50" and "(12.00)" are how people's spreadsheets print; a comma as decimal mark is refused, not guessed.
    plain = text.strip().replace("$", "")
    if plain.startswith("(") and plain.endswith(")"):
        plain = f"-{plain[1:-1]}"
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", plain):
        plain = plain.replace(",", "")
    return amount_of(plain, name="Amount").scaleb(-AMOUNT_UNITS[mapping.amount_unit])
