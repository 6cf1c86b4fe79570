"""Cells of CSV files: numbers stay numbers, and no text becomes a formula in a spreadsheet."""

from __future__ import annotations

from billing.domain.money import PICO_PER_MICRO

_MICRO_PER_USD = 1_000_000
_PICO_PER_USD = _MICRO_PER_USD * PICO_PER_MICRO
# What a spreadsheet may take for the beginning of a formula, or strip to get at one.
_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n")


def text_cell(text: str) -> str:
    """Give text that a spreadsheet shows as it is: what looks like a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(_BEGINNINGS) else text


def usd_cell(micro_usd: int) -> str:
    """Give an amount in USD with its six decimals: plain, with a hyphen before what is negative."""
    return _decimal(micro_usd, _MICRO_PER_USD, 6)


def exact_usd_cell(pico_usd: int) -> str:
    """Give an exact amount in USD with its twelve decimals."""
    return _decimal(pico_usd, _PICO_PER_USD, 12)


def _decimal(value: int, per_usd: int, places: int) -> str:
    dollars, rest = divmod(abs(value), per_usd)
    return f"{'-' if value < 0 else ''}{dollars}.{rest:0{places}d}"
