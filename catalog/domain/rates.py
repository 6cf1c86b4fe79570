"""Rate arithmetic: derive what was not published, apply a discount, build a card's rates from its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catalog.domain.records import Rates, TokenKind

BASIS_POINTS = 10_000
# What a cache write costs where no rate is published, in basis points of the input rate (1.25 x and 2 x).
CACHE_WRITE_BASIS_POINTS = {TokenKind.CACHE_WRITE_5M: 12_500, TokenKind.CACHE_WRITE_1H: 20_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFigure:
    """One rate as a version keeps it. Rates in micro-USD per million tokens."""

    kind: TokenKind
    published_rate_micro_usd_per_mtok: int
    discount_basis_points: int
    rate_micro_usd_per_mtok: int
    is_derived: bool
    context_from_tokens: int = 0


def half_even(numerator: int, denominator: int) -> int:
    """Give ``numerator / denominator`` (not negative) as a whole number, ties to the even one."""
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1))


def complete_figures(
    published: Mapping[TokenKind, int], *, discount_basis_points: int = 0, all_derived: bool = False
) -> tuple[RateFigure, ...]:
    """Give one figure per kind, the discount applied and missing kinds derived; empty where input or output lacks.

    A missing cached rate is the input rate, a missing cache write 1.25 x (5 m) or 2 x (1 h) of it; both from the
    published input rate, so that the discount is rounded once.

    Args:
        published: Published rates in micro-USD per million tokens.
        discount_basis_points: Our discount on them, 0 to 10,000.
        all_derived: True marks every figure as not published (a list rate taken from the batch rate).
    """
    if TokenKind.INPUT not in published or TokenKind.OUTPUT not in published:
        return ()
    derived = {TokenKind.CACHED_INPUT: published[TokenKind.INPUT]}
    for kind, factor in CACHE_WRITE_BASIS_POINTS.items():
        derived[kind] = half_even(published[TokenKind.INPUT] * factor, BASIS_POINTS)
    return tuple(
        RateFigure(
            kind=kind,
            published_rate_micro_usd_per_mtok=rate,
            discount_basis_points=discount_basis_points,
            rate_micro_usd_per_mtok=half_even(rate * (BASIS_POINTS - discount_basis_points), BASIS_POINTS),
            is_derived=all_derived or kind not in published,
        )
        for kind, rate in ((kind, published.get(kind, derived.get(kind, 0))) for kind in TokenKind)
    )


def rates_of(figures: Iterable[RateFigure]) -> Rates | None:
    """Give a card's rates, or None where a kind lacks or a tier begins above 0 tokens: no rate, no quote.

    A tier cannot be quoted yet; leaving it out would quote long contexts too low.
    """
    by_kind: dict[TokenKind, RateFigure] = {}
    for figure in figures:
        if figure.context_from_tokens:
            return None
        by_kind[figure.kind] = figure
    if len(by_kind) != len(TokenKind):
        return None
    return Rates(
        input_rate_micro_usd_per_mtok=by_kind[TokenKind.INPUT].rate_micro_usd_per_mtok,
        cached_input_rate_micro_usd_per_mtok=by_kind[TokenKind.CACHED_INPUT].rate_micro_usd_per_mtok,
        cache_write_5m_rate_micro_usd_per_mtok=by_kind[TokenKind.CACHE_WRITE_5M].rate_micro_usd_per_mtok,
        cache_write_1h_rate_micro_usd_per_mtok=by_kind[TokenKind.CACHE_WRITE_1H].rate_micro_usd_per_mtok,
        output_rate_micro_usd_per_mtok=by_kind[TokenKind.OUTPUT].rate_micro_usd_per_mtok,
        derived=frozenset(kind for kind, figure in by_kind.items() if figure.is_derived),
    )
