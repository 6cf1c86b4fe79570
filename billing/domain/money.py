"""Integers of money: micro-USD (1e-6 USD) and pico-USD (1e-12 USD), and the two ways between them.

Rates are micro-USD per million tokens, so ``tokens x rate`` is exactly an integer of pico-USD: one million pico-USD
are one micro-USD, and no amount is ever a fraction.
"""

from __future__ import annotations

PICO_PER_MICRO = 1_000_000


def line_pico_usd(tokens: int, rate_micro_usd_per_mtok: int) -> int:
    """Give the exact price of ``tokens`` at a rate, in pico-USD."""
    assert tokens >= 0, "tokens are counted, never owed"
    assert rate_micro_usd_per_mtok >= 0, "a rate is never negative"
    return tokens * rate_micro_usd_per_mtok


def micro_to_pico(micro_usd: int) -> int:
    """Give the same amount in pico-USD; nothing is lost."""
    return micro_usd * PICO_PER_MICRO


def round_pico_to_micro(pico_usd: int) -> int:
    """Round pico-USD to micro-USD, ties to the even neighbour; negative amounts alike.

    Half-even has no drift: over many lines the ties go up as often as down.
    """
    micro_usd, remainder = divmod(pico_usd, PICO_PER_MICRO)
    doubled = 2 * remainder
    if doubled > PICO_PER_MICRO or (doubled == PICO_PER_MICRO and micro_usd % 2 == 1):
        micro_usd += 1
    return micro_usd


def round_up_pico_to_micro(pico_usd: int) -> int:
    """Round pico-USD up to the next whole micro-USD: for ceilings and reservations, which must never be short."""
    return -(-pico_usd // PICO_PER_MICRO)
