"""FOCUS 1.2: one row for each receipt line, exact; one for each other movement of a wallet; one for the rounding.

What a line costs is the exact product of quantity and price, as FOCUS asks; receipts round each line once. So each
customer and month ends with one ``Adjustment`` of all that was rounded, and ``EffectiveCost`` adds up to the ledger.
Credit is prepaid: what is billed is the top-up (``BilledCost``), what it is spent on is effective and billed at 0.
Columns and rules: https://focus.finops.org/focus-specification/v1-2/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

import orjson
from psycopg import Connection

from billing.domain.cells import exact_usd_cell
from billing.domain.money import micro_to_pico
from billing.exports.columns import Column, ColumnKind, Value
from billing.exports.focus_rules import check_row
from billing.exports.scope import ExportScope
from billing.exports.snapshot import streamed

VERSION: Final = "1.2"
_HOUSE: Final = "Lanehouse"
_SERVICE: Final = "Lanehouse Batch Inference"
_ZERO: Final = Decimal(0)
_HOUR: Final = timedelta(hours=1)
_TOKENS_PER_UNIT: Final = 1_000_000
_PICO_PER_USD: Final = 10**12


def _column(name: str, kind: ColumnKind = ColumnKind.TEXT, *, nullable: bool = True) -> Column:
    return Column(name=name, kind=kind, may_be_missing=nullable)


_NUMBER, _TIME = ColumnKind.EXACT_USD, ColumnKind.INSTANT
COLUMNS: Final = (
    _column("BilledCost", _NUMBER, nullable=False),
    _column("BillingAccountId", nullable=False),
    _column("BillingAccountName"),
    _column("BillingAccountType", nullable=False),
    _column("BillingCurrency", nullable=False),
    _column("BillingPeriodStart", _TIME, nullable=False),
    _column("BillingPeriodEnd", _TIME, nullable=False),
    _column("ChargeCategory", nullable=False),
    _column("ChargeClass"),
    _column("ChargeDescription"),
    _column("ChargeFrequency", nullable=False),
    _column("ChargePeriodStart", _TIME, nullable=False),
    _column("ChargePeriodEnd", _TIME, nullable=False),
    _column("ConsumedQuantity", _NUMBER),
    _column("ConsumedUnit"),
    _column("ContractedCost", _NUMBER, nullable=False),
    _column("ContractedUnitPrice", _NUMBER),
    _column("EffectiveCost", _NUMBER, nullable=False),
    _column("InvoiceId"),
    _column("InvoiceIssuerName", nullable=False),
    _column("ListCost", _NUMBER, nullable=False),
    _column("ListUnitPrice", _NUMBER),
    _column("PricingCategory"),
    _column("PricingQuantity", _NUMBER),
    _column("PricingUnit"),
    _column("ProviderName", nullable=False),
    _column("PublisherName", nullable=False),
    _column("ResourceId"),
    _column("ResourceName"),
    _column("ResourceType"),
    _column("ServiceCategory", nullable=False),
    _column("ServiceName", nullable=False),
    _column("ServiceSubcategory", nullable=False),
    _column("SkuId"),
    _column("SkuMeter"),
    _column("SkuPriceDetails"),
    _column("SkuPriceId"),
    _column("x_LaneId"),
    _column("x_ReceiptId"),
)
_NAMES: Final = tuple(column.name for column in COLUMNS)
_METERS: Final = {
    "input": "Input Tokens",
    "cached_input": "Cached Input Tokens",
    "cache_write_5m": "Cache Write Tokens 5 Minutes",
    "cache_write_1h": "Cache Write Tokens 1 Hour",
    "output": "Output Tokens",
}

# A movement is what is not a receipt's: top-ups, and whatever else was booked on a wallet.
_SOURCE: Final = """
(
    SELECT header.effective_at, header.id AS entry_id, line.line_number, header.organisation_id, header.kind,
           header.reference, receipt.public_id AS receipt_id, receipt.batch_public_id, line.kind AS line_kind,
           line.model_slug, line.lane_id, line.tokens, line.rate_micro_usd_per_mtok, line.amount_micro_usd,
           line.exact_pico_usd, 0::bigint AS paid_micro_usd
    FROM billing_receipt receipt
    JOIN billing_ledgertransaction header ON header.id = receipt.transaction_id
    JOIN billing_receiptline line ON line.receipt_id = receipt.id
    UNION ALL
    SELECT header.effective_at, header.id, 0, header.organisation_id, header.kind, header.reference, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL,
           coalesce(sum(leg.amount_micro_usd)
                    FILTER (WHERE account.organisation_id = header.organisation_id), 0)::bigint,
           NULL, coalesce(-sum(leg.amount_micro_usd) FILTER (WHERE account.kind = 'top_up_clearing'), 0)::bigint
    FROM billing_ledgertransaction header
    JOIN billing_ledgerleg leg ON leg.transaction_id = header.id
    JOIN billing_ledgeraccount account ON account.id = leg.account_id
    WHERE header.kind <> 'settlement' AND header.organisation_id IS NOT NULL GROUP BY header.id
) AS item
JOIN accounts_organisation organisation ON organisation.id = item.organisation_id
LEFT JOIN catalog_model model ON model.slug = item.model_slug
"""


class _Item(NamedTuple):
    """A row of the query."""

    organisation_id: str
    organisation_slug: str
    effective_at: datetime
    kind: str
    reference: str
    receipt_id: str | None
    batch_public_id: str | None
    line_kind: str | None
    model_slug: str | None
    lane_id: str | None
    tokens: int | None
    rate_micro_usd_per_mtok: int | None
    amount_micro_usd: int
    exact_pico_usd: Decimal | None
    paid_micro_usd: int
    maker: str | None


_SELECTED: Final = """
organisation.public_id, organisation.slug, item.effective_at, item.kind, item.reference, item.receipt_id,
item.batch_public_id, item.line_kind, item.model_slug, item.lane_id, item.tokens, item.rate_micro_usd_per_mtok,
item.amount_micro_usd, item.exact_pico_usd, item.paid_micro_usd, model.maker
"""
_ORDER: Final = 'organisation.public_id COLLATE "C", item.effective_at, item.entry_id, item.line_number'


def counted(scope: ExportScope) -> tuple[str, dict[str, Any]]:
    """Give the query's body and its values, for counting its rows (those of the rounding come on top)."""
    values: dict[str, Any] = {
        "organisation_id": scope.organisation_id,
        "since": scope.since,
        "until": scope.until,
        "organisation": scope.filters.get("organisation"),
    }
    conditions = [
        "organisation.kind = 'customer'" if scope.organisation_id is None else "organisation.id = %(organisation_id)s"
    ]
    if values["organisation"]:
        conditions.append("organisation.public_id = %(organisation)s")
    if scope.since is not None:
        conditions.append("item.effective_at >= %(since)s")
    if scope.until is not None:
        conditions.append("item.effective_at < %(until)s")
    return f"FROM {_SOURCE} WHERE {' AND '.join(conditions)}", values


