"""From tokens to a receipt: exact pico-USD per row, one rounding per receipt line.

The laws, tested as properties: the pico-USD of rows add up to the pico-USD of lines, so job cutting, fan-out and
re-dispatch never change a charge; a line is at most half a micro-USD from its exact amount; lines add up to the total.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from billing.domain.money import line_pico_usd, micro_to_pico, round_pico_to_micro
from billing.domain.records import (
    ChargedGroup,
    ChargedTokens,
    FeeCharge,
    LineKind,
    ProviderCost,
    SettlementRequest,
    TokenCounts,
    Tokens,
)
from catalog.domain.records import Rates, TokenKind

_FIELDS = tuple(field.name for field in fields(TokenCounts))
_KIND_ORDER = {kind: position for position, kind in enumerate(TokenKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLine:
    """One line of a receipt. ``tokens`` and the rate are None on fees and the ceiling credit."""

    group_key: str
    lane_id: str
    model_slug: str
    kind: LineKind
    tokens: int | None
    rate_micro_usd_per_mtok: int | None
    amount_micro_usd: int
    exact_pico_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedBatch:
    """A batch's receipt before it is posted.

    ``usage_micro_usd`` is the sum of the usage lines before the ceiling credit; ``ceiling_credit_micro_usd`` is zero
    or positive; the customer is charged usage - credit + fee.
    """

    lines: tuple[ReceiptLine, ...]
    usage_micro_usd: int
    ceiling_credit_micro_usd: int
    fee_micro_usd: int

    @property
    def total_micro_usd(self) -> int:
        """What the customer is charged."""
        return self.usage_micro_usd - self.ceiling_credit_micro_usd + self.fee_micro_usd

    def charge_of_group_micro_usd(self, group_key: str) -> int:
        """What the lines of one model group add up to, fees and credit included."""
        return sum(line.amount_micro_usd for line in self.lines if line.group_key == group_key)


def charged_tokens(tokens: Tokens, rates: Rates) -> tuple[ChargedTokens, ...]:
    """Give tokens as (kind, rate, tokens), without the kinds that have none: for a row, or a group's totals."""
    pairs = (
        (TokenKind.INPUT, rates.input_rate_micro_usd_per_mtok, tokens.input_tokens),
        (TokenKind.CACHED_INPUT, rates.cached_input_rate_micro_usd_per_mtok, tokens.cached_input_tokens),
        (TokenKind.CACHE_WRITE_5M, rates.cache_write_5m_rate_micro_usd_per_mtok, tokens.cache_write_5m_tokens),
        (TokenKind.CACHE_WRITE_1H, rates.cache_write_1h_rate_micro_usd_per_mtok, tokens.cache_write_1h_tokens),
        (TokenKind.OUTPUT, rates.output_rate_micro_usd_per_mtok, tokens.output_tokens),
    )
    return tuple(
        ChargedTokens(kind=kind, rate_micro_usd_per_mtok=rate, tokens=count) for kind, rate, count in pairs if count
    )


def row_charge_pico_usd(tokens: Tokens, rates: Rates) -> int:
    """Give the exact charge of a delivered row, in pico-USD: its tokens at the sell rates pinned for its model group.

    The same sum at the provider's rates is what the attempt costs the house. Written
    out, without :func:`charged_tokens`: it runs once for every row of every batch.
    """
    return (
        tokens.input_tokens * rates.input_rate_micro_usd_per_mtok
        + tokens.cached_input_tokens * rates.cached_input_rate_micro_usd_per_mtok
        + tokens.cache_write_5m_tokens * rates.cache_write_5m_rate_micro_usd_per_mtok
        + tokens.cache_write_1h_tokens * rates.cache_write_1h_rate_micro_usd_per_mtok
        + tokens.output_tokens * rates.output_rate_micro_usd_per_mtok
    )


def row_charges_pico_usd(tokens: npt.NDArray[np.int64], rates: Rates) -> npt.NDArray[np.int64]:
    """Give :func:`row_charge_pico_usd` of many rows at once.

    Args:
        tokens: One row each; the columns are the fields of ``TokenCounts`` in their order.
        rates: Of all these rows.

    Raises:
        OverflowError: A charge is larger than any column can hold.
    """
    factors = (
        rates.input_rate_micro_usd_per_mtok,
        rates.cached_input_rate_micro_usd_per_mtok,
        rates.cache_write_5m_rate_micro_usd_per_mtok,
        rates.cache_write_1h_rate_micro_usd_per_mtok,
        rates.output_rate_micro_usd_per_mtok,
    )
    largest = sum(most * rate for most, rate in zip(tokens.max(axis=0, initial=0).tolist(), factors, strict=True))
    if largest <= np.iinfo(np.int64).max:
        return tokens @ np.array(factors, dtype=np.int64)
    # numpy would wrap silently; Python's integers do not.
    return np.array(
        [row_charge_pico_usd(TokenCounts(**dict(zip(_FIELDS, row, strict=True))), rates) for row in tokens.tolist()],
        dtype=np.int64,
    )


def rate_batch(request: SettlementRequest) -> RatedBatch:
    """Make a batch's receipt lines: usage by (group, kind, rate), then fees, then the ceiling credit.

    Usage above ``ceiling - quoted fee`` is given back in one negative line. It stands on the group with the largest
    usage, so that the lanes still add up to the total.
    """
    usage = [line for group in request.groups for line in _usage_lines(group)]
    fees = [_fee_line(fee) for fee in request.fees if fee.fee_micro_usd]
    usage_micro_usd = sum(line.amount_micro_usd for line in usage)
    usage_ceiling_micro_usd = max(request.ceiling_micro_usd - request.quoted_fee_micro_usd, 0)
    credit_micro_usd = max(usage_micro_usd - usage_ceiling_micro_usd, 0)
    credit = [_credit_line(request.groups, usage, credit_micro_usd)] if credit_micro_usd else []
    return RatedBatch(
        lines=(*usage, *fees, *credit),
        usage_micro_usd=usage_micro_usd,
        ceiling_credit_micro_usd=credit_micro_usd,
        fee_micro_usd=sum(line.amount_micro_usd for line in fees),
    )


def payable_by_account(costs: Iterable[ProviderCost]) -> dict[tuple[str, str], int]:
    """Give what is owed to each (provider, account) in micro-USD: exact sums, each rounded once, half-even.

    The exact pico-USD stay in the attempts, from which matching sums; this is only what the posting says.
    """
    exact: dict[tuple[str, str], int] = {}
    for cost in costs:
        key = (cost.provider, cost.provider_account)
        exact[key] = exact.get(key, 0) + cost.cost_pico_usd
    return {key: round_pico_to_micro(pico_usd) for key, pico_usd in sorted(exact.items())}


def _usage_lines(group: ChargedGroup) -> list[ReceiptLine]:
    totals: dict[tuple[TokenKind, int], int] = {}
    for charged in group.charged:
        key = (charged.kind, charged.rate_micro_usd_per_mtok)
        totals[key] = totals.get(key, 0) + charged.tokens
    lines = []
    for (kind, rate), tokens in sorted(totals.items(), key=lambda item: (_KIND_ORDER[item[0][0]], item[0][1])):
        if not tokens:
            continue
        exact_pico_usd = line_pico_usd(tokens, rate)
        lines.append(
            ReceiptLine(
                group_key=group.group_key,
                lane_id=group.lane_id,
                model_slug=group.model_slug,
                kind=LineKind(kind.value),
                tokens=tokens,
                rate_micro_usd_per_mtok=rate,
                amount_micro_usd=round_pico_to_micro(exact_pico_usd),
                exact_pico_usd=exact_pico_usd,
            )
        )
    return lines


def _fee_line(fee: FeeCharge) -> ReceiptLine:
    return ReceiptLine(
        group_key=fee.group_key,
        lane_id=fee.lane_id,
        model_slug=fee.model_slug,
        kind=LineKind.CONTROL_PLANE_FEE,
        tokens=None,
        rate_micro_usd_per_mtok=None,
        amount_micro_usd=fee.fee_micro_usd,
        exact_pico_usd=micro_to_pico(fee.fee_micro_usd),
    )


def _credit_line(groups: tuple[ChargedGroup, ...], usage: list[ReceiptLine], credit_micro_usd: int) -> ReceiptLine:
    by_group: dict[str, int] = {}
    for line in usage:
        by_group[line.group_key] = by_group.get(line.group_key, 0) + line.amount_micro_usd
    # max() takes the first of equals: the order of the groups is the stable order.
    group = max(groups, key=lambda candidate: by_group.get(candidate.group_key, 0))
    return ReceiptLine(
        group_key=group.group_key,
        lane_id=group.lane_id,
        model_slug=group.model_slug,
        kind=LineKind.CEILING_CREDIT,
        tokens=None,
        rate_micro_usd_per_mtok=None,
        amount_micro_usd=-credit_micro_usd,
        exact_pico_usd=micro_to_pico(-credit_micro_usd),
    )
