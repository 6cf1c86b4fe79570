"""A group's figures from its tokens and the primary lane's sell rates, each rounded once by the rules of money."""

from __future__ import annotations

from dataclasses import dataclass

from billing.domain.money import round_pico_to_micro, round_up_pico_to_micro
from catalog.domain.records import Rates
from routing.domain.estimate.tokens import ONE_PPM, RowTokens, band_percent
from routing.domain.learning.records import NOTHING_OF_A_MODEL, Band, ModelRatios
from routing.domain.plan import GroupCharge

BASIS_POINTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tokens:
    input: int
    output: int


def price_group(
    tokens: RowTokens,
    sell: Rates,
    published: Rates,
    *,
    vocabulary_is_public: bool,
    margin_basis_points: int,
    known: ModelRatios = NOTHING_OF_A_MODEL,
) -> GroupCharge:
    """Price a group without fees.

    Usage, low, high and sync round half-even per (kind, rate); the ceiling rounds up per (kind, rate); the reservation
    is ``min(ceiling, max(high, (1 + margin) x usage))``, rounded up once. Nothing stated exceeds the ceiling.
    Low and high are the prior's until ``known`` has the model's own bands.
    """
    half_ppm = band_percent(vocabulary_is_public=vocabulary_is_public) * (ONE_PPM // 100)
    band = known.input_band or Band(low_ppm=ONE_PPM - half_ppm, high_ppm=ONE_PPM + half_ppm)
    output_low_ppm = known.output_band.low_ppm if known.output_band else ONE_PPM // 2
    estimate = _Tokens(input=int(tokens.input_tokens.sum()), output=int(tokens.output_tokens.sum()))
    worst = _Tokens(input=int(tokens.ceiling_input_tokens.sum()), output=int(tokens.ceiling_output_tokens.sum()))
    low = _Tokens(input=estimate.input * band.low_ppm // ONE_PPM, output=estimate.output * output_low_ppm // ONE_PPM)
    high = _Tokens(input=-(-estimate.input * band.high_ppm // ONE_PPM), output=int(tokens.output_high_tokens.sum()))
    ceiling_micro_usd = sum(round_up_pico_to_micro(pico) for pico in _pico_usd(worst, sell))
    with_margin = -(-sum(_pico_usd(estimate, sell)) * (BASIS_POINTS + margin_basis_points) // BASIS_POINTS)
    wanted_pico_usd = max(sum(_pico_usd(high, sell)), with_margin)
    return GroupCharge(
        input_tokens=estimate.input,
        output_tokens=estimate.output,
        low_input_tokens=low.input,
        low_output_tokens=low.output,
        high_input_tokens=high.input,
        high_output_tokens=high.output,
        ceiling_input_tokens=worst.input,
        ceiling_output_tokens=worst.output,
        usage_charge_micro_usd=_rounded(estimate, sell),
        low_micro_usd=_rounded(low, sell),
        high_micro_usd=min(ceiling_micro_usd, _rounded(high, sell)),
        ceiling_micro_usd=ceiling_micro_usd,
        reservation_micro_usd=min(ceiling_micro_usd, round_up_pico_to_micro(wanted_pico_usd)),
        sync_charge_micro_usd=_rounded(estimate, published),
    )


def _pico_usd(tokens: _Tokens, rates: Rates) -> tuple[int, int]:
    return (
        tokens.input * rates.input_rate_micro_usd_per_mtok,
        tokens.output * rates.output_rate_micro_usd_per_mtok,
    )


def _rounded(tokens: _Tokens, rates: Rates) -> int:
    return sum(round_pico_to_micro(pico) for pico in _pico_usd(tokens, rates))