def metadata(*, made_at: datetime, file_name: str) -> dict[str, Any]:
    """Give what FOCUS wants beside the data: who made it, when, by which version, and the schema."""
    types = {ColumnKind.TEXT: "STRING", ColumnKind.EXACT_USD: "DECIMAL", ColumnKind.INSTANT: "DATETIME"}
    definitions = []
    for column in COLUMNS:
        definition: dict[str, Any] = {"ColumnName": column.name, "DataType": types[column.kind]}
        if column.kind is ColumnKind.EXACT_USD:
            definition |= {"NumericPrecision": 38, "NumberScale": 12}
        if column.kind is ColumnKind.TEXT:
            definition |= {"StringEncoding": "UTF-8"}
        definitions.append(definition)
    return {
        "DataGenerator": {"DataGenerator": _HOUSE},
        "Schema": [
            {
                "SchemaId": f"lanehouse-focus-{VERSION}",
                "FocusVersion": VERSION,
                "CreationDate": made_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "ColumnDefinition": definitions,
            }
        ],
        "DatasetInstance": [{"SchemaId": f"lanehouse-focus-{VERSION}", "FileName": file_name}],
    }


@dataclass(slots=True)
class FocusRows:
    """The rows of a scope, each checked against the rules as it is made; counted and summed on the way."""

    raw: Connection[Any]
    scope: ExportScope
    row_count: int = 0
    billed_pico_usd: int = 0
    effective_pico_usd: int = 0
    _month: tuple[str, str, datetime] | None = None
    _rounded_pico_usd: int = field(default=0)

    @property
    def totals(self) -> Mapping[str, Decimal]:
        """What was billed, and what was spent; the latter is what receipts say, less credits."""
        return {
            "billed_usd": Decimal(exact_usd_cell(self.billed_pico_usd)),
            "effective_usd": Decimal(exact_usd_cell(self.effective_pico_usd)),
        }

    def __iter__(self) -> Iterator[Sequence[Sequence[Value]]]:
        """Give the rows in lists of bounded length."""
        body, values = counted(self.scope)
        query = f"SELECT {_SELECTED} {body} ORDER BY {_ORDER}"
        for some in streamed(self.raw, query, values):
            yield [self._taken(cells) for row in some for cells in self._cells(_Item(*row))]
        if last := [self._taken(cells) for cells in self._rounding()]:
            yield last

    def _cells(self, item: _Item) -> Iterator[dict[str, Value]]:
        month = item.organisation_id, item.organisation_slug, _month_of(item.effective_at)
        if month != self._month:
            yield from self._rounding()
            self._month = month
        if item.exact_pico_usd is None:
            yield _movement(item)
            return
        exact_pico_usd = int(item.exact_pico_usd)
        self._rounded_pico_usd += micro_to_pico(item.amount_micro_usd) - exact_pico_usd
        yield _line(item, exact_pico_usd)

    def _rounding(self) -> Iterator[dict[str, Value]]:
        if self._month is None or not self._rounded_pico_usd:
            return
        organisation_id, slug, starts_at = self._month
        amount = _usd(self._rounded_pico_usd)
        self._rounded_pico_usd = 0
        yield {
            **_common(organisation_id, slug, starts_at),
            "ChargeCategory": "Adjustment",
            "ChargeDescription": "Rounding of receipt lines to the millionth of a dollar",
            "ChargeFrequency": "One-Time",
            "ChargePeriodStart": starts_at,
            "ChargePeriodEnd": _next_month(starts_at),
            **_costs(listed=amount, billed=_ZERO, effective=amount),
        }

    def _taken(self, cells: dict[str, Value]) -> Sequence[Value]:
        check_row(cells)
        self.row_count += 1
        self.billed_pico_usd += _pico(cells["BilledCost"])
        self.effective_pico_usd += _pico(cells["EffectiveCost"])
        return [cells.get(name) for name in _NAMES]


