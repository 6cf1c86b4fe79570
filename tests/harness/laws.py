"""The global laws: what holds of every batch that has ended, whatever happened on its way."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
from django.core.files.storage import default_storage

from billing.domain.money import round_pico_to_micro
from billing.domain.records import HoldState, LineKind
from billing.models import AccountKind, AttemptFact, Hold, LedgerLeg, LedgerTransaction, Receipt
from billing.selectors import prove_ledger
from ground.blobs import read_blob
from routing.domain.pins import BatchPlan
from routing.domain.row_lists import unpack_rows
from routing.models import Batch, BatchStatus, JobState, ProviderJob, RowOutcome, StoredFile, SubLane
from routing.payloads import open_payload
from webhooks.models import Event

ENDED = {BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.EXPIRED, BatchStatus.CANCELLED}


def assert_laws(public_id: str) -> None:
    """Assert every law of one ended batch."""
    batch = Batch.objects.get(public_id=public_id)
    assert batch.status in ENDED, batch.status
    _every_row_is_in_the_results_once_and_in_order(batch)
    _every_row_has_one_outcome(batch)
    _every_row_is_on_a_lane_once_at_most(batch)
    _attempts_are_numbered_without_gaps(batch)
    _every_collected_attempt_is_recorded(batch)
    _there_is_one_receipt_and_one_settlement(batch)
    _the_charge_is_the_sum_of_the_rows(batch)
    _the_house_paid_what_the_attempts_cost(batch)
    _the_lanes_add_up(batch)
    _nothing_is_left_due(batch)
    _no_blob_is_without_a_row(batch)
    proof = prove_ledger()
    assert proof.holds, [check for check in proof.checks if check.violation_count]


def result_lines(batch: Batch) -> list[dict[str, Any]]:
    """Give the lines of a batch's results, read."""
    assert batch.results_file is not None
    return lines_of(batch.results_file)


def lines_of(stored: StoredFile | None) -> list[dict[str, Any]]:
    """Give the lines of a file, read; none where there is no file."""
    return [] if stored is None else [json.loads(line) for line in read_blob(stored.blob_name).splitlines()]


def outcomes_of(batch: Batch) -> list[RowOutcome]:
    """Give a batch's outcomes in row order."""
    return list(RowOutcome.objects.filter(accepted_at=batch.created_at, batch_id=batch.pk).order_by("row"))


def event_of(batch: Batch) -> Event:
    """Give the one event that tells of a batch."""
    events = Event.objects.filter(organisation=batch.organisation)
    (event,) = [each for each in events if batch.public_id.encode() in bytes(each.payload)]
    return event


def _every_row_is_in_the_results_once_and_in_order(batch: Batch) -> None:
    with open_payload(batch.quote_id) as payload:
        custom_ids = [json.loads(text) for text in payload.custom_ids_json(np.arange(batch.row_count))]
    lines = result_lines(batch)
    assert [line["custom_id"] for line in lines] == custom_ids
    succeeded = [line for line in lines if line["error"] is None]
    assert lines_of(batch.output_file) == succeeded
    assert lines_of(batch.error_file) == [line for line in lines if line["error"] is not None]
    assert (batch.completed_count, batch.failed_count) == (len(succeeded), len(lines) - len(succeeded))


def _every_row_has_one_outcome(batch: Batch) -> None:
    outcomes = outcomes_of(batch)
    assert [outcome.row for outcome in outcomes] == list(range(batch.row_count))
    lines = result_lines(batch)
    assert [outcome.outcome == "succeeded" for outcome in outcomes] == [line["error"] is None for line in lines]
    charges = [line["lanehouse"]["charge_pico_usd"] for line in lines]
    assert [outcome.charge_pico_usd for outcome in outcomes] == charges


def _every_row_is_on_a_lane_once_at_most(batch: Batch) -> None:
    jobs = ProviderJob.objects.filter(batch=batch).exclude(state=JobState.ABANDONED)
    placed = Counter((job.sub_lane_id, row) for job in jobs for row in unpack_rows(job.rows).tolist())
    assert set(placed.values()) == {1}
    assert {row for _, row in placed} == set(range(batch.row_count))
    assert {job.state for job in jobs} == {JobState.COLLECTED}
    rows_of = {job.pk: set(unpack_rows(job.rows).tolist()) for job in jobs}
    for outcome in outcomes_of(batch):
        assert outcome.job_id is not None
        assert outcome.row in rows_of[outcome.job_id]


def _attempts_are_numbered_without_gaps(batch: Batch) -> None:
    numbers: dict[int, list[int]] = {}
    for fact in AttemptFact.objects.filter(batch_id=batch.pk).order_by("attempt_number"):
        numbers.setdefault(fact.row, []).append(fact.attempt_number)
    for outcome in outcomes_of(batch):
        assert numbers[outcome.row] == list(range(1, outcome.attempt_number + 1))
        assert outcome.re_dispatch_count == outcome.attempt_number - 1


