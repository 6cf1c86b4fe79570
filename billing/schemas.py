"""Billing's answers in ``/v1``. Instants are Unix seconds, money integers of micro-USD (exact: pico-USD)."""

from __future__ import annotations

from typing import Literal

from ninja import Schema

from billing.domain.records import WalletState
from billing.models import Receipt, ReceiptLine


class WalletAnswer(Schema):
    """What an organisation has, what is reserved of it, and what it owes."""

    object: Literal["wallet"] = "wallet"
    available_micro_usd: int
    reserved_micro_usd: int
    balance_micro_usd: int
    receivable_micro_usd: int
    blocked: bool

    @classmethod
    def of(cls, state: WalletState) -> WalletAnswer:
        """Shape a wallet."""
        return cls(
            available_micro_usd=state.available_micro_usd,
            reserved_micro_usd=state.held_micro_usd,
            balance_micro_usd=state.posted_micro_usd,
            receivable_micro_usd=state.receivable_micro_usd,
            blocked=state.blocked,
        )


class ReceiptLineAnswer(Schema):
    """One line; ``tokens`` and the rate are null on fees and the ceiling credit."""

    lane_id: str
    model: str
    kind: str
    tokens: int | None
    rate_micro_usd_per_mtok: int | None
    amount_micro_usd: int
    exact_pico_usd: int

    @classmethod
    def of(cls, line: ReceiptLine) -> ReceiptLineAnswer:
        """Shape a line."""
        return cls(
            lane_id=line.lane_id,
            model=line.model_slug,
            kind=line.kind,
            tokens=line.tokens,
            rate_micro_usd_per_mtok=line.rate_micro_usd_per_mtok,
            amount_micro_usd=line.amount_micro_usd,
            exact_pico_usd=int(line.exact_pico_usd),
        )


class ReceiptAnswer(Schema):
    """What a batch was charged, line by line; final."""

    id: str
    object: Literal["receipt"] = "receipt"
    batch_id: str
    settled_at: int
    lines: list[ReceiptLineAnswer]
    usage_charge_micro_usd: int
    fee_micro_usd: int
    total_micro_usd: int
    reserved_micro_usd: int
    released_micro_usd: int
    estimate_total_micro_usd: int

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptAnswer:
        """Shape a receipt whose lines are loaded."""
        return cls(
            id=receipt.public_id,
            batch_id=receipt.batch_public_id,
            settled_at=int(receipt.settled_at.timestamp()),
            lines=[ReceiptLineAnswer.of(line) for line in receipt.lines.all()],
            usage_charge_micro_usd=receipt.usage_charge_micro_usd,
            fee_micro_usd=receipt.fee_micro_usd,
            total_micro_usd=receipt.total_micro_usd,
            reserved_micro_usd=receipt.reserved_micro_usd,
            released_micro_usd=receipt.released_micro_usd,
            estimate_total_micro_usd=receipt.estimate_total_micro_usd,
        )


class ReceiptListAnswer(Schema):
    """A page of receipts, newest first, in OpenAI's list shape."""

    object: Literal["list"] = "list"
    data: list[ReceiptAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool
