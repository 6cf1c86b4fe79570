"""The rules of FOCUS 1.2 that hold for our rows: which may be missing, what values are allowed, what costs must be.

Every row of every export is checked; one that breaks a rule fails the export rather than reach a customer.
References: https://focus.finops.org/focus-specification/v1-2/ (columns, nullability, allowed values, cost identities).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Context, Decimal, Inexact
from typing import Any, Final

import orjson

_EXACT: Final = Context(prec=76, traps=[Inexact])
_MANDATORY: Final = (
    *("BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd"),
    *("ChargeCategory", "ChargePeriodStart", "ChargePeriodEnd", "ContractedCost", "EffectiveCost"),
    *("InvoiceIssuerName", "ListCost", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName"),
    *("BillingAccountType", "ChargeFrequency", "ServiceSubcategory"),
)
_TYPES: Final[Mapping[type, tuple[str, ...]]] = {
    Decimal: (
        *("BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "ConsumedQuantity", "PricingQuantity"),
        *("ContractedUnitPrice", "ListUnitPrice"),
    ),
    datetime: ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"),
}
_ALLOWED: Final[Mapping[str, frozenset[str | None]]] = {
    "BillingCurrency": frozenset({"USD"}),
    "ChargeCategory": frozenset({"Usage", "Purchase", "Tax", "Credit", "Adjustment"}),
    "ChargeClass": frozenset({None, "Correction"}),
    "ChargeFrequency": frozenset({"One-Time", "Recurring", "Usage-Based"}),
    "PricingCategory": frozenset({None, "Standard", "Dynamic", "Committed", "Other"}),
    "ServiceCategory": frozenset({"AI and Machine Learning"}),
    "ServiceSubcategory": frozenset({"Generative AI"}),
    "PricingUnit": frozenset({None, "1000000 Tokens", "Units"}),
    "ConsumedUnit": frozenset({None, "Tokens", "Units"}),
}
# What belongs together: both are there, or neither.
_PAIRS: Final = (("PricingQuantity", "PricingUnit"), ("ConsumedQuantity", "ConsumedUnit"), ("SkuId", "SkuMeter"))
# Usage and purchases say what was priced.
_OF_PRICED_ROWS: Final = (
    *("PricingQuantity", "PricingUnit", "PricingCategory", "ListUnitPrice", "ContractedUnitPrice"),
    *("SkuId", "SkuPriceId"),
)

Row = Mapping[str, Any]


class RuleBroken(Exception):
    """A row is not FOCUS; the message names the rule and the column, never a customer's text."""


def check_row(row: Row) -> None:
    """Refuse a row that breaks a rule.

    Raises:
        RuleBroken: It does.
    """
    for name, holds in RULES.items():
        if not holds(row):
            raise RuleBroken(name)


def _is_product(row: Row, cost: str, price: str) -> bool:
    if row.get(price) is None:
        return True
    return bool(_EXACT.multiply(row[price], row["PricingQuantity"]) == row[cost])


def _is_flat(text: str | None) -> bool:
    if text is None:
        return True
    found = orjson.loads(text)
    return isinstance(found, dict) and all(
        name.startswith("x_") and not isinstance(value, dict | list) for name, value in found.items()
    )


def _is_whole_hour(at: datetime) -> bool:
    return (at.minute, at.second, at.microsecond) == (0, 0, 0)


RULES: Final[Mapping[str, Callable[[Row], bool]]] = {
    "mandatory columns are not null": lambda row: all(row.get(name) is not None for name in _MANDATORY),
    "numbers are decimals and times are aware": lambda row: (
        all(row.get(name) is None or isinstance(row[name], kind) for kind, names in _TYPES.items() for name in names)
        and all(row[name].utcoffset() is not None for name in _TYPES[datetime])
    ),
    "no text is empty": lambda row: "" not in row.values(),
    "values are allowed": lambda row: all(row.get(name) in values for name, values in _ALLOWED.items()),
    "a period ends after it begins": lambda row: (
        row["BillingPeriodStart"] < row["BillingPeriodEnd"] and row["ChargePeriodStart"] < row["ChargePeriodEnd"]
    ),
    "a charge lies in its billing period": lambda row: (
        row["BillingPeriodStart"] <= row["ChargePeriodStart"] and row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
    ),
    "periods are whole hours": lambda row: all(_is_whole_hour(row[name]) for name in _TYPES[datetime]),
    "what belongs together is there together": lambda row: all(
        (row.get(one) is None) == (row.get(other) is None) for one, other in _PAIRS
    ),
    "usage and purchases are priced": lambda row: (
        row["ChargeCategory"] not in {"Usage", "Purchase"} or all(row.get(name) is not None for name in _OF_PRICED_ROWS)
    ),
    "only usage is consumed": lambda row: row["ChargeCategory"] == "Usage" or row.get("ConsumedQuantity") is None,
    "a purchase is not usage-based": lambda row: (
        row["ChargeCategory"] != "Purchase" or row["ChargeFrequency"] != "Usage-Based"
    ),
    "prices are not negative": lambda row: all(
        row.get(name) is None or row[name] >= 0 for name in ("ListUnitPrice", "ContractedUnitPrice")
    ),
    "list cost is price times quantity": lambda row: _is_product(row, "ListCost", "ListUnitPrice"),
    "contracted cost is price times quantity": lambda row: _is_product(row, "ContractedCost", "ContractedUnitPrice"),
    "details are a flat object of our own keys": lambda row: _is_flat(row.get("SkuPriceDetails")),
}
