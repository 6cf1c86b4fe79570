"""What a page of a batch says: the words, rows and notices, put together from records that selectors gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from billing.domain.money import round_pico_to_micro
from ground.visible import visible
from routing.domain.pins import BatchPlan
from routing.models import Batch, BatchStatus, StoredFile, SubLane
from routing.selectors import QuoteTerms
from routing.views.polling import reported_count

# What a cell says of a reason, and what a notice adds.
_REASONS = {
    "enqueued_tokens_limit": (
        "Lane is full",
        "Its provider takes no more tokens now. It starts as soon as there is room.",
    ),
    "lane_out_of_rotation": (
        "Lane is out of rotation",
        "It starts as soon as this lane comes back, or another one with the same model can take its rows.",
    ),
    "submit_is_unclear": (
        "Sending is unclear",
        "The provider did not answer clearly, and nothing is sent twice. Operators are looking into it.",
    ),
}
_WIDTH = 1_000
_SEEN_WIDTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A batch that has completed, but not every request did."""

    tone: str
    word: str


def batch_name(batch: Batch) -> str:
    """Give what a person calls the batch: its metadata's ``name``, else its id."""
    return visible((batch.metadata or {}).get("name", "").strip()) or batch.public_id


def outcome_of(batch: Batch) -> Outcome | None:
    """Give the outcome that needs a word of its own: some or all requests of a completed batch failed."""
    if batch.status != BatchStatus.COMPLETED or not batch.failed_count:
        return None
    if not batch.completed_count:
        return Outcome(tone="bad", word="All failed")
    return Outcome(tone="warn", word="Partly failed")


def state_words(batch: Batch) -> str:
    """Give the batch's state for the title of the window."""
    outcome = outcome_of(batch)
    return outcome.word if outcome else batch.status.replace("_", " ").capitalize()


def reason_words(code: str) -> tuple[str, str]:
    """Give a sub-lane's reason in words and what it means; a code without words is shown as it is."""
    return _REASONS.get(code, (code.replace("_", " ").capitalize(), "It starts as soon as the lane can take it."))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubLaneRow:
    """One row of the sub-lanes table. Widths are thousandths of the bar."""

    sub_lane: SubLane
    reason: str
    reason_meaning: str
    reported_count: int
    done_width: int
    failed_width: int
    reported_width: int
    p95_completion_minutes: int | None
    charge_micro_usd: int | None

    @property
    def finished_count(self) -> int:
        """Rows with an outcome."""
        return self.sub_lane.completed_count + self.sub_lane.failed_count

    @property
    def reported_x(self) -> int:
        """Where the reported part of the bar begins."""
        return self.done_width + self.failed_width


@dataclass(frozen=True, slots=True, kw_only=True)
class SubLaneTable:
    """The sub-lanes of one batch; the total is the sum of what the rows show."""

    rows: tuple[SubLaneRow, ...]
    charge_micro_usd: int | None


def sub_lane_table(
    batch: Batch,
    sub_lanes: Sequence[SubLane],
    terms: QuoteTerms | None,
    collected_pico_usd: Mapping[int, int],
    places: Mapping[int, int],
) -> SubLaneTable:
    """Give the sub-lanes with their charge: settled, else that of the rows collected so far.

    As on the receipt, a group's usage stands at its primary lane, wherever its rows ran. ``places`` are those of
    sub-lanes that stand in line for room, by their key.
    """
    plan = BatchPlan.from_bytes(batch.plan)
    p95 = terms.p95_completion_minutes if terms else {}
    rows = []
    for sub_lane in sub_lanes:
        charge_micro_usd = sub_lane.charge_micro_usd
        if batch.charge_micro_usd is None:
            is_primary = plan.groups[sub_lane.group_index].primary_lane_id == sub_lane.lane_id
            pico_usd = collected_pico_usd.get(sub_lane.group_index, 0) if is_primary else 0
            charge_micro_usd = round_pico_to_micro(pico_usd)
        p95_minutes = p95.get((sub_lane.model_snapshot, sub_lane.lane_id))
        rows.append(_row(sub_lane, charge_micro_usd, p95_minutes, places.get(sub_lane.pk)))
    charge = batch.charge_micro_usd
    if charge is None:
        charge = sum(row.charge_micro_usd or 0 for row in rows)
    return SubLaneTable(rows=tuple(rows), charge_micro_usd=charge)