def _every_collected_attempt_is_recorded(batch: Batch) -> None:
    expected = Counter(
        (job.pk, row)
        for job in ProviderJob.objects.filter(batch=batch, state=JobState.COLLECTED)
        for row in unpack_rows(job.rows).tolist()
    )
    facts = list(AttemptFact.objects.filter(batch_id=batch.pk))
    assert Counter((fact.job_id, fact.row) for fact in facts) == expected
    found = {(fact.job_id, fact.row): (fact.outcome, fact.code) for fact in facts}
    for outcome in outcomes_of(batch):
        assert outcome.job_id is not None
        assert found[outcome.job_id, outcome.row] == (outcome.outcome, outcome.code)


def _there_is_one_receipt_and_one_settlement(batch: Batch) -> None:
    receipt = Receipt.objects.get(batch_public_id=batch.public_id)
    assert (batch.receipt_id, batch.charge_micro_usd) == (receipt.public_id, receipt.total_micro_usd)
    assert LedgerTransaction.objects.filter(business_key__contains=batch.public_id).count() == 1
    holds = Hold.objects.filter(batch_public_id=batch.public_id)
    assert holds
    assert not holds.filter(state=HoldState.OPEN).exists()


def _the_charge_is_the_sum_of_the_rows(batch: Batch) -> None:
    receipt = Receipt.objects.get(batch_public_id=batch.public_id)
    usage = receipt.lines.exclude(kind__in=[LineKind.CONTROL_PLANE_FEE, LineKind.CEILING_CREDIT])
    charged = sum(outcome.charge_pico_usd for outcome in outcomes_of(batch))
    assert sum(int(line.exact_pico_usd) for line in usage) == charged
    assert sum(line.amount_micro_usd for line in receipt.lines.all()) == receipt.total_micro_usd


def _the_house_paid_what_the_attempts_cost(batch: Batch) -> None:
    costs: Counter[str] = Counter()
    for fact in AttemptFact.objects.filter(batch_id=batch.pk):
        costs[fact.provider_account] += fact.cost_pico_usd
    legs = LedgerLeg.objects.filter(transaction__receipt__batch_public_id=batch.public_id)
    paid = sum(legs.filter(account__kind=AccountKind.COST_OF_SERVICE).values_list("amount_micro_usd", flat=True))
    owed = sum(legs.filter(account__kind=AccountKind.PROVIDER_PAYABLE).values_list("amount_micro_usd", flat=True))
    assert owed == -paid == sum(round_pico_to_micro(cost) for cost in costs.values())


def _the_lanes_add_up(batch: Batch) -> None:
    sub_lanes = SubLane.objects.filter(batch=batch)
    assert sum(sub_lane.row_count for sub_lane in sub_lanes) == batch.row_count
    assert sum(sub_lane.completed_count for sub_lane in sub_lanes) == batch.completed_count
    assert sum(sub_lane.failed_count for sub_lane in sub_lanes) == batch.failed_count
    assert sum(sub_lane.charge_micro_usd or 0 for sub_lane in sub_lanes) == batch.charge_micro_usd
    plan = BatchPlan.from_bytes(batch.plan)
    quoted = {(group.index, lane.lane_id): lane.row_count for group in plan.groups for lane in group.lanes}
    for sub_lane in sub_lanes:
        arrived_count = quoted.get((sub_lane.group_index, sub_lane.lane_id), 0) + sub_lane.re_dispatched_count
        assert sub_lane.row_count == arrived_count - sub_lane.moved_out_count
        assert sub_lane.row_count == sub_lane.completed_count + sub_lane.failed_count
        assert sub_lane.state in {"completed", "failed", "expired", "cancelled"}
        assert sub_lane.ended_at is not None
        assert sub_lane.reason == ""
        assert sub_lane.reported_count == sub_lane.row_count


def _nothing_is_left_due(batch: Batch) -> None:
    for row in (batch, *SubLane.objects.filter(batch=batch), *ProviderJob.objects.filter(batch=batch)):
        assert row.due_at is None, row
        assert row.lease_until is None, row


def _no_blob_is_without_a_row(batch: Batch) -> None:
    named = {job.results_blob for job in ProviderJob.objects.filter(batch=batch)}
    for token in ProviderJob.objects.filter(batch=batch).values_list("token", flat=True):
        assert {f"results/{token}/{name}" for name in _listed(f"results/{token}")} <= named
    files = [stored for stored in (batch.results_file, batch.output_file, batch.error_file) if stored is not None]
    folder = f"batches/{batch.public_id}"
    assert {f"{folder}/{name}" for name in _listed(folder)} == {stored.blob_name for stored in files}


def _listed(folder: str) -> list[str]:
    try:
        return list(default_storage.listdir(folder)[1])
    except FileNotFoundError:
        return []
