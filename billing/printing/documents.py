"""What stands on a receipt's and on a statement's sheet, put together from what was read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from accounts.models import Organisation
from billing.models import Receipt
from billing.printing.pdf import Sheet, SheetColumn, SheetRow, SheetTable, money, rate
from billing.views.shown import LaneLines, lines_by_lane

_LINES = (
    SheetColumn(label="Line item", wide=True),
    SheetColumn(label="Tokens", number=True),
    SheetColumn(label="$ / 1M tokens", number=True),
    SheetColumn(label="Amount", number=True),
)
_AMOUNTS = (SheetColumn(label="", wide=True), SheetColumn(label="Amount", number=True))
_ROUNDED = (
    "Each line is rounded once, to the millionth of a dollar. Requests that failed, and attempts before the one that"
    " was delivered, are not charged."
)


def receipt_sheet(receipt: Receipt, customer: Organisation, zone: ZoneInfo) -> Sheet:
    """Give a receipt whose lines are loaded; its instant in a zone and, where that is another, in UTC."""
    owed = (("Owed", receipt.receivable_micro_usd),) if receipt.receivable_micro_usd else ()
    return Sheet(
        title="Receipt",
        reference=receipt.public_id,
        facts=(
            (
                ("From", "Lanehouse"),
                ("To", f"{customer.name}{' (test)' if customer.is_test else ''}"),
                ("Customer", customer.public_id),
                ("Currency", "USD, to the millionth"),
            ),
            (
                ("Receipt", receipt.public_id),
                ("Batch", receipt.batch_public_id),
                ("Settled", instant(receipt.settled_at, zone)),
                *([] if zone.key == "UTC" else [("", instant(receipt.settled_at, ZoneInfo("UTC")))]),
            ),
        ),
        tables=(
            SheetTable(title="Line items", columns=_LINES, rows=(*_line_rows(lines_by_lane(receipt)), *_sums(receipt))),
            SheetTable(
                title="Reservation",
                columns=_AMOUNTS,
                rows=tuple(
                    SheetRow(cells=(name, money(micro_usd)))
                    for name, micro_usd in (
                        ("Held at accept", receipt.reserved_micro_usd),
                        ("Charged", receipt.total_micro_usd),
                        ("Released", receipt.released_micro_usd),
                        *owed,
                        ("Estimate", receipt.estimate_total_micro_usd),
                    )
                ),
            ),
        ),
        notes=(_ROUNDED,) if receipt.line_count else ("No request was delivered, so nothing was charged.",),
    )


_MOVEMENTS = (
    SheetColumn(label="Booked"),
    SheetColumn(label="What for", wide=True),
    SheetColumn(label="Amount", number=True),
    SheetColumn(label="Balance", number=True),
)
# More movements than anybody reads on paper; the CSV has them all.
MOVEMENTS_MAX = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementMovement:
    """A movement on a statement's sheet, and the balance after it."""

    booked_at: datetime
    word: str
    reference: str
    amount_micro_usd: int
    balance_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementFigures:
    """A month of a wallet; without ``movements`` there were more than are printed."""

    opening_micro_usd: int
    credit_micro_usd: int
    debit_micro_usd: int
    closing_micro_usd: int
    movements: tuple[StatementMovement, ...] | None


def statement_sheet(customer: Organisation, month_name: str, zone: ZoneInfo, figures: StatementFigures) -> Sheet:
    """Give the statement of a month in days of a zone."""
    movements = figures.movements
    sums = (
        ("Opening balance", figures.opening_micro_usd),
        ("Came in", figures.credit_micro_usd),
        ("Went out", -figures.debit_micro_usd),
        ("Closing balance", figures.closing_micro_usd),
    )
    tables = [
        SheetTable(
            title="Balance",
            columns=_AMOUNTS,
            rows=tuple(SheetRow(cells=(name, money(micro_usd)), strong="balance" in name) for name, micro_usd in sums),
        )
    ]
    if movements:
        rows = tuple(
            SheetRow(
                cells=(
                    f"{each.booked_at.astimezone(zone):%Y-%m-%d %H:%M:%S}",
                    f"{each.word} {each.reference}",
                    money(each.amount_micro_usd),
                    money(each.balance_micro_usd),
                )
            )
            for each in movements
        )
        tables.append(SheetTable(title="Movements", columns=_MOVEMENTS, rows=rows))
    none = "Nothing moved in this month." if movements is not None else "The movements are in this statement's CSV."
    return Sheet(
        title=f"Statement of {month_name}",
        reference=f"{customer.public_id}, {month_name}",
        facts=(
            (("From", "Lanehouse"), ("To", f"{customer.name}{' (test)' if customer.is_test else ''}")),
            (("Customer", customer.public_id), ("Days in", zone.key)),
        ),
        tables=tuple(tables),
        notes=() if movements else (none,),
    )


def instant(at: datetime, zone: ZoneInfo) -> str:
    """Give an instant with its zone named."""
    local = at.astimezone(zone)
    return f"{local.day} {local:%b %Y, %H:%M:%S} {zone.key}"


def _line_rows(lanes: tuple[LaneLines, ...]) -> list[SheetRow]:
    rows = []
    for lane in lanes:
        title = f"{lane.lane_id}, {lane.model_slug}"
        rows.append(SheetRow(cells=(title, "", "", money(lane.amount_micro_usd)), strong=True))
        for row in lane.rows:
            line = row.line
            rows.append(
                SheetRow(
                    cells=(
                        row.word,
                        "" if line.tokens is None else f"{line.tokens:,}",
                        "" if line.rate_micro_usd_per_mtok is None else rate(line.rate_micro_usd_per_mtok),
                        money(line.amount_micro_usd),
                    )
                )
            )
    return rows


def _sums(receipt: Receipt) -> list[SheetRow]:
    return [
        SheetRow(cells=("Usage", "", "", money(receipt.usage_charge_micro_usd))),
        SheetRow(cells=("Fees", "", "", money(receipt.fee_micro_usd))),
        SheetRow(cells=("Total", "", "", money(receipt.total_micro_usd)), strong=True),
    ]