def _row(
    sub_lane: SubLane, charge_micro_usd: int | None, p95_completion_minutes: int | None, place: int | None
) -> SubLaneRow:
    reported = reported_count(sub_lane)
    total = max(sub_lane.row_count, 1)
    failed_width = max(sub_lane.failed_count * _WIDTH // total, _SEEN_WIDTH) if sub_lane.failed_count else 0
    done_width = min(sub_lane.completed_count * _WIDTH // total, _WIDTH - failed_width)
    reason, meaning = reason_words(sub_lane.reason)
    if place is not None:
        reason = f"{reason}, place {place} in line"
    return SubLaneRow(
        sub_lane=sub_lane,
        reason=reason,
        reason_meaning=meaning,
        reported_count=reported,
        done_width=done_width,
        failed_width=failed_width,
        reported_width=min(reported * _WIDTH // total, _WIDTH - failed_width - done_width),
        p95_completion_minutes=p95_completion_minutes,
        charge_micro_usd=charge_micro_usd,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """Something that happened; ``tone`` is ``now`` for what is going on."""

    at: datetime
    word: str
    note: str = ""
    tone: str = ""


def reserved_micro_usd(batch: Batch) -> int:
    """Give what was held for the batch when it was accepted."""
    return sum(group.reservation_micro_usd for group in BatchPlan.from_bytes(batch.plan).groups)


_TERMINAL_TONES = {"failed": "bad", "expired": "warn", "cancelled": "warn", "completed": "now"}


def timeline(batch: Batch, sub_lanes: Sequence[SubLane]) -> tuple[TimelineEntry, ...]:
    """Give what happened to the batch so far, oldest first."""
    at_once = batch.in_progress_at == batch.created_at
    held = "Credit is held for it"
    entries = [
        TimelineEntry(at=batch.created_at, word="Accepted, in progress", note=held)
        if at_once
        else TimelineEntry(at=batch.created_at, word="Validating", note="Its file is read and priced")
    ]
    if batch.in_progress_at is not None and not at_once:
        entries.append(TimelineEntry(at=batch.in_progress_at, word="Accepted, in progress", note=held))
    if batch.cancelling_at is not None:
        entries.append(
            TimelineEntry(at=batch.cancelling_at, word="Cancelling", note="What finished is still collected")
        )
    entries += [
        TimelineEntry(at=sub_lane.ended_at, word=f"{sub_lane.lane_id} {sub_lane.state}", note=sub_lane.model_slug)
        for sub_lane in sub_lanes
        if sub_lane.ended_at is not None and len(sub_lanes) > 1
    ]
    if batch.finalizing_at is not None:
        note = "All results are put into one file, in the order of the input"
        entries.append(TimelineEntry(at=batch.finalizing_at, word="Finalizing", note=note))
    entries.sort(key=lambda entry: entry.at)
    ended_at = ended_at_of(batch)
    if ended_at is not None:
        outcome = outcome_of(batch)
        tone = outcome.tone if outcome else _TERMINAL_TONES[batch.status]
        entries.append(TimelineEntry(at=ended_at, word=state_words(batch), tone=tone))
    else:
        last = entries.pop()
        entries.append(TimelineEntry(at=last.at, word=last.word, note=last.note, tone="now"))
    return tuple(entries)


def ended_at_of(batch: Batch) -> datetime | None:
    """Give when the batch reached its terminal state."""
    return batch.completed_at or batch.failed_at or batch.expired_at or batch.cancelled_at


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One of a batch's files; ``stored`` is None where it would be empty."""

    kind: str
    label: str
    note: str
    line_count: int
    stored: StoredFile | None

    @property
    def sha256(self) -> str:
        """The content's hash, in hexadecimal."""
        return bytes(self.stored.sha256).hex() if self.stored else ""


def file_rows(batch: Batch) -> tuple[FileRow, ...]:
    """Give the files of a batch that has ended with results; none before."""
    if batch.results_file is None:
        return ()
    return (
        FileRow(
            kind="results",
            label="Results",
            note="Every request once, in the order of the input",
            line_count=batch.row_count,
            stored=batch.results_file,
        ),
        FileRow(
            kind="output",
            label="Output",
            note="Requests that succeeded" if batch.output_file else "No request succeeded",
            line_count=batch.completed_count,
            stored=batch.output_file,
        ),
        FileRow(
            kind="errors",
            label="Errors",
            note="Requests that did not, with their code" if batch.error_file else "No request failed",
            line_count=batch.failed_count,
            stored=batch.error_file,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """A command for somebody who has no batch yet."""

    title: str
    command: str


def first_calls(base_url: str) -> tuple[FirstCall, ...]:
    """Give the two commands from a file to a batch; ``base_url`` ends in ``/v1``."""
    key = '-H "Authorization: Bearer $LANEHOUSE_API_KEY"'
    return (
        FirstCall(
            title="1. Ask for a quote",
            command=f"curl -sS {base_url}/quotes/model {key} --data-binary @requests.jsonl",
        ),
        FirstCall(
            title="2. Accept it",
            command=f'curl -sS {base_url}/batches {key} --json \'{{"quote_id": "qt_..."}}\'',
        ),
    )


def partial_call(base_url: str, batch: Batch) -> str:
    """Give the command that reads what a running batch has collected; ``base_url`` ends in ``/v1``."""
    return f'curl -sS -D - {base_url}/batches/{batch.public_id}/results -H "Authorization: Bearer $LANEHOUSE_API_KEY"'
