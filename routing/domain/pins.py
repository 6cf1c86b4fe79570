"""What an accepted quote binds: groups, lanes, rates, fees, and the limits jobs are cut to. JSON beside the batch.

It is written once, when the quote is made; later changes of rates, health or limits never touch it.
"""

from __future__ import annotations

from typing import Self

import msgspec

from catalog.domain.records import Catalog, Lane, Model, Rates
from routing.domain.plan import QuotedGroup, QuotedLane, QuotePlan
from routing.domain.scoring import WorkflowProfile


class LanePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One lane as it was pinned. ``provider_rates`` are what the provider bills, for the attempts' cost.

    ``index`` is the lane's in the quote, by which rows are placed; -1 for a lane that joined later.
    """

    index: int
    lane_id: str
    provider: str
    region: str
    model_id: str
    row_count: int
    input_tokens: int
    fee_micro_usd: int
    provider_rates: Rates
    enqueued_tokens_limit: int
    maximum_rows_per_job: int
    maximum_bytes_per_job: int
    # What a row without a limit of its own may put out, for providers that must be told one.
    max_output_tokens: int
    minimum_rows: int = 1

    def to_bytes(self) -> bytes:
        """Give the stored form."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes | memoryview) -> Self:
        """Read the stored form."""
        return msgspec.json.decode(bytes(stored), type=cls)


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One model group. Its rows are charged at ``sell_rates`` whichever lane runs them."""

    index: int
    group_key: str
    model_slug: str
    model_snapshot: str
    primary_lane_id: str
    rate_version_id: int
    sell_rates: Rates
    reservation_micro_usd: int
    lanes: tuple[LanePlan, ...]
    # Estimated; quotes from before it was kept have 0.
    output_tokens: int = 0

    @property
    def row_count(self) -> int:
        """Rows of the group."""
        return sum(lane.row_count for lane in self.lanes)

    def quoted_lane(self, lane_id: str) -> LanePlan | None:
        """Give a lane by its id, or None when the quote did not name it."""
        return next((lane for lane in self.lanes if lane.lane_id == lane_id), None)


class BatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the engine needs of a quote. Reservations of the groups add up to the quote's, fees included.

    ``workflow`` is the customer's as it was when the quote was made; ``learned_version`` names what settled rows had
    taught by then.
    """

    total_micro_usd: int
    ceiling_micro_usd: int
    fee_micro_usd: int
    groups: tuple[GroupPlan, ...]
    workflow: WorkflowProfile = WorkflowProfile()
    learned_version: int = 0

    @classmethod
    def unpriced(cls, workflow: WorkflowProfile) -> Self:
        """Give what is known of a file that was not read yet: by what it will be judged."""
        return cls(total_micro_usd=0, ceiling_micro_usd=0, fee_micro_usd=0, groups=(), workflow=workflow)

    def to_bytes(self) -> bytes:
        """Give the stored form."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes | memoryview) -> Self:
        """Read the stored form."""
        return msgspec.json.decode(bytes(stored), type=cls)


def pin(plan: QuotePlan, catalog: Catalog) -> BatchPlan:
    """Give what a quote binds; ``catalog`` is the one it was made from."""
    return BatchPlan(
        total_micro_usd=plan.estimate.total_micro_usd,
        ceiling_micro_usd=plan.estimate.ceiling_micro_usd,
        fee_micro_usd=plan.estimate.fee_micro_usd,
        groups=tuple(_group(group, catalog) for group in plan.groups),
        workflow=plan.workflow,
        learned_version=plan.learned_version,
    )


def _group(group: QuotedGroup, catalog: Catalog) -> GroupPlan:
    fee_micro_usd = sum(lane.fee_micro_usd for lane in group.lanes)
    return GroupPlan(
        index=group.group_index,
        group_key=group.model_snapshot,
        model_slug=group.model_slug,
        model_snapshot=group.model_snapshot,
        primary_lane_id=group.primary_lane_id,
        rate_version_id=group.rate_version_id,
        sell_rates=group.sell,
        reservation_micro_usd=group.charge.reservation_micro_usd + fee_micro_usd,
        lanes=tuple(_lane(lane, catalog) for lane in group.lanes),
        output_tokens=group.charge.output_tokens,
    )


def _lane(quoted: QuotedLane, catalog: Catalog) -> LanePlan:
    return msgspec.structs.replace(
        pin_lane(catalog.lanes[quoted.model_slug, quoted.lane_id], catalog.models[quoted.model_slug]),
        index=quoted.lane_index,
        row_count=quoted.row_count,
        input_tokens=quoted.input_tokens,
        fee_micro_usd=quoted.fee_micro_usd,
    )


def pin_lane(lane: Lane, model: Model) -> LanePlan:
    """Give what is pinned of a lane that joins a batch later: no rows by the quote, and never a fee."""
    assert lane.rate_card is not None, "a lane that takes rows has a rate card"
    return LanePlan(
        index=-1,
        lane_id=lane.lane_id,
        provider=lane.provider,
        region=lane.region,
        model_id=lane.model_id,
        row_count=0,
        input_tokens=0,
        fee_micro_usd=0,
        provider_rates=lane.rate_card.provider_batch,
        enqueued_tokens_limit=lane.enqueued_tokens_limit,
        maximum_rows_per_job=lane.maximum_rows_per_job,
        maximum_bytes_per_job=lane.maximum_bytes_per_job,
        max_output_tokens=model.max_output_tokens,
        minimum_rows=lane.minimum_rows,
    )
