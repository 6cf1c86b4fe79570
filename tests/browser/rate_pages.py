"""Pages of rates."""

from __future__ import annotations

from catalog.domain.records import TokenKind
from catalog.models import Card
from catalog.pricing.services import draft_rates, lane_named
from tests.browser.cases import PageCase, Role, World
from tests.routing.pages import scenes

_OTHERS: dict[Role, int] = {"nobody": 302, "admin": 404, "support": 200, "finance": 200}
_WRITERS: dict[Role, int] = {**_OTHERS, "support": 403}


def _draft(_world: World, tail: str = "") -> str:
    draft = draft_rates(
        lane_named("gpt-4o", "openai-direct"),
        Card.SELL,
        {TokenKind.INPUT: 1_300_000, TokenKind.OUTPUT: 600_000_000},
        reason="new contract",
        drafted_by=scenes.staff("operator", name="Drafting Dana"),
    )
    return f"/ops/rates/drafts/{draft.public_id}/{tail}"


OF_RATES = (
    PageCase(
        name="rates",
        url_name="catalog:rate-list",
        seen_by="operator",
        make=lambda _world: "/ops/rates/?text=gpt",
        others=_OTHERS,
    ),
    PageCase(
        name="drafts of rates",
        url_name="catalog:draft-list",
        seen_by="finance",
        make=lambda world: _draft(world) and "/ops/rates/drafts/",
        others=_OTHERS,
    ),
    PageCase(name="draft of rates", url_name="catalog:draft-detail", seen_by="finance", make=_draft, others=_OTHERS),
    PageCase(
        name="decide rates",
        url_name="catalog:draft-decide",
        seen_by="finance",
        make=lambda world: _draft(world, "decide/"),
        others={**_WRITERS, "operator": 403},
    ),
    PageCase(
        name="new rates",
        url_name="catalog:draft-new",
        seen_by="operator",
        make=lambda _world: "/ops/rates/new/",
        others=_WRITERS,
    ),
    PageCase(
        name="import prices",
        url_name="catalog:price-import",
        seen_by="operator",
        make=lambda _world: "/ops/rates/import/",
        others=_WRITERS,
    ),
)
