"""The end of a batch: stitch its files, settle its money, say so; one transaction at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import Count, QuerySet, Sum

from billing.domain.rating import charged_tokens
from billing.domain.records import ChargedGroup, FeeCharge, SettlementRequest, TokenCounts
from billing.models import Receipt
from billing.selectors import provider_costs_of_batch
from billing.services.settlement import settle_batch
from ground import clock
from ground.blobs import BlobWriter, WrittenBlob, delete_blob, delete_overtaken, link_blob
from ground.fault_points import FaultPoint, reach
from ground.ids import new_public_id
from ground.leases import Keeper, Lease, LeaseLost, moving_on, unless_lost
from routing.domain.pins import BatchPlan
from routing.models import (
    Batch,
    BatchEnding,
    BatchStatus,
    FilePurpose,
    ProviderJob,
    RowOutcome,
    StoredFile,
    SubLane,
    SubLaneState,
)
from routing.outcome_pages import outcomes_in_row_order
from routing.payloads import open_payload
from routing.result_lines import ResultLines, StitchedLines
from routing.services.closing import close_jobs, next_look
from routing.services.learning import owe_lesson
from routing.services.notices import tell_of
from routing.services.turns import Step, claim_in_turn

_ROWS_PER_FETCH = 2_000


def finish_next_batch() -> bool:
    """Finish the next batch whose rows all have their outcome."""
    lease = claim_in_turn(Step.FINISH, (BatchStatus.IN_PROGRESS, BatchStatus.FINALIZING, BatchStatus.CANCELLING))
    if lease is None:
        return False
    with unless_lost():
        batch = Batch.objects.get(pk=lease.row_id)
        reach(FaultPoint.FINISH_CLAIMED)
        if batch.completed_count + batch.failed_count < batch.row_count:
            if batch.ending != BatchEnding.NONE:
                close_jobs(lease, batch)
            with moving_on(Batch, lease) as row:
                at = clock.now()
                row.due_at = None if row.ending == BatchEnding.NONE else at + next_look(row, at)
                if row.completed_count + row.failed_count == row.row_count:
                    row.due_at = at
            reach(FaultPoint.CLOSE_AFTER_COMMIT)
            return True
        with moving_on(Batch, lease, keep_lease=True) as row:
            if row.status != BatchStatus.CANCELLING:
                row.status = BatchStatus.FINALIZING
            row.finalizing_at = row.finalizing_at or clock.now()
        reach(FaultPoint.FINISH_FINALIZING)
        delete_overtaken(_folder(batch), lease.fence)
        files = _stitch(lease, batch)
        reach(FaultPoint.FINISH_FILES_WRITTEN)
        try:
            _settle(lease, batch, files)
        except LeaseLost:
            for name in files.names:
                delete_blob(name)
            raise
        reach(FaultPoint.FINISH_AFTER_COMMIT)
    return True


def _folder(batch: Batch) -> str:
    return f"batches/{batch.public_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _StitchedFiles:
    """The three files of a batch. ``output`` and ``error`` are None when they would be empty."""

    results: WrittenBlob
    output: WrittenBlob | None
    error: WrittenBlob | None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that are there."""
        return tuple(blob.name for blob in (self.results, self.output, self.error) if blob is not None)


def _stitch(lease: Lease, batch: Batch) -> _StitchedFiles:
    """Write the results, output and error files in one pass, each in the order of the input and in flat memory.

    Up to the first row that failed the output is the results: it is copied then, and not hashed twice. Where no row
    failed the two are one: the output is a second name of the results.
    """
    name = f"{_folder(batch)}/{lease.fence}"
    with ExitStack() as stack:
        results = stack.enter_context(BlobWriter(f"{name}.results.jsonl"))
        parted: tuple[BlobWriter, BlobWriter] | None = None
        for lines in _lines(lease, batch):
            if parted is None and not lines.succeeded:
                output = stack.enter_context(results.copied(f"{name}.output.jsonl"))
                parted = output, stack.enter_context(BlobWriter(f"{name}.error.jsonl"))
            results.write(lines.text)
            reach(FaultPoint.FINISH_HALF_WRITTEN)
            if parted is not None:
                parted[not lines.succeeded].write(lines.text)
        saved = results.save()
        reach(FaultPoint.FINISH_ONE_FILE_WRITTEN)
        if parted is None:
            link_blob(saved.name, f"{name}.output.jsonl")
            return _StitchedFiles(results=saved, output=replace(saved, name=f"{name}.output.jsonl"), error=None)
        output, error = parted
        return _StitchedFiles(results=saved, output=output.save() if output.size_bytes else None, error=error.save())


