"""What crosses billing's border: tokens, the request to settle a batch, holds, wallets, attempts."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
import numpy.typing as npt

from catalog.domain.records import Rates, TokenKind


class Tokens(Protocol):
    """Tokens by kind, disjoint. Anything with these fields will do: rows are rated as their adapter read them."""

    @property
    def input_tokens(self) -> int:
        """At the full input rate."""

    @property
    def cached_input_tokens(self) -> int:
        """Read from the provider's cache."""

    @property
    def cache_write_5m_tokens(self) -> int:
        """Written to its five-minute cache."""

    @property
    def cache_write_1h_tokens(self) -> int:
        """Written to its one-hour cache."""

    @property
    def output_tokens(self) -> int:
        """Written by the model, reasoning included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Tokens by kind, disjoint: cached input and cache writes are not inside ``input_tokens``; reasoning is output."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0


class LineKind(enum.StrEnum):
    """What a receipt line is for: the kinds of tokens, the fee, and the credit above the ceiling."""

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    CACHE_WRITE_5M = "cache_write_5m"
    CACHE_WRITE_1H = "cache_write_1h"
    OUTPUT = "output"
    CONTROL_PLANE_FEE = "control_plane_fee"
    CEILING_CREDIT = "ceiling_credit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedTokens:
    """Tokens of delivered rows of one kind at one pinned sell rate."""

    kind: TokenKind
    rate_micro_usd_per_mtok: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedGroup:
    """One model group at settlement: its primary lane, and the tokens of its rows that ended charged.

    ``lane_id`` is the primary lane's, also for rows that ran elsewhere; the rates in ``charged`` are its sell rates
    as the quote pinned them. ``row_count`` says how many rows these are; it is not charged for and only counted.
    """

    group_key: str
    model_slug: str
    lane_id: str
    charged: tuple[ChargedTokens, ...]
    row_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeeCharge:
    """The fee of one quoted sub-lane to which the quote gave at least one row that ended charged."""

    group_key: str
    model_slug: str
    lane_id: str
    fee_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCost:
    """What one provider account bills for all collected attempts of a batch, exactly."""

    provider: str
    provider_account: str
    cost_pico_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementRequest:
    """Everything that settles one batch, once.

    ``ceiling_micro_usd`` and ``quoted_fee_micro_usd`` are the quote's own (the ceiling includes the fee), summed over
    the groups that the batch holds; ``estimate_total_micro_usd`` is shown on the receipt. The same request again
    gives the same receipt: ``settled_at`` is not part of what is compared, so a retry may carry a later instant.
    ``api_key_id`` is the key that the batch was accepted with, by which usage is told apart.
    """

    organisation_id: int
    batch_public_id: str
    settled_at: datetime
    groups: tuple[ChargedGroup, ...]
    fees: tuple[FeeCharge, ...]
    ceiling_micro_usd: int
    quoted_fee_micro_usd: int
    estimate_total_micro_usd: int
    provider_costs: tuple[ProviderCost, ...]
    api_key_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHold:
    """The part of a batch's reservation that belongs to one model group."""

    group_key: str
    reserved_micro_usd: int


class HoldState(enum.StrEnum):
    """A hold is open until exactly one of the others happens."""

    OPEN = "open"
    SETTLED = "settled"
    VOIDED = "voided"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedHold:
    """How a hold ended: the same answer however often it is asked."""

    group_key: str
    state: HoldState
    reserved_micro_usd: int
    closed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletState:
    """An organisation's money now: ``available`` = posted - held - floor; lapsed holds and expired grants do not count.

    ``receivable_micro_usd`` is what earlier settlements could not take; while it is above zero nothing is accepted.
    """

    available_micro_usd: int
    held_micro_usd: int
    posted_micro_usd: int
    receivable_micro_usd: int
    blocked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """One movement of a wallet: above zero what came in, below what was charged; the balance is the one after it.

    ``receipt_total_micro_usd`` differs from the amount where the wallet could not carry all of a receipt.
    """

    key: str
    kind: str
    reference: str
    booked_at: datetime
    effective_at: datetime
    receipt_public_id: str | None
    receipt_total_micro_usd: int | None
    amount_micro_usd: int
    balance_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """A recorded top-up: where its money went. ``replayed`` when the same one had been recorded before."""

    transaction_id: int
    wallet_micro_usd: int
    receivable_micro_usd: int
    replayed: bool


class AttemptOutcome(enum.StrEnum):
    """How an attempt of a row ended at the provider."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """What a job's attempts ran on and are billed at: our name of the snapshot, the provider's spelling, its rates."""

    batch_public_id: str
    model_snapshot: str
    model_id: str
    is_test: bool
    rates: Rates
    tier: str = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedJob:
    """One provider job as its attempts share it. ``completed_at`` is the provider's, and names the partition.

    Without ``terms`` its cost is matched as a whole, by account and day.
    """

    organisation_id: int
    batch_id: int
    job_id: int
    lane_id: str
    provider: str
    provider_account: str
    provider_project: str
    completed_at: datetime
    terms: JobTerms | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempts:
    """The attempts of one job's rows: what came out, and what the provider bills for each. One entry a row.

    ``verdict_indexes`` name (outcome, code) pairs of ``verdicts``; a success has no code. ``tokens`` has five columns:
    the fields of :class:`TokenCounts` in their order.
    """

    attempt_number: int
    rows: npt.NDArray[np.int64]
    verdicts: tuple[tuple[AttemptOutcome, str], ...]
    verdict_indexes: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    costs_pico_usd: npt.NDArray[np.int64]
