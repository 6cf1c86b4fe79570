"""What differences are named by: the classes, the two sides of a place, and what is known of rates."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date


class BreakKind(enum.StrEnum):
    """Why our books and an invoice differ."""

    DUPLICATE_RECEIPT = "duplicate_receipt"
    DUPLICATE_INVOICE_LINE = "duplicate_invoice_line"
    MISSING_RECEIPT = "missing_receipt"
    MISSING_INVOICE = "missing_invoice"
    TIME_BOUNDARY = "time_boundary"
    CACHE_CLASS = "cache_class"
    TIER = "tier"
    CONTEXT_TIER = "context_tier"
    PRICE_VERSION = "price_version"
    QUANTITY = "quantity"
    UNBILLED_FAILED = "unbilled_failed"
    MODEL_ALIAS = "model_alias"
    CURRENCY = "currency"
    TAX = "tax"
    CREDIT_OR_COMMITMENT = "credit_or_commitment"
    ROUNDING = "rounding"
    FORMAT = "format"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """Where both sides are compared, within one account."""

    day: date
    model: str
    tier: str
    token_class: str
    project: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What both sides say at one place, in pico-USD and tokens, and what the rules ask of the lines behind it.

    ``invoiced_quantity`` is None where the provider gives none. ``long_quantity`` is what it bills as long context.
    ``duplicate_line_pico_usd`` and ``duplicate_job_pico_usd`` add up the copies of what stands there more than once;
    ``has_such_line`` and ``has_such_job`` say that one line, or one job, is worth the whole difference by itself.
    ``noted``: the invoice has lines here that cannot be compared: of another ``currency``, or in a strange ``format``.
    ``is_outside``: the place belongs to the month beside, and can only be the other half of a pair.
    """

    place: Place
    invoiced_line_count: int = 0
    invoiced_quantity: int | None = None
    invoiced_pico_usd: int = 0
    ours_job_count: int = 0
    ours_quantity: int = 0
    ours_pico_usd: int = 0
    failed_pico_usd: int = 0
    long_quantity: int = 0
    duplicate_line_pico_usd: int = 0
    duplicate_job_pico_usd: int = 0
    has_such_line: bool = False
    has_such_job: bool = False
    noted: str = ""
    is_outside: bool = False

    @property
    def difference_pico_usd(self) -> int:
        """What the provider asks above what we have."""
        return self.invoiced_pico_usd - self.ours_pico_usd

    @property
    def is_same_quantity(self) -> bool:
        """Say whether both sides count alike, as far as the provider counts."""
        return self.ours_quantity > 0 and self.invoiced_quantity in {None, self.ours_quantity}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRates:
    """The provider's rates that we know of a model and token class, of all times: pico-USD a token."""

    batch: frozenset[int] = frozenset()
    standard: frozenset[int] = frozenset()

    def all(self) -> frozenset[int]:
        """Give both."""
        return self.batch | self.standard


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the rules know besides the two sides."""

    rates: Mapping[tuple[str, str], KnownRates]
    # One unit of the last decimal that the bill prints.
    minor_unit_pico_usd: int = 1
    rounding_total_max_pico_usd: int = 10**12
    # Amounts are compared as the bill prints them.
    is_as_printed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A difference with its name, a sentence, and the places that share its cause (itself among them)."""

    sides: Sides
    kind: BreakKind
    said: str
    cause: tuple[Place, ...]
