"""Load a catalog document: make what is missing, change what differs, touch nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Model as DjangoModel

from accounts.audit import record
from catalog.domain.document import CatalogDocument, LaneEntry, ModelEntry, start_of_day
from catalog.domain.rates import RateFigure
from catalog.domain.records import PRIOR_HEALTH, Rotation
from catalog.models import (
    Lane,
    LaneRotation,
    Model,
    ModelName,
    Provider,
    RateLine,
    RateOrigin,
    RateVersion,
    SampleSource,
    SlaSample,
)
from catalog.reading import figures_in_force
from ground import clock

# By key: what a row is made with and keeps, and what the document may change later.
Wanted = dict[Any, tuple[dict[str, Any], dict[str, Any]]]

NO_ADAPTER = "no_adapter"
ADAPTER_FOUND = "adapter_available"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What a load changed; all zero: the document was already in force."""

    rows_made: int
    rows_changed: int
    rate_versions_made: int


@transaction.atomic
def load_catalog(document: CatalogDocument) -> LoadReport:
    """Bring the catalog to what the document says.

    Loading the same document again writes nothing and moves no version. Rates that differ from the document's last
    ones become new versions, valid from now; a version that somebody else made stands until then. A lane's rotation and
    its ceiling of enqueued tokens belong to the operators: they are set when the lane is made, the rotation later only
    where it gains or loses its adapter. What the document no longer names stays: retire it by its date.

    Raises:
        django.db.IntegrityError: The document gives a known model or lane another identity, or one name two models.
    """
    with connection.cursor() as cursor:
        # One loader at a time; readers are not held up.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('load of the catalog', 0))")
    report = _Load(clock.now()).run(document)
    done = {name: (None, count) for name, count in asdict(report).items() if count}
    if done:
        record("catalog.loaded", object_type="catalog", object_id="catalog", changes=done)
    return report


