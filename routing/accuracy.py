"""Quoted against settled, from receipts: per model, over a span of days, for the house or for one customer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count, Q, Sum

from accounts.models import Organisation
from catalog.selectors import current_catalog
from ground.errors import NotFound
from routing.domain.accuracy import INPUT_ERRORS, OUTPUT_ERRORS, absolute_percentile_ppm, bias_ppm
from routing.domain.learning.spreads import Scale
from routing.domain.learning.states import HouseState
from routing.models import (
    GroupAccuracy,
    LearnedScope,
    LearnedState,
    LearnedStateVersion,
    LearningDecision,
    TableInTheMaking,
)

_P95_PER_MILLE = 950
# Whose rows are looked at for the 95th percentile: the newest. All of a year would be a hundred million buckets.
_GROUPS_AT_MOST = 5_000
_VERSIONS_SHOWN = 20
_DECISIONS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SideAccuracy:
    """Input or output of one model: tokens quoted and settled, and how far they lie apart, in parts per million.

    ``bias_ppm`` is of the sums, positive where too much was quoted; the other two are of single rows.
    """

    quoted_tokens: int
    settled_tokens: int
    bias_ppm: int
    mean_error_ppm: int
    p95_error_ppm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedOfModel:
    """What is learned of a model over all customers, and whether its provider seems to count otherwise now."""

    ratio_ppm: int
    customer_count: int
    version: int
    is_on: bool
    has_drifted: bool
    drifted_at: int
    recent_error_ppm: int
    recent_row_count: int
    # The learned table that its rows are counted by; 0: the catalog's.
    table_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAccuracy:
    """One model's line of the board; ``learned`` is None where nothing was, and for customers."""

    model_slug: str
    vocabulary_is_public: bool
    batch_count: int
    row_count: int
    set_aside_row_count: int
    input: SideAccuracy
    output: SideAccuracy
    learned: LearnedOfModel | None


def accuracy_board(*, since: datetime, organisation: Organisation | None = None) -> tuple[ModelAccuracy, ...]:
    """Give every model that settled since an instant, most rows first.

    Args:
        since: Batches settled from then on.
        organisation: Only its batches; None for the house's board, which tells too what was learned.
    """
    settled = GroupAccuracy.objects.filter(settled_at__gte=since)
    if organisation is not None:
        settled = settled.filter(organisation=organisation)
    sums = (
        settled.values("model_slug")
        .annotate(
            batches=Count("batch", distinct=True),
            rows=Sum("row_count"),
            seen=Sum("seen_row_count"),
            aside=Sum("set_aside_row_count"),
            quoted_input=Sum("quoted_input_tokens"),
            settled_input=Sum("settled_input_tokens"),
            quoted_output=Sum("quoted_output_tokens"),
            settled_output=Sum("settled_output_tokens"),
            input_error=Sum("input_absolute_error_ppm_sum"),
            output_error=Sum("output_absolute_error_ppm_sum"),
        )
        .order_by("-rows", "model_slug")
    )
    counts = {side: _counts(f"{side}_error_counts", since, organisation) for side in ("input", "output")}
    learned = learned_of_models() if organisation is None else {}
    models = current_catalog().models
    return tuple(
        ModelAccuracy(
            model_slug=row["model_slug"],
            vocabulary_is_public=row["model_slug"] in models and models[row["model_slug"]].vocabulary_is_public,
            batch_count=row["batches"],
            row_count=int(row["rows"]),
            set_aside_row_count=int(row["aside"]),
            input=_side(row, "input", INPUT_ERRORS, counts["input"]),
            output=_side(row, "output", OUTPUT_ERRORS, counts["output"]),
            learned=learned.get(row["model_slug"]),
        )
        for row in sums
    )


def _side(row: Mapping[str, Any], side: str, scale: Scale, counts: dict[str, list[int]]) -> SideAccuracy:
    quoted, settled, seen = int(row[f"quoted_{side}"]), int(row[f"settled_{side}"]), int(row["seen"])
    return SideAccuracy(
        quoted_tokens=quoted,
        settled_tokens=settled,
        bias_ppm=bias_ppm(quoted, settled),
        mean_error_ppm=int(row[f"{side}_error"]) // seen if seen else 0,
        p95_error_ppm=absolute_percentile_ppm(scale, counts[str(row["model_slug"])], _P95_PER_MILLE)
        if any(counts[str(row["model_slug"])])
        else 0,
    )


def _counts(column: str, since: datetime, organisation: Organisation | None) -> dict[str, list[int]]:
    """Add up the buckets of the newest groups by model, in the database."""
    scale = INPUT_ERRORS if column.startswith("input") else OUTPUT_ERRORS
    organisation_id = organisation.pk if organisation else None
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * scale.count)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT model_slug, place, sum(count) FROM (SELECT model_slug, {column} AS counts"  # noqa: S608 -- a column of ours
            " FROM routing_groupaccuracy WHERE settled_at >= %s AND (%s::bigint IS NULL OR organisation_id = %s)"
            " ORDER BY settled_at DESC LIMIT %s) AS newest, unnest(counts) WITH ORDINALITY AS bucket (count, place)"
            " WHERE count > 0 GROUP BY model_slug, place",
            [since, organisation_id, organisation_id, _GROUPS_AT_MOST],
        )
        for slug, place, count in cursor.fetchall():
            counts[slug][place - 1] = int(count)
    return counts


def learned_of_models() -> dict[str, LearnedOfModel]:
    """Give what is learned of every model over all customers."""
    return {
        row.model_slug: _learned(row)
        for row in LearnedState.objects.filter(organisation=None, scope=LearnedScope.HOUSE).order_by("model_slug")
    }


def _learned(row: LearnedState) -> LearnedOfModel:
    state = HouseState.from_bytes(row.state)
    return LearnedOfModel(
        ratio_ppm=row.house_ratio_ppm,
        customer_count=state.customer_count,
        version=row.version,
        is_on=row.is_on,
        has_drifted=state.has_drifted(),
        drifted_at=state.drifted_at,
        recent_error_ppm=state.recent_error_ppm,
        recent_row_count=state.recent_row_count,
        table_version=state.table_version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningHistory:
    """What was learned of one model, its newest versions and decisions, newest first.

    ``table_row_count`` are the rows towards its next table; None where its vocabulary is public, or nothing settled.
    """

    learned: LearnedOfModel
    versions: tuple[LearnedStateVersion, ...]
    decisions: tuple[LearningDecision, ...]
    table_row_count: int | None


def learning_history(model_slug: str) -> LearningHistory:
    """Give the history of a model's learning.

    Raises:
        NotFound: Nothing was learned of it.
    """
    row = LearnedState.objects.filter(Q(organisation=None), model_slug=model_slug).first()
    if row is None:
        raise NotFound("Nothing was learned of this model.")
    versions = LearnedStateVersion.objects.filter(
        model_slug=model_slug, organisation_id=None, scope=LearnedScope.HOUSE, name=""
    ).order_by("-version")
    decisions = LearningDecision.objects.filter(model_slug=model_slug).select_related("decided_by")
    return LearningHistory(
        learned=_learned(row),
        versions=tuple(versions[:_VERSIONS_SHOWN]),
        decisions=tuple(decisions.order_by("-decided_at", "-pk")[:_DECISIONS_SHOWN]),
        table_row_count=TableInTheMaking.objects.filter(model_slug=model_slug)
        .values_list("row_count", flat=True)
        .first(),
    )
