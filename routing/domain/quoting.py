"""The quote path, whole: parse, validate, estimate, score, split, price. Pure: the caller brings catalog and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from billing.domain.money import round_pico_to_micro
from catalog.domain.records import Catalog, Endpoint, Model, Rates
from routing.domain.asks import bodies_of, judge_lanes, say_judgements
from routing.domain.estimate.images import image_rule
from routing.domain.estimate.tables import vocabulary_named
from routing.domain.estimate.tokens import ModelRules, RowFacts, RowTokens, estimate_rows
from routing.domain.estimate.weights import prepare_texts
from routing.domain.explaining import explain
from routing.domain.jsonl import exact, fast
from routing.domain.jsonl.faults import RowFault
from routing.domain.jsonl.table import FileLimits, RowTable
from routing.domain.placement import RowPlacement
from routing.domain.plan import (
    GroupExplanation,
    QuotedCandidate,
    QuotedGroup,
    QuotedLane,
    QuoteEstimate,
    QuotePlan,
)
from routing.domain.pricing import price_group
from routing.domain.refusal import refuse_group
from routing.domain.resolve import ModelRefused, ResolvedModel, resolve_model
from routing.domain.scoring import (
    Candidate,
    GroupDemand,
    Ranking,
    WorkflowProfile,
    rank_lanes,
)
from routing.domain.splitting import Share, split_group

Timer = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteSettings:
    """What the house sets: fee per quoted sub-lane, margin on the hold, file limits, how full a lane is made."""

    fee_micro_usd: int = 20_000
    margin_basis_points: int = 1_000
    fill_percent: int = 90
    limits: FileLimits = field(default_factory=FileLimits)


@dataclass(slots=True)
class _Stopwatch:
    """Nanoseconds per step, by an injected timer."""

    timer: Timer
    steps: dict[str, int] = field(default_factory=dict)
    started: int = 0

    def lap(self, step: str) -> None:
        now = self.timer()
        self.steps[step] = self.steps.get(step, 0) + now - self.started
        self.started = now


def make_quote_plan(
    body: bytes,
    catalog: Catalog,
    workflow: WorkflowProfile,
    settings: QuoteSettings,
    at: datetime,
    *,
    timer: Timer = lambda: 0,
) -> QuotePlan:
    """Price a JSONL file: groups, lanes, figures, reasons, and where each row goes.

    Args:
        body: The file's bytes as they came.
        catalog: One consistent catalog with its SLA snapshot.
        workflow: The customer's penalties and fan-out.
        settings: Fee, margin and limits.
        at: The instant by which models count as retired (aware, UTC).
        timer: Gives nanoseconds for ``timings_ns``; without one all steps are 0.

    Raises:
        RowErrors: Something is wrong with rows; every fault of the file is in it.
        InvalidRequest: ``lane_minimum`` or ``lane_unavailable`` when a group has no lane that can take it.
    """
    watch = _Stopwatch(timer=timer, started=timer())
    table, resolved = _read_file(body, catalog, settings.limits, at, watch)
    group_indexes, models = _group_rows(table, resolved)
    watch.lap("resolve")
    columns = _Columns(row_count=len(table), group_indexes=group_indexes)
    quoted = tuple(_quote_groups(body, table, models, catalog, workflow, settings, columns, watch))
    plan = QuotePlan(
        endpoint=table.endpoint,
        workflow=workflow,
        fee_micro_usd=settings.fee_micro_usd,
        margin_basis_points=settings.margin_basis_points,
        quoted_at=at,
        catalog_version=catalog.version,
        sla_version=catalog.sla.version,
        sla_snapshot_at=catalog.sla.taken_at,
        row_count=len(table),
        estimate=_total(quoted),
        groups=quoted,
        placement=columns.placement(table),
        timings_ns=watch.steps,
    )
    watch.lap("price")
    return plan


@dataclass(slots=True, kw_only=True)
class _Columns:
    """The per-row results, filled group by group."""

    row_count: int
    group_indexes: npt.NDArray[np.int32]
    input_tokens: npt.NDArray[np.int32] = field(init=False)
    lane_indexes: npt.NDArray[np.int32] = field(init=False)
    lane_count: int = 0

    def __post_init__(self) -> None:
        self.input_tokens = np.zeros(self.row_count, dtype=np.int32)
        self.lane_indexes = np.zeros(self.row_count, dtype=np.int32)

    def placement(self, table: RowTable) -> RowPlacement:
        return RowPlacement(
            offsets=table.offsets,
            lengths=table.lengths.astype(np.int32),
            input_tokens=self.input_tokens,
            group_indexes=self.group_indexes,
            lane_indexes=self.lane_indexes,
        )


def _read_file(
    body: bytes, catalog: Catalog, limits: FileLimits, at: datetime, watch: _Stopwatch
) -> tuple[RowTable, dict[str, ResolvedModel]]:
    """Read by the fast path; at the first sign of trouble the exact path says all that is wrong."""
    try:
        table = fast.read_rows(body, limits)
        watch.lap("parse")
        return table, {name: resolve_model(catalog, name, table.endpoint, at) for name in table.model_names}
    except (fast.Trouble, ModelRefused):
        exact.report_errors(body, limits, _model_check(catalog, at))
    raise AssertionError("the fast path refused a file that the exact path accepts")


def _model_check(catalog: Catalog, at: datetime) -> exact.ModelCheck:
    """Judge model names for the exact path; only as many refusals as can be listed look for near matches."""
    hints_left = exact.ERRORS_LISTED

    def check(name: str, endpoint: Endpoint) -> RowFault | None:
        nonlocal hints_left
        try:
            resolve_model(catalog, name, endpoint, at, with_hints=hints_left > 0)
        except ModelRefused as refused:
            hints_left -= 1
            return RowFault(refused.code, refused.message, refused.param)
        return None

    return check


def _group_rows(
    table: RowTable, resolved: dict[str, ResolvedModel]
) -> tuple[npt.NDArray[np.int32], list[ResolvedModel]]:
    """Give each row's group index and the groups' models, in order of first appearance of their snapshot."""
    models: dict[str, ResolvedModel] = {}
    for found in resolved.values():
        models.setdefault(found.model_snapshot, found)
    order = {snapshot: index for index, snapshot in enumerate(models)}
    index_of = np.array([order[resolved[name].model_snapshot] for name in table.model_names], dtype=np.int32)
    return index_of[table.model_indexes], list(models.values())


def _quote_groups(
    body: bytes,
    table: RowTable,
    models: list[ResolvedModel],
    catalog: Catalog,
    workflow: WorkflowProfile,
    settings: QuoteSettings,
    columns: _Columns,
    watch: _Stopwatch,
) -> Iterator[QuotedGroup]:
    order = np.argsort(columns.group_indexes, kind="stable")
    texts = table.texts
    if len(models) < len(table.model_names):
        # two names of one model: its rows do not lie side by side
        texts = prepare_texts(table.literals, order)
    firsts = np.searchsorted(columns.group_indexes[order], np.arange(len(models) + 1)).tolist()
    for index, resolved in enumerate(models):
        rows = order[firsts[index] : firsts[index + 1]]
        tokens = estimate_rows(texts, firsts[index], _facts(table, rows), _rules(resolved.model, table.endpoint))
        columns.input_tokens[rows] = tokens.input_tokens
        watch.lap("estimate")
        lanes = [lane for lane in resolved.model.lanes if lane.model_snapshot == resolved.model_snapshot]
        demand = replace(_demand(tokens), judgements=judge_lanes(lanes, partial(bodies_of, body, table, rows)))
        ranking = rank_lanes(lanes, catalog.sla, workflow, demand, settings.fee_micro_usd)
        if not ranking.eligible:
            refuse_group(resolved, workflow, ranking, demand, table, rows)
        watch.lap("score")
        shares = split_group(
            ranking.eligible, tokens.input_tokens, fan_out=workflow.fan_out, fill_percent=settings.fill_percent
        )
        first_lane = columns.lane_count
        for offset, share in enumerate(shares):
            columns.lane_indexes[rows[share.start : share.stop]] = first_lane + offset
        columns.lane_count += len(shares)
        watch.lap("split")
        quoted = _quote_group(index, first_lane, resolved, tokens, shares, ranking, settings)
        yield say_judgements(quoted, shares, demand, partial(_share_bodies, body, table, rows))
        watch.lap("price")


def _facts(table: RowTable, rows: npt.NDArray[np.int64]) -> RowFacts:
    positions = {row: position for position, row in enumerate(rows.tolist())} if table.extras else {}
    return RowFacts(
        message_counts=table.message_counts[rows],
        limits=table.limits[rows],
        choices=table.choices[rows],
        extras={positions[row]: extras for row, extras in table.extras.items() if row in positions},
    )


def _rules(model: Model, endpoint: Endpoint) -> ModelRules:
    return ModelRules(
        vocabulary=vocabulary_named(model.vocabulary),
        image_rule=image_rule(model.slug),
        max_output_tokens=model.max_output_tokens,
        makes_output=endpoint is not Endpoint.EMBEDDINGS,
    )


def _demand(tokens: RowTokens) -> GroupDemand:
    return GroupDemand(
        row_count=len(tokens.input_tokens),
        input_tokens=int(tokens.input_tokens.sum()),
        output_tokens=int(tokens.output_tokens.sum()),
    )


def _share_bodies(body: bytes, table: RowTable, rows: npt.NDArray[np.int64], share: Share) -> Iterator[dict[str, Raw]]:
    return bodies_of(body, table, rows[share.start : share.stop])


def _quote_group(
    group_index: int,
    first_lane_index: int,
    resolved: ResolvedModel,
    tokens: RowTokens,
    shares: tuple[Share, ...],
    ranking: Ranking,
    settings: QuoteSettings,
) -> QuotedGroup:
    primary = ranking.eligible[0]
    card = primary.lane.rate_card
    assert card is not None, "an eligible lane has a rate card"
    charge = price_group(
        tokens,
        card.sell,
        card.list,
        vocabulary_is_public=resolved.model.vocabulary_is_public,
        margin_basis_points=settings.margin_basis_points,
    )
    lanes: list[QuotedLane] = []
    for offset, share in enumerate(shares):
        lanes.append(_quote_lane(group_index, first_lane_index + offset, share, tokens, card.sell, settings))
    rest_micro_usd = charge.usage_charge_micro_usd - sum(lane.usage_charge_micro_usd for lane in lanes[1:])
    lanes[0] = replace(lanes[0], usage_charge_micro_usd=rest_micro_usd)
    return QuotedGroup(
        group_index=group_index,
        model_slug=resolved.model.slug,
        model_snapshot=resolved.model_snapshot,
        primary_lane_id=primary.lane.lane_id,
        rate_version_id=card.version_id,
        sell=card.sell,
        row_count=len(tokens.input_tokens),
        charge=charge,
        lanes=tuple(lanes),
        explanation=_explanation(resolved, shares, ranking, settings),
    )


def _quote_lane(
    group_index: int, lane_index: int, share: Share, tokens: RowTokens, sell: Rates, settings: QuoteSettings
) -> QuotedLane:
    lane, card = share.candidate.lane, share.candidate.lane.rate_card
    assert card is not None, "an eligible lane has a rate card"
    input_tokens = int(tokens.input_tokens[share.start : share.stop].sum())
    output_tokens = int(tokens.output_tokens[share.start : share.stop].sum())
    usage_micro_usd = round_pico_to_micro(input_tokens * sell.input_rate_micro_usd_per_mtok) + round_pico_to_micro(
        output_tokens * sell.output_rate_micro_usd_per_mtok
    )
    return QuotedLane(
        lane_index=lane_index,
        group_index=group_index,
        lane_id=lane.lane_id,
        model_slug=lane.model_slug,
        provider=lane.provider,
        region=lane.region,
        model_id=lane.model_id,
        model_snapshot=lane.model_snapshot,
        row_count=share.stop - share.start,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        sell=sell,
        list=card.list,
        usage_charge_micro_usd=usage_micro_usd,
        fee_micro_usd=settings.fee_micro_usd,
        health=share.candidate.health,
        score_micro_usd=share.candidate.score_micro_usd,
    )


def _explanation(
    resolved: ResolvedModel, shares: tuple[Share, ...], ranking: Ranking, settings: QuoteSettings
) -> GroupExplanation:
    return GroupExplanation(
        model_slug=resolved.model.slug,
        chosen_lane_ids=tuple(share.candidate.lane.lane_id for share in shares),
        runner_up_lane_id=ranking.runner_up.lane.lane_id if ranking.runner_up else None,
        margin_micro_usd=ranking.margin_micro_usd,
        candidates=tuple(map(_candidate, (*ranking.eligible, *ranking.rejected))),
        text=explain(resolved.model.slug, ranking, shares, settings.fill_percent),
    )


def _candidate(candidate: Candidate) -> QuotedCandidate:
    return QuotedCandidate(
        lane_id=candidate.lane.lane_id,
        eligible=candidate.eligible,
        reason=candidate.reason,
        reason_text=candidate.reason_text,
        constraint=candidate.constraint,
        sell=candidate.lane.rate_card.sell if candidate.lane.rate_card else None,
        health=candidate.health,
        charge_micro_usd=candidate.charge_micro_usd,
        latency_penalty_micro_usd=candidate.latency_penalty_micro_usd,
        error_penalty_micro_usd=candidate.error_penalty_micro_usd,
        score_micro_usd=candidate.score_micro_usd,
    )


def _total(groups: tuple[QuotedGroup, ...]) -> QuoteEstimate:
    """Add the groups up; fees are one per quoted lane and stand in every total."""
    charges = [group.charge for group in groups]
    fee_micro_usd = sum(lane.fee_micro_usd for group in groups for lane in group.lanes)
    usage_micro_usd = sum(charge.usage_charge_micro_usd for charge in charges)
    return QuoteEstimate(
        input_tokens=sum(charge.input_tokens for charge in charges),
        output_tokens=sum(charge.output_tokens for charge in charges),
        usage_charge_micro_usd=usage_micro_usd,
        fee_micro_usd=fee_micro_usd,
        total_micro_usd=usage_micro_usd + fee_micro_usd,
        low_micro_usd=sum(charge.low_micro_usd for charge in charges) + fee_micro_usd,
        high_micro_usd=sum(charge.high_micro_usd for charge in charges) + fee_micro_usd,
        ceiling_micro_usd=sum(charge.ceiling_micro_usd for charge in charges) + fee_micro_usd,
        reservation_micro_usd=sum(charge.reservation_micro_usd for charge in charges) + fee_micro_usd,
        sync_charge_micro_usd=sum(charge.sync_charge_micro_usd for charge in charges),
    )