class _Load:
    def __init__(self, at: datetime) -> None:
        self.at = at
        self.made = 0
        self.changed = 0
        self.rate_versions_made = 0

    def run(self, document: CatalogDocument) -> LoadReport:
        self._providers(document)
        self._models(document.models)
        models = {model.slug: model for model in Model.objects.all()}
        self._successors(document.models, models)
        self._names(document.models, models)
        self._lanes(document.models, models)
        lanes = {(lane.model.slug, lane.lane_id): lane for lane in Lane.objects.select_related("model")}
        entries = [(lanes[model.slug, lane.lane_id], lane) for model in document.models for lane in model.lanes]
        self._rates(entries)
        self._health(entries)
        return LoadReport(rows_made=self.made, rows_changed=self.changed, rate_versions_made=self.rate_versions_made)

    def _providers(self, document: CatalogDocument) -> None:
        known = {provider.slug: provider for provider in Provider.objects.all()}
        wanted: Wanted = {
            entry.slug: (
                {"slug": entry.slug},
                {"name": entry.name, "has_adapter": entry.slug in document.providers_with_adapter},
            )
            for entry in document.providers
        }
        self._bring(Provider, known, wanted)

    def _models(self, entries: Iterable[ModelEntry]) -> None:
        known = {model.slug: model for model in Model.objects.all()}
        wanted: Wanted = {
            entry.slug: (
                {"slug": entry.slug, "added_at": self.at},
                {
                    "maker": entry.maker,
                    "model_snapshot": entry.model_snapshot,
                    "endpoints": list(entry.endpoints),
                    "vocabulary": entry.vocabulary,
                    "vocabulary_is_public": entry.vocabulary_is_public,
                    "max_input_tokens": entry.max_input_tokens,
                    "max_output_tokens": entry.max_output_tokens,
                    "retires_at": start_of_day(entry.retires_on),
                },
            )
            for entry in entries
        }
        self._bring(Model, known, wanted)

    def _successors(self, entries: Iterable[ModelEntry], models: Mapping[str, Model]) -> None:
        wanted: Wanted = {
            entry.slug: ({}, {"successor_id": models[entry.successor_slug].pk if entry.successor_slug else None})
            for entry in entries
        }
        self._bring(Model, models, wanted)

    def _names(self, entries: Iterable[ModelEntry], models: Mapping[str, Model]) -> None:
        known = {name.name: name for name in ModelName.objects.all()}
        wanted: Wanted = {
            name.name: ({"name": name.name}, {"kind": name.kind, "model_id": models[entry.slug].pk})
            for entry in entries
            for name in entry.names
        }
        self._bring(ModelName, known, wanted)

    def _lanes(self, entries: Iterable[ModelEntry], models: Mapping[str, Model]) -> None:
        providers = {provider.slug: provider for provider in Provider.objects.all()}
        known = {(lane.model_id, lane.lane_id): lane for lane in Lane.objects.all()}
        wanted: Wanted = {}
        rotations = []
        for entry in entries:
            for lane in entry.lanes:
                key = (models[entry.slug].pk, lane.lane_id)
                provider = providers[lane.provider]
                has_adapter = provider.has_adapter and lane.is_carried
                identity = {
                    "model_id": key[0],
                    "lane_id": lane.lane_id,
                    "enqueued_tokens_limit": lane.enqueued_tokens_limit,
                    **self._first_rotation(has_adapter=has_adapter),
                }
                values = {
                    **_lane_values(lane, provider),
                    **self._rotation_by_adapter(known.get(key), has_adapter=has_adapter),
                }
                if "rotation" in values:
                    rotations.append((known[key], known[key].rotation, values))
                wanted[key] = (identity, values)
        log = [
            LaneRotation(
                lane=lane,
                from_rotation=before,
                to_rotation=values["rotation"],
                reason=values["rotation_reason"],
                changed_at=self.at,
            )
            for lane, before, values in rotations
        ]
        self._bring(Lane, known, wanted)
        if log:
            LaneRotation.objects.bulk_create(log)

    def _first_rotation(self, *, has_adapter: bool) -> dict[str, Any]:
        rotation, reason = (Rotation.IN, "") if has_adapter else (Rotation.OUT, NO_ADAPTER)
        return {"rotation": rotation.value, "rotation_reason": reason, "rotation_changed_at": self.at}

    def _rotation_by_adapter(self, lane: Lane | None, *, has_adapter: bool) -> dict[str, Any]:
        """Give what an adapter, or none, makes of a known lane's rotation; an operator's own reason stands."""
        if lane is None:
            return {}
        if has_adapter and lane.rotation == Rotation.OUT and lane.rotation_reason == NO_ADAPTER:
            rotation, reason = Rotation.IN, ADAPTER_FOUND
        elif not has_adapter and lane.rotation != Rotation.OUT:
            rotation, reason = Rotation.OUT, NO_ADAPTER
        else:
            return {}
        return {
            "rotation": rotation.value,
            "rotation_reason": reason,
            "rotation_changed_at": self.at,
            "rotation_changed_by_id": None,
        }

    def _rates(self, entries: Iterable[tuple[Lane, LaneEntry]]) -> None:
        newest = figures_in_force(self.at, RateOrigin.DOCUMENT)
        known = {key: frozenset(figures) for key, (_, figures) in newest.items()}
        versions: list[RateVersion] = []
        figures_of: list[tuple[RateFigure, ...]] = []
        for lane, entry in entries:
            for card, figures in entry.rates.figures().items():
                if known.get((lane.pk, card)) != frozenset(figures):
                    versions.append(
                        RateVersion(
                            lane=lane, card=card, origin=RateOrigin.DOCUMENT, valid_from=self.at, made_at=self.at
                        )
                    )
                    figures_of.append(figures)
        if not versions:
            return
        RateVersion.objects.bulk_create(versions)
        RateLine.objects.bulk_create(
            RateLine(
                version=version,
                kind=figure.kind.value,
                context_from_tokens=figure.context_from_tokens,
                published_rate_micro_usd_per_mtok=figure.published_rate_micro_usd_per_mtok,
                discount_basis_points=figure.discount_basis_points,
                rate_micro_usd_per_mtok=figure.rate_micro_usd_per_mtok,
                is_derived=figure.is_derived,
            )
            for version, figures in zip(versions, figures_of, strict=True)
            for figure in figures
        )
        self.rate_versions_made = len(versions)

    def _health(self, entries: Iterable[tuple[Lane, LaneEntry]]) -> None:
        """Give a lane its published figures as first sample; once it has any sample, measurement goes on from there.

        No median is published: p95 stands for it, which it cannot exceed. ``sample_count`` is 0: we measured nothing.
        """
        seeds = [(lane, entry.health) for lane, entry in entries if entry.health is not None]
        sampled = set(SlaSample.objects.filter(lane__in=[lane for lane, _ in seeds]).values_list("lane_id", flat=True))
        missing = [
            SlaSample(
                lane=lane,
                taken_at=self.at,
                source=SampleSource.SEED,
                error_ppm=health.error_ppm,
                p95_dispatch_ms=health.p95_dispatch_ms,
                p50_completion_minutes=health.p95_completion_minutes,
                p95_completion_minutes=health.p95_completion_minutes,
                sample_count=PRIOR_HEALTH.sample_count,
                enqueued_tokens=0,
            )
            for lane, health in seeds
            if lane.pk not in sampled
        ]
        if missing:
            SlaSample.objects.bulk_create(missing)
            self.made += len(missing)

    def _bring(
        self,
        model: type[DjangoModel],
        known: Mapping[Any, DjangoModel],
        wanted: Wanted,
    ) -> None:
        """Make the rows of ``wanted`` that are not known, with both their parts; of known ones compare the second."""
        missing = [model(**{**identity, **values}) for key, (identity, values) in wanted.items() if key not in known]
        if missing:
            model._default_manager.bulk_create(missing)  # noqa: SLF001 -- Django's documented way for any model
            self.made += len(missing)
        for key, (_, values) in wanted.items():
            row = known.get(key)
            differing = {} if row is None else {name: v for name, v in values.items() if getattr(row, name) != v}
            if row is not None and differing:
                for name, value in differing.items():
                    setattr(row, name, value)
                row.save(update_fields=list(differing))
                self.changed += 1


def _lane_values(entry: LaneEntry, provider: Provider) -> dict[str, Any]:
    return {
        "provider_id": provider.pk,
        "region": entry.region,
        "provider_model_id": entry.model_id,
        "retires_at": start_of_day(entry.retires_on),
        "minimum_rows": entry.minimum_rows,
        "maximum_rows_per_job": entry.maximum_rows_per_job,
        "maximum_bytes_per_job": entry.maximum_bytes_per_job,
        "is_carried": entry.is_carried,
    }