def _line(item: _Item, exact_pico_usd: int) -> dict[str, Value]:
    """Give a receipt's line."""
    amount = _usd(exact_pico_usd)
    cells: dict[str, Value] = {
        **_common(item.organisation_id, item.organisation_slug, item.effective_at),
        **_hour(item.effective_at),
        "PublisherName": item.maker or _HOUSE,
        "ResourceId": item.batch_public_id,
        "ResourceName": item.batch_public_id,
        "ResourceType": "Batch",
        "x_LaneId": item.lane_id,
        "x_ReceiptId": item.receipt_id,
        **_costs(listed=amount, billed=_ZERO, effective=amount),
    }
    if item.line_kind == "ceiling_credit":
        return cells | {
            "ChargeCategory": "Credit",
            "ChargeFrequency": "One-Time",
            "ChargeDescription": f"Credit above the ceiling, {item.model_slug}",
        }
    if item.tokens is None or item.rate_micro_usd_per_mtok is None:
        return cells | _priced("Control Plane Fee", Decimal(1), "Units", amount, item)
    quantity = _trimmed(item.tokens, _TOKENS_PER_UNIT)
    price = _trimmed(item.rate_micro_usd_per_mtok, _TOKENS_PER_UNIT)
    priced = _priced(_METERS[item.line_kind or ""], quantity, "1000000 Tokens", price, item)
    return cells | priced | {"ConsumedQuantity": Decimal(item.tokens), "ConsumedUnit": "Tokens"}