def _lines(lease: Lease, batch: Batch) -> Iterator[StitchedLines]:
    """Give every row's line in row order, many at a time; each row exactly once or none of them."""
    row_count = 0
    keep = Keeper(lease)
    with ResultLines(batch) as lines:
        for page in outcomes_in_row_order(batch):
            expected = np.arange(row_count, row_count + len(page))
            assert np.array_equal(page.rows, expected), f"a row of {batch.public_id} has no outcome"
            row_count += len(page)
            for piece in lines.of(page):
                keep()
                yield piece
    assert row_count == batch.row_count, f"{batch.public_id} has {row_count} outcomes for {batch.row_count} rows"


def _settle(lease: Lease, batch: Batch, files: _StitchedFiles) -> None:
    """Post the settlement, make the files' rows and end the batch, all or nothing; a second run changes nothing."""
    at = clock.now()
    plan = BatchPlan.from_bytes(batch.plan)
    charged_lanes = _quoted_lanes_with_charged_rows(batch, plan)
    with transaction.atomic():
        # Locked in the engine's one order: sub-lanes, then their batch.
        sub_lanes = list(SubLane.objects.select_for_update().filter(batch=batch).order_by("pk"))
        with moving_on(Batch, lease) as row:
            totals = _charged_by_group(batch)
            receipt = settle_batch(_settlement(batch, plan, totals, charged_lanes, at))
            row.results_file = _file(batch, files.results, "results", at)
            row.output_file = _file(batch, files.output, "output", at)
            row.error_file = _file(batch, files.error, "error", at)
            row.receipt_id = receipt.public_id
            row.charge_micro_usd = receipt.total_micro_usd
            for tokens in (charged.tokens for charged in totals.values()):
                row.input_tokens += (
                    tokens.input_tokens
                    + tokens.cached_input_tokens
                    + tokens.cache_write_5m_tokens
                    + tokens.cache_write_1h_tokens
                )
                row.cached_input_tokens += tokens.cached_input_tokens
                row.output_tokens += tokens.output_tokens
            row.reasoning_tokens = _reasoning_tokens(batch)
            _end(row, at)
            row.due_at = None
            _end_sub_lanes(batch, plan, sub_lanes, receipt)
            tell_of(row, sub_lanes, plan.workflow, at)
            owe_lesson(row, at)
            reach(FaultPoint.FINISH_BEFORE_COMMIT)


def _end(batch: Batch, at: datetime) -> None:
    """Give a batch its last status. Whatever that is, it is settled: every accepted batch has a receipt."""
    if batch.ending == BatchEnding.CANCELLED:
        batch.status, batch.cancelled_at = BatchStatus.CANCELLED, at
    elif batch.ending == BatchEnding.EXPIRED:
        batch.status, batch.expired_at = BatchStatus.EXPIRED, at
    elif not ProviderJob.objects.filter(batch=batch, submitted_at__isnull=False).exists():
        batch.status, batch.failed_at = BatchStatus.FAILED, at
    else:
        batch.status, batch.completed_at = BatchStatus.COMPLETED, at


def _outcome_rows(batch: Batch) -> QuerySet[RowOutcome]:
    return RowOutcome.objects.filter(accepted_at=batch.created_at, batch_id=batch.pk)


def _reasoning_tokens(batch: Batch) -> int:
    charged = _outcome_rows(batch).filter(outcome="succeeded")
    return charged.aggregate(tokens=Sum("reasoning_tokens"))["tokens"] or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Charged:
    """The rows of a model group that are charged: how many, and their tokens."""

    row_count: int
    tokens: TokenCounts


_NOTHING_CHARGED = _Charged(row_count=0, tokens=TokenCounts())


def _charged_by_group(batch: Batch) -> dict[int, _Charged]:
    """Give what is charged by model group."""
    rows = (
        _outcome_rows(batch)
        .filter(outcome="succeeded")
        .values("group_index")
        .annotate(
            total_input=Sum("input_tokens"),
            total_cached=Sum("cached_input_tokens"),
            total_write_5m=Sum("cache_write_5m_tokens"),
            total_write_1h=Sum("cache_write_1h_tokens"),
            total_output=Sum("output_tokens"),
            charged_count=Count("row"),
        )
        .order_by("group_index")
    )
    return {
        row["group_index"]: _Charged(
            row_count=row["charged_count"],
            tokens=TokenCounts(
                input_tokens=int(row["total_input"]),
                cached_input_tokens=int(row["total_cached"]),
                cache_write_5m_tokens=int(row["total_write_5m"]),
                cache_write_1h_tokens=int(row["total_write_1h"]),
                output_tokens=int(row["total_output"]),
            ),
        )
        for row in rows
    }


