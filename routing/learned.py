"""What was learned, as this process holds it: read anew as soon as its version in the database has moved."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import msgspec
from django.conf import settings
from django.db.models import Max

from accounts.models import Organisation
from catalog.domain.records import Catalog, Model
from routing.domain.estimate.tables import Vocabulary, vocabulary_named
from routing.domain.learning.records import NOTHING_LEARNED, Learned, ModelRatios
from routing.domain.learning.states import NEW, HouseState, ModelStates, State
from routing.domain.learning.tables import Fit
from routing.models import LearnedScope, LearnedState, LearnedTable

_HELD_AT_MOST: Final = 512
_Key = tuple[int, str, int]
_held: OrderedDict[_Key, tuple[tuple[int, int], Learned]] = OrderedDict()
_holding = threading.Lock()


def learned_versions(organisation: Organisation) -> tuple[int, int]:
    """Give the newest versions of what was learned over all customers and of one; 0 where there is none."""
    house = LearnedState.objects.filter(organisation=None).aggregate(version=Max("version"))["version"]
    own = LearnedState.objects.filter(organisation=organisation).aggregate(version=Max("version"))["version"]
    return house or 0, own or 0


def learned_for(
    organisation: Organisation, workflow: str, catalog: Catalog, versions: tuple[int, int] | None = None
) -> Learned:
    """Give what a customer's quote may use now; the database is asked only where a version has moved.

    Args:
        organisation: Whose quote it is.
        workflow: Its workflow's name: what models write is learned by workflow.
        catalog: Says which vocabularies are public.
        versions: What :func:`learned_versions` gives, where the caller has read them already (a call's first
            statement does); without them they are read here.
    """
    versions = learned_versions(organisation) if versions is None else versions
    if not any(versions):
        return NOTHING_LEARNED
    key = organisation.pk, workflow, catalog.version
    held = _held.get(key)
    if held is not None and held[0] == versions:
        return held[1]
    learned = _read(organisation, workflow, catalog, versions)
    with _holding:
        _held[key] = versions, learned
        _held.move_to_end(key)
        while len(_held) > _HELD_AT_MOST:
            _held.popitem(last=False)
    return learned


def held_count() -> int:
    """Give how many customers' maps this process holds."""
    return len(_held)


def job_salt(organisation: Organisation) -> bytes:
    """Give what makes the keys of a customer's jobs tell nothing: neither to others, nor to who only has the table."""
    return hashlib.blake2b(f"{organisation.public_id}:{settings.SECRET_KEY}".encode(), digest_size=32).digest()


def _read(organisation: Organisation, workflow: str, catalog: Catalog, versions: tuple[int, int]) -> Learned:
    """Read it in one statement, so that all of it is of one moment; what is newer than ``versions`` is read again."""
    house: dict[str, tuple[int, int]] = {}
    off: set[str] = set()
    own: dict[str, dict[str, dict[str, State]]] = {}
    found = LearnedState.objects.filter(organisation=None) | LearnedState.objects.filter(organisation=organisation)
    for slug, scope, name, state, is_on, ratio_ppm in found.values_list(
        "model_slug", "scope", "name", "state", "is_on", "house_ratio_ppm"
    ):
        if scope == LearnedScope.HOUSE:
            house[slug] = ratio_ppm, HouseState.from_bytes(state).table_version
            if not is_on:
                off.add(slug)
        else:
            own.setdefault(slug, {}).setdefault(scope, {})[name] = State.from_bytes(state)
    models = {}
    for slug, (house_ppm, table_version) in house.items():
        if slug not in off and slug in catalog.models:
            model = catalog.models[slug]
            ratios = _ratios(own.get(slug, {}), workflow, house_ppm, model.vocabulary_is_public)
            models[slug] = replace(ratios, vocabulary=learned_vocabulary(model, table_version))
    return Learned(version=max(versions), salt=job_salt(organisation), models=MappingProxyType(models))


def learned_vocabulary(model: Model, table_version: int) -> Vocabulary | None:
    """Give the table that a model is counted by, the same object each time; None where it is the catalog's."""
    return _table(model.slug, model.vocabulary, table_version) if table_version else None


@functools.lru_cache(maxsize=64)
def _table(model_slug: str, base: str, version: int) -> Vocabulary:
    fit = LearnedTable.objects.values_list("fit", flat=True).get(model_slug=model_slug, version=version)
    return msgspec.msgpack.decode(bytes(fit), type=Fit).as_vocabulary(vocabulary_named(base))


def _ratios(own: Mapping[str, Mapping[str, State]], workflow: str, house_ppm: int, is_public: bool) -> ModelRatios:  # noqa: FBT001 -- a fact of the model
    jobs = {int(name): state for name, state in own.get(LearnedScope.JOB, {}).items() if state.row_count}
    states = ModelStates(
        customer=own.get(LearnedScope.CUSTOMER, {}).get("", NEW),
        workflow=own.get(LearnedScope.WORKFLOW, {}).get(workflow, NEW),
        jobs=jobs,
    )
    return states.ratios(house_ppm, vocabulary_is_public=is_public)
