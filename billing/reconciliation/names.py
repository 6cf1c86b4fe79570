"""Providers' spellings of models as our snapshots, and the rates that we know of them: read from the catalog."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from billing.reconciliation.domain.records import TokenClass
from billing.reconciliation.domain.sides import KnownRates
from catalog.domain.records import TokenKind
from catalog.models import Card, Lane, ModelName, RateLine

_CLASS_OF = {
    TokenKind.INPUT: TokenClass.INPUT_UNCACHED,
    TokenKind.CACHED_INPUT: TokenClass.INPUT_CACHE_READ,
    TokenKind.CACHE_WRITE_5M: TokenClass.INPUT_CACHE_WRITE_5M,
    TokenKind.CACHE_WRITE_1H: TokenClass.INPUT_CACHE_WRITE_1H,
    TokenKind.OUTPUT: TokenClass.OUTPUT,
}


def snapshots_of(names: Iterable[str]) -> dict[str, str]:
    """Give the snapshot of each name that the catalog knows, as it is or but for its case and punctuation."""
    known: dict[str, set[str]] = defaultdict(set)
    exact: dict[str, str] = {}
    for name, snapshot in [
        *ModelName.objects.values_list("name", "model__model_snapshot"),
        *Lane.objects.values_list("provider_model_id", "model__model_snapshot"),
        *((snapshot, snapshot) for snapshot in Lane.objects.values_list("model__model_snapshot", flat=True)),
    ]:
        exact.setdefault(name, snapshot)
        known[_plain(name)].add(snapshot)
    found = {name: exact.get(name) or _only(known.get(_plain(name), set())) for name in names}
    return {name: snapshot for name, snapshot in found.items() if snapshot}


def known_rates(provider: str) -> dict[tuple[str, str], KnownRates]:
    """Give every rate that a provider ever had with us, by snapshot and token class, in pico-USD a token."""
    rates: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    lines = RateLine.objects.filter(
        version__lane__provider__slug=provider, version__card__in=[Card.PROVIDER_BATCH, Card.LIST]
    )
    for snapshot, kind, card, rate in lines.values_list(
        "version__lane__model__model_snapshot", "kind", "version__card", "rate_micro_usd_per_mtok"
    ):
        # A micro-USD for a million tokens is a pico-USD for one.
        rates[snapshot, _CLASS_OF[TokenKind(kind)].value, card].add(rate)
    places = {(snapshot, token_class) for snapshot, token_class, _ in rates}
    return {
        place: KnownRates(
            batch=frozenset(rates.get((*place, Card.PROVIDER_BATCH), ())),
            standard=frozenset(rates.get((*place, Card.LIST), ())),
        )
        for place in places
    }


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _only(snapshots: set[str]) -> str:
    return next(iter(snapshots)) if len(snapshots) == 1 else ""
