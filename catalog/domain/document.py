"""The catalog's document as the loader takes it, checked for shape; its lanes hold published rates only."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import msgspec

from catalog.domain.rates import RateFigure, complete_figures
from catalog.domain.records import TokenKind

# What a list rate is taken for where nobody published one: batch rates are half of it at every provider we know.
LIST_PER_BATCH = 2


class PublishedRates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Published rates in micro-USD per million tokens; a kind that nobody published is missing."""

    input: int | None = None
    cached_input: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None

    def by_kind(self) -> dict[TokenKind, int]:
        """Give what is published."""
        return {kind: rate for kind in TokenKind if (rate := getattr(self, kind)) is not None}


class CardsEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lane's cards. ``sell`` missing: we sell at what the provider bills. ``list`` missing: twice the batch rate."""

    provider_batch: PublishedRates
    sell: PublishedRates | None = None
    list: PublishedRates | None = None
    discount_basis_points: int = 0

    def figures(self) -> dict[str, tuple[RateFigure, ...]]:
        """Give the figures of each card by its name; a card without an input or output rate is left out."""
        batch = self.provider_batch.by_kind()
        doubled = {kind: rate * LIST_PER_BATCH for kind, rate in batch.items()}
        provider = complete_figures(batch, discount_basis_points=self.discount_basis_points)
        cards = {
            "provider_batch": provider,
            "sell": provider if self.sell is None else complete_figures(self.sell.by_kind()),
            "list": complete_figures(doubled, all_derived=True)
            if self.list is None
            else complete_figures(self.list.by_kind()),
        }
        return {card: figures for card, figures in cards.items() if figures}


class HealthEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lane's first SLA sample, from a published figure."""

    error_ppm: int
    p95_dispatch_ms: int
    p95_completion_minutes: int


class LaneEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model at one provider in one region. ``is_carried`` False: the provider's adapter cannot carry it."""

    lane_id: str
    provider: str
    region: str
    model_id: str
    retires_on: date | None
    enqueued_tokens_limit: int
    minimum_rows: int
    maximum_rows_per_job: int
    maximum_bytes_per_job: int
    rates: CardsEntry
    health: HealthEntry | None = None
    is_carried: bool = True


class NameEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One accepted spelling."""

    name: str
    kind: str


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, its names and its lanes; a retired one has no lanes."""

    slug: str
    maker: str
    model_snapshot: str
    endpoints: tuple[str, ...]
    vocabulary: str
    vocabulary_is_public: bool
    max_input_tokens: int
    max_output_tokens: int
    retires_on: date | None
    successor_slug: str | None
    names: tuple[NameEntry, ...]
    lanes: tuple[LaneEntry, ...]


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider."""

    slug: str
    name: str


class CatalogDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole catalog. Lanes that no adapter carries, as of providers outside the list, are out of rotation."""

    facts_as_of: date
    providers_with_adapter: tuple[str, ...]
    providers: tuple[ProviderEntry, ...]
    models: tuple[ModelEntry, ...]


def parse_document(content: bytes) -> CatalogDocument:
    """Give the document of a JSON text.

    Raises:
        msgspec.ValidationError: A field is missing, unknown or of another type; the message names it.
    """
    return msgspec.json.decode(content, type=CatalogDocument)


def start_of_day(day: date | None) -> datetime | None:
    """Give the instant a retirement date begins (UTC): from then on the model takes no work."""
    return None if day is None else datetime.combine(day, time(), UTC)
