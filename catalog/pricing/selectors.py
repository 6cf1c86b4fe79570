"""Reads of rates: what holds on a date, what a draft changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from catalog.domain.rates import RateFigure
from catalog.domain.records import TokenKind
from catalog.models import Card, Lane, RateLine, RateVersion
from catalog.pricing.models import RateDraft
from ground.errors import NotFound
from ground.ids import is_public_id

EXTRAORDINARY_FACTOR: Final = 10
# 1,000 USD per million tokens: a price per token was taken for one per million.
EXTRAORDINARY_RATE_MICRO_USD_PER_MTOK: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One kind's rate as it is live and as it would be; None where there is none live."""

    kind: TokenKind
    live_rate_micro_usd_per_mtok: int | None
    rate_micro_usd_per_mtok: int
    is_derived: bool

    @property
    def is_changed(self) -> bool:
        """Say whether it would be another rate."""
        return self.live_rate_micro_usd_per_mtok != self.rate_micro_usd_per_mtok

    @property
    def is_extraordinary(self) -> bool:
        """Say whether it is above 1,000 USD a million tokens, or more than ten times, or a tenth of, the live rate."""
        live, rate = self.live_rate_micro_usd_per_mtok, self.rate_micro_usd_per_mtok
        if rate > EXTRAORDINARY_RATE_MICRO_USD_PER_MTOK:
            return True
        if live is None or live == rate:
            return False
        return rate > live * EXTRAORDINARY_FACTOR or live > rate * EXTRAORDINARY_FACTOR


def compared(figures: tuple[RateFigure, ...], live: tuple[RateFigure, ...]) -> tuple[Compared, ...]:
    """Give each kind's rate beside the live one."""
    rates = {figure.kind: figure.rate_micro_usd_per_mtok for figure in live if not figure.context_from_tokens}
    return tuple(
        Compared(
            kind=figure.kind,
            live_rate_micro_usd_per_mtok=rates.get(figure.kind),
            rate_micro_usd_per_mtok=figure.rate_micro_usd_per_mtok,
            is_derived=figure.is_derived,
        )
        for figure in figures
    )


def live_figures(lane: Lane, card: Card, at: datetime) -> tuple[RateFigure, ...]:
    """Give the figures of a card that hold at an instant; none before its first version."""
    version = RateVersion.objects.filter(lane=lane, card=card, valid_from__lte=at).order_by("-valid_from").first()
    if version is None:
        return ()
    return tuple(_figure(line) for line in version.lines.order_by("pk"))


def _figure(line: RateLine) -> RateFigure:
    return RateFigure(
        kind=TokenKind(line.kind),
        published_rate_micro_usd_per_mtok=line.published_rate_micro_usd_per_mtok,
        discount_basis_points=line.discount_basis_points,
        rate_micro_usd_per_mtok=line.rate_micro_usd_per_mtok,
        is_derived=line.is_derived,
        context_from_tokens=line.context_from_tokens,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """A card of a lane as it holds at an instant, and until when."""

    version: RateVersion
    rates: dict[str, int]
    has_derived: bool
    valid_to: datetime | None
    margin_basis_points: int | None


_HOLDING = """
SELECT version.*, (
    SELECT min(later.valid_from) FROM catalog_rateversion later
    WHERE later.lane_id = version.lane_id AND later.card = version.card AND later.valid_from > version.valid_from
) AS valid_to
FROM catalog_rateversion version
JOIN catalog_lane lane ON lane.id = version.lane_id
JOIN catalog_model model ON model.id = lane.model_id
JOIN catalog_provider provider ON provider.id = lane.provider_id
WHERE version.valid_from = (
    SELECT max(other.valid_from) FROM catalog_rateversion other
    WHERE other.lane_id = version.lane_id AND other.card = version.card AND other.valid_from <= %(at)s
) AND (model.slug, lane.lane_id, version.card) > (%(model)s, %(lane)s, %(after_card)s)
  AND (%(card)s = '' OR version.card = %(card)s)
  AND (%(text)s = '' OR strpos(model.slug, %(text)s) > 0 OR strpos(lane.lane_id, %(text)s) > 0
       OR provider.slug = %(text)s)
ORDER BY model.slug, lane.lane_id, version.card LIMIT %(limit)s
"""


def rate_page(
    *, at: datetime, after: str | None, limit: int, text: str = "", card: str = ""
) -> tuple[list[RateRow], bool]:
    """Give up to ``limit`` cards as they hold at an instant, by model, lane and card, and whether there are more.

    Args:
        at: The instant (aware).
        after: ``model|lane|card`` of the last row of the page before.
        limit: How many a page has.
        text: Part of the model's or lane's name, or a provider.
        card: Only this card.
    """
    model, _, rest = (after or "").partition("|")
    lane, _, after_card = rest.partition("|")
    values: dict[str, Any] = {
        "at": at,
        "model": model,
        "lane": lane,
        "after_card": after_card,
        "card": card,
        "text": text,
        "limit": limit + 1,
    }
    found = list(RateVersion.objects.raw(_HOLDING, values).prefetch_related("lines", "lane__model", "lane__provider"))
    costs = _output_costs([version.lane_id for version in found], at)
    return [_row(version, costs) for version in found[:limit]], len(found) > limit


def _output_costs(lanes: list[int], at: datetime) -> dict[int, int]:
    """Give what providers bill for output, by lane's key, at an instant."""
    held = (
        RateVersion.objects.filter(lane__in=lanes, card=Card.PROVIDER_BATCH, valid_from__lte=at)
        .order_by("lane", "-valid_from")
        .distinct("lane")
    )
    lines = RateLine.objects.filter(version__in=held.values("pk"), kind=TokenKind.OUTPUT, context_from_tokens=0)
    return dict(lines.values_list("version__lane_id", "rate_micro_usd_per_mtok"))


def _row(version: Any, costs: dict[int, int]) -> RateRow:  # noqa: ANN401 -- a raw query's row has one more column
    lines = [line for line in version.lines.all() if not line.context_from_tokens]
    rates = {line.kind: line.rate_micro_usd_per_mtok for line in lines}
    cost, sold = costs.get(version.lane_id), rates.get(TokenKind.OUTPUT)
    has_margin = version.card == Card.SELL and cost is not None and bool(sold)
    return RateRow(
        version=version,
        rates=rates,
        has_derived=any(line.is_derived for line in lines),
        valid_to=version.valid_to,
        margin_basis_points=(sold - cost) * 10_000 // sold if has_margin and sold and cost is not None else None,
    )


def draft_page(*, after: str | None, limit: int, text: str = "", state: str = "") -> tuple[list[RateDraft], bool]:
    """Give up to ``limit`` drafts, newest first, and whether there are more.

    Raises:
        NotFound: ``after`` is no draft.
    """
    found = RateDraft.objects.select_related("lane__model", "drafted_by", "decided_by").order_by("-pk")
    if text:
        found = found.filter(Q(lane__model__slug__icontains=text) | Q(lane__lane_id__icontains=text))
    if state:
        found = found.filter(state=state)
    if after is not None:
        found = found.filter(pk__lt=draft_by_id(after).pk)
    page = list(found[: limit + 1])
    return page[:limit], len(page) > limit


def draft_by_id(public_id: str) -> RateDraft:
    """Give a draft.

    Raises:
        NotFound: There is none by that id.
    """
    found = RateDraft.objects.select_related("lane__model", "lane__provider", "drafted_by", "decided_by", "version")
    draft = found.filter(public_id=public_id).first() if is_public_id(public_id, "rd_") else None
    if draft is None:
        raise NotFound("There is no such draft.", param="after")
    return draft
