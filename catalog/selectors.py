"""What others read of the catalog: the in-process map, its versions, and the lanes page's rows."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime

from catalog import models
from catalog.domain.records import (
    Catalog,
    Lane,
    LaneHealth,
    Rotation,
)
from catalog.reading import RETIRED, next_change_at, read_catalog, sla_snapshot
from ground import clock
from ground.errors import NotFound

# A load that finds the version moved under it starts again; after this many it takes what it has, and the next reader
# sees by the version that it must load again.
_LOAD_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The map this process holds, and the span of time in which its dated parts (rates, retirements) stay true."""

    catalog: Catalog
    built_at: datetime
    changes_at: datetime | None

    def is_good(self, versions: tuple[int, int], at: datetime) -> bool:
        return (
            (self.catalog.version, self.catalog.sla.version) == versions
            and self.built_at <= at
            and (self.changes_at is None or at < self.changes_at)
        )


_held: _Held | None = None
_loading = threading.Lock()


def catalog_versions() -> tuple[int, int]:
    """Give the version numbers of the catalog and of the SLA snapshot in the database; they only say "same or not"."""
    return models.CatalogVersion.objects.values_list("catalog_version", "sla_version").get(pk=1)


def held_versions() -> tuple[int, int]:
    """Give the versions of the map that this process holds; 0 before it needed one."""
    held = _held
    return (held.catalog.version, held.catalog.sla.version) if held is not None else (0, 0)


def current_catalog(versions: tuple[int, int] | None = None) -> Catalog:
    """Give the catalog that holds now: this process's map, replaced whole first if its version or a date moved.

    Rates and retirements that begin by date are noticed at their instant by the process's clock, without a version.
    One thread loads; others that need the new one wait for it (some milliseconds).

    Args:
        versions: What :func:`catalog_versions` gives, where the caller has read them already (the quote's first
            statement does); without them they are read here.
    """
    global _held  # noqa: PLW0603 -- one map per process is the point
    if versions is None:
        versions = catalog_versions()
    held = _held
    if held is not None and held.is_good(versions, clock.now()):
        return held.catalog
    with _loading:
        versions = catalog_versions()
        if _held is None or not _held.is_good(versions, clock.now()):
            _held = _load(versions, _held)
        return _held.catalog


def _load(versions: tuple[int, int], held: _Held | None) -> _Held:
    """Give the catalog of one moment: what was read while the version stood still."""
    for _ in range(_LOAD_ATTEMPTS):
        at = clock.now()
        if held is not None and held.is_good((versions[0], held.catalog.sla.version), at):
            loaded = replace(held, catalog=replace(held.catalog, sla=sla_snapshot(versions[1], at)))
        else:
            loaded = _Held(
                catalog=read_catalog(versions[0], sla_snapshot(versions[1], at), at),
                built_at=at,
                changes_at=next_change_at(at),
            )
        now_versions = catalog_versions()
        if now_versions == versions:
            return loaded
        versions = now_versions
    return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOverview:
    """A lane as the operators' page shows it. ``changed_by`` is a person's name, empty for the loader."""

    lane: Lane
    provider_name: str
    has_adapter: bool
    health: LaneHealth
    changed_at: datetime
    changed_by: str

    @property
    def headroom_tokens(self) -> int:
        """Estimated input tokens that still fit under the lane's ceiling."""
        return max(self.lane.enqueued_tokens_limit - self.health.enqueued_tokens, 0)

    @property
    def can_come_in(self) -> bool:
        """Say whether a rotation other than out is possible at all."""
        return self.has_adapter and self.lane.rotation_reason != RETIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationEntry:
    """One line of a lane's rotation log."""

    from_rotation: str
    to_rotation: str
    reason: str
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDetail:
    """A lane, the other lanes of its model that take work, and its newest rotations, newest first."""

    overview: LaneOverview
    other_lanes_in: int
    rotations: tuple[RotationEntry, ...]


def provider_names() -> dict[str, str]:
    """Give the providers' names by slug, by name."""
    return dict(models.Provider.objects.order_by("name").values_list("slug", "name"))


def lanes_overview(text: str = "", provider: str = "", rotation: str = "") -> tuple[LaneOverview, ...]:
    """Give the lanes that match all filters given: those that take or keep work first, then by model and lane.

    Args:
        text: Part of a model's name (any accepted spelling) or of a lane's id, whatever its case.
        provider: A provider's slug.
        rotation: A rotation.
    """
    catalog = current_catalog()
    needle = text.strip().lower()
    rows = models.Lane.objects.select_related("model", "provider", "rotation_changed_by")
    if provider:
        rows = rows.filter(provider__slug=provider)
    # A lane made since the map was read is shown at the next look.
    found = [_overview(catalog, row) for row in rows if (row.model.slug, row.lane_id) in catalog.lanes]
    spellings: defaultdict[str, str] = defaultdict(str)
    for name in catalog.names.values():
        spellings[name.model_slug] += f"{name.name.lower()}\n"
    order = list(Rotation)
    return tuple(
        sorted(
            (
                overview
                for overview in found
                if (not rotation or overview.lane.rotation == rotation)
                and needle in f"{spellings[overview.lane.model_slug]}{overview.lane.lane_id}\n{overview.lane.model_id}"
            ),
            key=lambda overview: (
                order.index(overview.lane.rotation),
                not overview.has_adapter,
                overview.lane.model_slug,
                overview.lane.lane_id,
            ),
        )
    )


def lane_detail(model_slug: str, lane_id: str) -> LaneDetail:
    """Give one lane with its ten newest rotations.

    Raises:
        NotFound: There is no such lane.
    """
    catalog = current_catalog()
    row = (
        models.Lane.objects.select_related("model", "provider", "rotation_changed_by")
        .filter(model__slug=model_slug, lane_id=lane_id)
        .first()
    )
    if row is None or (model_slug, lane_id) not in catalog.lanes:
        raise NotFound("There is no such lane.")
    others = [lane for lane in catalog.models[model_slug].lanes if lane.lane_id != lane_id]
    return LaneDetail(
        overview=_overview(catalog, row),
        other_lanes_in=sum(lane.rotation == Rotation.IN for lane in others),
        rotations=tuple(
            RotationEntry(
                from_rotation=entry.from_rotation,
                to_rotation=entry.to_rotation,
                reason=entry.reason,
                changed_at=entry.changed_at,
                changed_by=entry.changed_by.name if entry.changed_by else "",
            )
            for entry in row.rotations.select_related("changed_by").order_by("-changed_at", "-pk")[:10]
        ),
    )


def _overview(catalog: Catalog, row: models.Lane) -> LaneOverview:
    key = (row.model.slug, row.lane_id)
    return LaneOverview(
        lane=catalog.lanes[key],
        provider_name=row.provider.name,
        has_adapter=row.provider.has_adapter and row.is_carried,
        health=catalog.sla.health(*key),
        changed_at=row.rotation_changed_at,
        changed_by=row.rotation_changed_by.name if row.rotation_changed_by else "",
    )
