"""From rows with their tokens to a priced quote: rank, split, price, explain. The same for a body and a long file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from billing.domain.money import round_pico_to_micro
from catalog.domain.records import Catalog, Endpoint, Rates
from routing.domain.asks import judge_lanes, say_judgements
from routing.domain.estimate.tokens import RowTokens
from routing.domain.explaining import explain
from routing.domain.jsonl.table import FileLimits
from routing.domain.learning.records import NOTHING_LEARNED, Learned, ModelRatios
from routing.domain.parameters.needs import Alike
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
from routing.domain.refusal import GroupRefusal, refusal_of, refuse
from routing.domain.resolve import ResolvedModel
from routing.domain.scoring import Candidate, GroupDemand, Ranking, WorkflowProfile, rank_lanes
from routing.domain.splitting import Share, split_group

Timer = Callable[[], int]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteSettings:
    """What the house sets: fee per quoted sub-lane, margin on the hold, file limits, how full a lane is made."""

    fee_micro_usd: int = 20_000
    margin_basis_points: int = 1_000
    fill_percent: int = 90
    limits: FileLimits = field(default_factory=FileLimits)


@dataclass(slots=True)
class Stopwatch:
    """Nanoseconds per step, by an injected timer."""

    timer: Timer
    steps: dict[str, int] = field(default_factory=dict)
    started: int = 0

    def lap(self, step: str) -> None:
        """End a step: what passed since the last one ended is its own."""
        now = self.timer()
        self.steps[step] = self.steps.get(step, 0) + now - self.started
        self.started = now


class RowPlace(NamedTuple):
    """What a refusal names a row by."""

    line: int
    custom_id: str


class FileRows(Protocol):
    """The rows of a file that was read, from 0 and in file order; all that pricing asks of them."""

    @property
    def endpoint(self) -> Endpoint:
        """Where they go."""

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the line of each row begins in the file."""

    @property
    def lengths(self) -> npt.NDArray[np.int64] | npt.NDArray[np.int32]:
        """Bytes of each row's line, without its end."""

    def tokens_of(self, resolved: ResolvedModel, first: int, rows: Rows) -> RowTokens:
        """Give the tokens of a group's rows; ``first`` is how many rows the groups before it have together."""

    def asks_of(self, rows: Rows) -> Iterator[Alike]:
        """Give what ascending rows ask by, by their position among them."""

    def place_of(self, row: int) -> RowPlace:
        """Give where a row stands and what its customer calls it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowGroups:
    """Rows by model group: each row's group as an index, and ``order``, in which a group's rows lie side by side."""

    models: tuple[ResolvedModel, ...]
    indexes: npt.NDArray[np.int32]
    order: Rows
    firsts: tuple[int, ...]

    @classmethod
    def of(cls, models: tuple[ResolvedModel, ...], indexes: npt.NDArray[np.int32]) -> Self:
        """Sort rows by their group."""
        order = np.argsort(indexes, kind="stable")
        counts = np.bincount(indexes, minlength=len(models))
        return cls(models=models, indexes=indexes, order=order, firsts=(0, *np.cumsum(counts).tolist()))

    def rows_of(self, index: int) -> Rows:
        """Give a group's rows, ascending."""
        return self.order[self.firsts[index] : self.firsts[index + 1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """By what a file is priced: one consistent catalog, the customer's workflow, the house's settings, the instant.

    ``learned`` is what settled rows taught.
    """

    catalog: Catalog
    workflow: WorkflowProfile
    settings: QuoteSettings
    at: datetime
    learned: Learned = NOTHING_LEARNED


def price_rows(file: FileRows, groups: RowGroups, pricing: Pricing, watch: Stopwatch) -> QuotePlan:
    """Give the whole quote of rows that were read and resolved.

    Raises:
        RowErrors: No lane can carry a row.
        InvalidRequest: ``lane_minimum`` or ``lane_unavailable`` when a group has no lane that can take it.
    """
    row_count = len(groups.indexes)
    columns = _Columns(
        input_tokens=np.zeros(row_count, dtype=np.int32), lane_indexes=np.zeros(row_count, dtype=np.int32)
    )
    quoted = tuple(_quote_groups(file, groups, pricing, columns, watch))
    catalog, settings = pricing.catalog, pricing.settings
    plan = QuotePlan(
        endpoint=file.endpoint,
        workflow=pricing.workflow,
        fee_micro_usd=settings.fee_micro_usd,
        margin_basis_points=settings.margin_basis_points,
        quoted_at=pricing.at,
        catalog_version=catalog.version,
        sla_version=catalog.sla.version,
        learned_version=pricing.learned.version,
        sla_snapshot_at=catalog.sla.taken_at,
        row_count=row_count,
        estimate=_total(quoted),
        groups=quoted,
        placement=RowPlacement(
            offsets=file.offsets,
            lengths=file.lengths.astype(np.int32, copy=False),
            input_tokens=columns.input_tokens,
            group_indexes=groups.indexes,
            lane_indexes=columns.lane_indexes,
        ),
        timings_ns=watch.steps,
    )
    watch.lap("price")
    return plan


@dataclass(slots=True, kw_only=True)
class _Columns:
    """The per-row results, filled group by group."""

    input_tokens: npt.NDArray[np.int32]
    lane_indexes: npt.NDArray[np.int32]
    lane_count: int = 0


def _quote_groups(
    file: FileRows, groups: RowGroups, pricing: Pricing, columns: _Columns, watch: Stopwatch
) -> Iterator[QuotedGroup]:
    workflow, settings = pricing.workflow, pricing.settings
    refusals: list[GroupRefusal] = []
    for index, resolved in enumerate(groups.models):
        rows = groups.rows_of(index)
        tokens = file.tokens_of(resolved, groups.firsts[index], rows)
        columns.input_tokens[rows] = tokens.input_tokens
        watch.lap("estimate")
        lanes = [lane for lane in resolved.model.lanes if lane.model_snapshot == resolved.model_snapshot]
        demand = replace(_demand(tokens), judgements=judge_lanes(lanes, partial(file.asks_of, rows)))
        ranking = rank_lanes(lanes, pricing.catalog.sla, workflow, demand, settings.fee_micro_usd)
        if not ranking.eligible:
            refusals.append(refusal_of(resolved, workflow, ranking, demand, partial(_place_in, file, rows)))
        if refusals:
            # Nothing is offered any more: the other groups are only judged.
            continue
        watch.lap("score")
        shares = split_group(
            ranking.eligible, tokens.input_tokens, fan_out=workflow.fan_out, fill_percent=settings.fill_percent
        )
        first_lane = columns.lane_count
        for offset, share in enumerate(shares):
            columns.lane_indexes[rows[share.start : share.stop]] = first_lane + offset
        columns.lane_count += len(shares)
        watch.lap("split")
        known = pricing.learned.of(resolved.model.slug)
        quoted = _quote_group(index, first_lane, resolved, tokens, shares, ranking, settings, known)
        yield say_judgements(quoted, shares, demand, partial(_share_asks, file, rows))
        watch.lap("price")
    if refusals:
        refuse(refusals)


def _place_in(file: FileRows, rows: Rows, position: int) -> tuple[int, int, str]:
    row = int(rows[position])
    return row, *file.place_of(row)


def _share_asks(file: FileRows, rows: Rows, share: Share) -> Iterator[Alike]:
    return file.asks_of(rows[share.start : share.stop])


def _demand(tokens: RowTokens) -> GroupDemand:
    return GroupDemand(
        row_count=len(tokens.input_tokens),
        input_tokens=int(tokens.input_tokens.sum()),
        output_tokens=int(tokens.output_tokens.sum()),
    )


def _quote_group(
    group_index: int,
    first_lane_index: int,
    resolved: ResolvedModel,
    tokens: RowTokens,
    shares: tuple[Share, ...],
    ranking: Ranking,
    settings: QuoteSettings,
    known: ModelRatios,
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
        known=known,
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