def _settlement(
    batch: Batch, plan: BatchPlan, totals: dict[int, _Charged], charged_lanes: set[tuple[int, str]], at: datetime
) -> SettlementRequest:
    return SettlementRequest(
        organisation_id=batch.organisation_id,
        batch_public_id=batch.public_id,
        settled_at=at,
        groups=tuple(
            ChargedGroup(
                group_key=group.group_key,
                model_slug=group.model_slug,
                lane_id=group.primary_lane_id,
                charged=charged_tokens(totals.get(group.index, _NOTHING_CHARGED).tokens, group.sell_rates),
                row_count=totals.get(group.index, _NOTHING_CHARGED).row_count,
            )
            for group in plan.groups
        ),
        fees=tuple(
            FeeCharge(
                group_key=group.group_key,
                model_slug=group.model_slug,
                lane_id=lane.lane_id,
                fee_micro_usd=lane.fee_micro_usd,
            )
            for group in plan.groups
            for lane in group.lanes
            if (group.index, lane.lane_id) in charged_lanes
        ),
        ceiling_micro_usd=batch.ceiling_micro_usd,
        quoted_fee_micro_usd=plan.fee_micro_usd,
        estimate_total_micro_usd=batch.total_estimate_micro_usd,
        provider_costs=provider_costs_of_batch(organisation_id=batch.organisation_id, batch_id=batch.pk),
        api_key_id=batch.api_key_id,
    )


def _quoted_lanes_with_charged_rows(batch: Batch, plan: BatchPlan) -> set[tuple[int, str]]:
    """Give (group, lane) of every quoted sub-lane with a charged row among those the quote gave it, wherever it ran."""
    charged_groups = set(
        _outcome_rows(batch).filter(outcome="succeeded").values_list("group_index", flat=True).distinct()
    )
    with open_payload(batch.quote_id) as payload:
        found = set()
        for group in plan.groups:
            if group.index not in charged_groups:
                continue
            for lane in group.lanes:
                rows = payload.rows_of(lane.index)
                if len(group.lanes) == 1 or _any_succeeded(batch, rows.tolist()):
                    found.add((group.index, lane.lane_id))
    return found


def _any_succeeded(batch: Batch, rows: list[int]) -> bool:
    return any(
        _outcome_rows(batch).filter(outcome="succeeded", row__in=rows[start : start + _ROWS_PER_FETCH]).exists()
        for start in range(0, len(rows), _ROWS_PER_FETCH)
    )


def _file(batch: Batch, blob: WrittenBlob | None, kind: str, at: datetime) -> StoredFile | None:
    if blob is None:
        return None
    return StoredFile.objects.create(
        public_id=new_public_id("file-", at),
        organisation_id=batch.organisation_id,
        purpose=FilePurpose.BATCH_OUTPUT,
        filename=f"{batch.public_id}_{kind}.jsonl",
        size_bytes=blob.size_bytes,
        sha256=blob.sha256,
        blob_name=blob.name,
        created_at=at,
        expires_at=at + _kept_for(batch),
    )


def _kept_for(batch: Batch) -> timedelta:
    if batch.output_kept_seconds is None:
        return settings.FILE_LIFETIME
    return timedelta(seconds=batch.output_kept_seconds)


def _end_sub_lanes(batch: Batch, plan: BatchPlan, sub_lanes: list[SubLane], receipt: Receipt) -> None:
    """Give each sub-lane its charge and, where the batch was ended, the state of its rows.

    The charge is what the receipt's lines of its group and lane add up to; beyond the primary, its fee.
    """
    charges: dict[tuple[str, str], int] = {}
    for line in receipt.lines.all():
        key = (line.group_key, line.lane_id)
        charges[key] = charges.get(key, 0) + line.amount_micro_usd
    ended = set(_outcome_rows(batch).values_list("sub_lane_id", "outcome").distinct())
    for sub_lane in sub_lanes:
        key = (plan.groups[sub_lane.group_index].group_key, sub_lane.lane_id)
        sub_lane.charge_micro_usd = charges.get(key, 0)
        for ending in (SubLaneState.EXPIRED, SubLaneState.CANCELLED):
            if batch.ending == ending.value and (sub_lane.pk, ending.value) in ended:
                sub_lane.state = ending
        sub_lane.save(update_fields=["charge_micro_usd", "state"])
