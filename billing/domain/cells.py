"""Cells of CSV files that hold money: numbers stay numbers (of text: ``ground.cells``)."""

from __future__ import annotations

from billing.domain.money import PICO_PER_MICRO

_MICRO_PER_USD = 1_000_000
_PICO_PER_USD = _MICRO_PER_USD * PICO_PER_MICRO


def usd_cell(micro_usd: int) -> str:
    """Give an amount in USD with its six decimals: plain, with a hyphen before what is negative."""
    return _decimal(micro_usd, _MICRO_PER_USD, 6)


def exact_usd_cell(pico_usd: int) -> str:
    """Give an exact amount in USD with its twelve decimals."""
    return _decimal(pico_usd, _PICO_PER_USD, 12)


def plain_amount(pico: int) -> str:
    """Give an exact amount of any currency, in its millionths of millionths, with two decimals or as many as it has."""
    whole, _, decimals = _decimal(pico, _PICO_PER_USD, 12).partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"


def _decimal(value: int, per_usd: int, places: int) -> str:
    dollars, rest = divmod(abs(value), per_usd)
    return f"{'-' if value < 0 else ''}{dollars}.{rest:0{places}d}"