def _priced(meter: str, quantity: Decimal, unit: str, price: Decimal, item: _Item) -> dict[str, Value]:
    sku = f"{item.model_slug}/{item.line_kind}"
    details = {"x_Model": item.model_slug, "x_Lane": item.lane_id}
    return {
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ChargeDescription": f"{meter}, {item.model_slug} on {item.lane_id}",
        "ConsumedQuantity": quantity,
        "ConsumedUnit": unit,
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
        "PricingCategory": "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "SkuId": sku,
        "SkuMeter": meter,
        "SkuPriceDetails": orjson.dumps(details).decode(),
        # The price is in its name: one that changes is another.
        "SkuPriceId": f"{sku}/{item.lane_id}/{price}",
    }


def _movement(item: _Item) -> dict[str, Value]:
    """Give a top-up, or what else moved a customer's money.

    What was paid is billed, back to the customer below zero; what their account gained beyond that is a credit, what it
    lost an adjustment.
    """
    paid = _usd(micro_to_pico(item.paid_micro_usd))
    spent = _usd(micro_to_pico(item.paid_micro_usd - item.amount_micro_usd))
    cells: dict[str, Value] = {
        **_common(item.organisation_id, item.organisation_slug, item.effective_at),
        **_hour(item.effective_at),
        "ChargeFrequency": "One-Time",
        "ChargeDescription": f"{item.kind.replace('_', ' ').capitalize()} {item.reference}",
    }
    if item.kind != "top_up":
        in_favour = item.amount_micro_usd > 0
        listed = spent if not item.paid_micro_usd else paid
        return cells | {
            "ChargeCategory": "Credit" if in_favour else "Adjustment",
            **_costs(listed=listed, billed=paid, effective=spent),
        }
    return cells | {
        "ChargeCategory": "Purchase",
        **_costs(listed=paid, billed=paid, effective=spent),
        "ContractedUnitPrice": paid,
        "ListUnitPrice": paid,
        "PricingCategory": "Standard",
        "PricingQuantity": Decimal(1),
        "PricingUnit": "Units",
        "SkuId": "prepaid-credit",
        "SkuMeter": "Prepaid Credit",
        "SkuPriceId": "prepaid-credit",
    }


def _common(organisation_id: str, slug: str, at: datetime) -> dict[str, Value]:
    starts_at = _month_of(at)
    return {
        "BillingAccountId": organisation_id,
        "BillingAccountName": slug,
        "BillingAccountType": "Organisation",
        "BillingCurrency": "USD",
        "BillingPeriodStart": starts_at,
        "BillingPeriodEnd": _next_month(starts_at),
        "InvoiceIssuerName": _HOUSE,
        "ProviderName": _HOUSE,
        "PublisherName": _HOUSE,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": _SERVICE,
        "ServiceSubcategory": "Generative AI",
    }


def _costs(*, listed: Decimal, billed: Decimal, effective: Decimal) -> dict[str, Value]:
    return {"ListCost": listed, "ContractedCost": listed, "BilledCost": billed, "EffectiveCost": effective}


def _hour(at: datetime) -> dict[str, Value]:
    start = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return {"ChargePeriodStart": start, "ChargePeriodEnd": start + _HOUR}


def _month_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next_month(month: datetime) -> datetime:
    return (month + timedelta(days=32)).replace(day=1)


def _trimmed(value: int, per_unit: int) -> Decimal:
    """Give ``value / per_unit``, a power of ten, without zeros at the end; exact, whatever the size."""
    whole, rest = divmod(abs(value), per_unit)
    digits = f"{rest:0{len(str(per_unit)) - 1}d}".rstrip("0")
    return Decimal(f"{'-' if value < 0 else ''}{whole}{'.' if digits else ''}{digits}")


def _usd(pico_usd: int) -> Decimal:
    return _trimmed(pico_usd, _PICO_PER_USD)


def _pico(amount: Value) -> int:
    assert isinstance(amount, Decimal), "a cost is a decimal"
    return int(amount.scaleb(12))
