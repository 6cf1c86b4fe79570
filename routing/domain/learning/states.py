"""What is kept of settled rows, and how a lesson changes it: by chunks, so that each is judged by those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import msgspec
import numpy as np

from routing.domain.learning.lessons import Lesson, Numbers
from routing.domain.learning.records import Band, JobRatios, ModelRatios
from routing.domain.learning.spreads import (
    INPUT_SCALE,
    OUTPUT_SCALE,
    Scale,
    count_ratios,
    percentile_ppm,
    read_counts,
    with_rows,
)
from routing.domain.learning.tallies import (
    CUSTOMER_INPUT,
    JOB_INPUT,
    JOB_OUTPUT,
    ONE_PPM,
    WORKFLOW_OUTPUT,
    RatioRules,
    Tally,
    learn_rows,
    ratio_ppm,
)

CHUNK_ROWS = 100
JOBS_A_LESSON = 50
ROWS_OF_A_JOB = 2
BAND_ROWS, CLOSED_BAND_ROWS = 50, 300
LOW_PER_MILLE, HIGH_PER_MILLE = 50, 950
# The mean over the last rows that must stay within 3 %, or the provider counts otherwise than before.
DRIFT_ROWS, DRIFT_PPM = 500, 30_000


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What one key has learned: a customer's input, a job's both, a workflow's output and spreads."""

    input: Tally = Tally()
    output: Tally = Tally()
    # Rows of all time.
    row_count: int = 0
    input_spread: bytes = b""
    output_spread: bytes = b""

    def to_bytes(self) -> bytes:
        """Give the stored form."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes | memoryview) -> Self:
        """Read the stored form."""
        return msgspec.json.decode(bytes(stored), type=cls)


NEW = State()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStates:
    """The states of one model, customer and workflow; ``jobs`` by key."""

    customer: State = NEW
    workflow: State = NEW
    jobs: Mapping[int, State]

    def ratios(self, house_ppm: int, *, vocabulary_is_public: bool) -> ModelRatios:
        """Give what a quote may use."""
        input_ppm = ratio_ppm(self.customer.input, house_ppm, CUSTOMER_INPUT)
        output_ppm = self.output_ppm()
        rows, band_rows = self.workflow.row_count, BAND_ROWS if vocabulary_is_public else CLOSED_BAND_ROWS
        return ModelRatios(
            input_ppm=input_ppm,
            output_ppm=output_ppm,
            input_band=_band(INPUT_SCALE, self.workflow.input_spread) if rows >= band_rows else None,
            output_band=_band(OUTPUT_SCALE, self.workflow.output_spread) if rows >= BAND_ROWS else None,
            jobs={key: self._job(state, input_ppm, output_ppm) for key, state in self.jobs.items()},
        )

    def output_ppm(self) -> int | None:
        """Give the workflow's ratio of output; None before it has enough rows."""
        tally = self.workflow.output
        return ratio_ppm(tally, ONE_PPM, WORKFLOW_OUTPUT) if tally.row_count >= WORKFLOW_OUTPUT.prior_rows else None

    def _job(self, state: State, input_ppm: int, output_ppm: int | None) -> JobRatios:
        return JobRatios(
            input_ppm=ratio_ppm(state.input, input_ppm, JOB_INPUT),
            output_ppm=None if output_ppm is None else ratio_ppm(state.output, output_ppm, JOB_OUTPUT),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """A lesson's effect: the states after it, and the rows' mean of settled / quoted less 1, as they went."""

    states: ModelStates
    row_count: int
    set_aside_count: int
    error_ppm: int


def teach(states: ModelStates, lesson: Lesson, house_ppm: int, *, vocabulary_is_public: bool) -> Taught:
    """Give the states after a lesson.

    Rows whose settled input cannot be true are set aside. Of jobs the largest are kept, those of one row are none.
    """
    good = lesson.where(lesson.are_credible())
    kept = set(_jobs_kept(good.jobs))
    errors = 0.0
    for start in range(0, len(good), CHUNK_ROWS):
        chunk = good.where((np.arange(len(good)) // CHUNK_ROWS) == start // CHUNK_ROWS)
        known = states.ratios(house_ppm, vocabulary_is_public=vocabulary_is_public)
        expected = [
            known.jobs.get(key) or JobRatios(input_ppm=known.input_ppm, output_ppm=known.output_ppm)
            for key in chunk.jobs.tolist()
        ]
        quoted = chunk.counted_tokens * np.array([job.input_ppm for job in expected]) // ONE_PPM
        measured = chunk.measured_input_tokens()
        errors += float((measured / np.maximum(quoted, 1) - 1).sum())
        workflow = replace_state(
            states.workflow,
            input_spread=with_rows(states.workflow.input_spread, count_ratios(INPUT_SCALE, measured, quoted)),
        )
        if known.output_ppm is not None:
            ratios = np.array([job.output_ppm or known.output_ppm for job in expected])
            counts = count_ratios(OUTPUT_SCALE, chunk.settled_output_tokens, chunk.quoted_output_tokens(ratios))
            workflow = replace_state(workflow, output_spread=with_rows(workflow.output_spread, counts))
        states = _with_rows(replace(states, workflow=workflow), chunk, kept, house_ppm)
    mean_error_ppm = round(errors / len(good) * ONE_PPM) if len(good) else 0
    return Taught(states=states, row_count=len(good), set_aside_count=len(lesson) - len(good), error_ppm=mean_error_ppm)


def replace_state(state: State, **changes: object) -> State:
    """Give a state with some parts changed."""
    return msgspec.structs.replace(state, **changes)


def _jobs_kept(jobs: Numbers) -> list[int]:
    keys, counts = np.unique(jobs[jobs != 0], return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:JOBS_A_LESSON]
    return [int(keys[place]) for place in largest if counts[place] >= ROWS_OF_A_JOB]


def _with_rows(states: ModelStates, chunk: Lesson, kept: set[int], house_ppm: int) -> ModelStates:
    customer = replace_state(
        states.customer,
        row_count=states.customer.row_count + len(chunk),
        input=_learned(
            states.customer.input, chunk.measured_input_tokens(), chunk.counted_tokens, house_ppm, CUSTOMER_INPUT
        ),
    )
    workflow = replace_state(
        states.workflow,
        row_count=states.workflow.row_count + len(chunk),
        output=_learned(
            states.workflow.output, chunk.settled_output_tokens, chunk.prior_output_tokens, ONE_PPM, WORKFLOW_OUTPUT
        ),
    )
    after = ModelStates(customer=customer, workflow=workflow, jobs=states.jobs)
    input_ppm = ratio_ppm(customer.input, house_ppm, CUSTOMER_INPUT)
    output_ppm = after.output_ppm() or ONE_PPM
    jobs = dict(states.jobs)
    for key in kept.intersection(chunk.jobs.tolist()):
        rows, state = chunk.where(chunk.jobs == key), jobs.get(key, NEW)
        jobs[key] = replace_state(
            state,
            row_count=state.row_count + len(rows),
            input=_learned(state.input, rows.measured_input_tokens(), rows.counted_tokens, input_ppm, JOB_INPUT),
            output=_learned(state.output, rows.settled_output_tokens, rows.prior_output_tokens, output_ppm, JOB_OUTPUT),
        )
    return replace(after, jobs=jobs)


def _learned(tally: Tally, settled: Numbers, estimated: Numbers, parent_ppm: int, rules: RatioRules) -> Tally:
    return learn_rows(tally, settled.tolist(), np.maximum(estimated, 1).tolist(), parent_ppm, rules)


def _band(scale: Scale, spread: bytes) -> Band | None:
    counts = read_counts(spread, scale.count)
    if not counts.any():
        return None
    return Band(
        low_ppm=min(ONE_PPM, percentile_ppm(scale, counts, LOW_PER_MILLE)),
        high_ppm=max(ONE_PPM, percentile_ppm(scale, counts, HIGH_PER_MILLE)),
    )


class HouseState(msgspec.Struct, frozen=True, kw_only=True):
    """A model's own ratio and how its estimates went of late, over all customers.

    ``recent_error_ppm`` is the mean of settled / quoted less 1 over the last 500 rows, of which ``recent_row_count``
    are there; ``drifted_at`` (Unix seconds) is when it last left its limits, 0 where it never did.
    """

    ratio_ppm: int = ONE_PPM
    customer_count: int = 0
    recent_error_ppm: int = 0
    recent_row_count: int = 0
    drifted_at: int = 0
    # The learned table that its rows are counted by; 0 where it is the catalog's.
    table_version: int = 0

    def to_bytes(self) -> bytes:
        """Give the stored form."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes | memoryview) -> Self:
        """Read the stored form."""
        return msgspec.json.decode(bytes(stored), type=cls)

    def has_drifted(self) -> bool:
        """Say whether the estimates of late lie further off than a provider that counts as before lets them."""
        return self.recent_row_count >= DRIFT_ROWS and abs(self.recent_error_ppm) > DRIFT_PPM

    def after(self, taught: Taught, at: int) -> HouseState:
        """Give it after a lesson's rows; ``at`` in Unix seconds."""
        if not taught.row_count:
            return self
        forgotten = 1 - (1 - 1 / DRIFT_ROWS) ** taught.row_count
        left, new = self.recent_row_count * (1 - forgotten), DRIFT_ROWS * forgotten
        error_ppm = round((self.recent_error_ppm * left + taught.error_ppm * new) / (left + new))
        state = msgspec.structs.replace(
            self,
            recent_error_ppm=error_ppm,
            recent_row_count=min(self.recent_row_count + taught.row_count, DRIFT_ROWS),
        )
        return msgspec.structs.replace(state, drifted_at=at) if state.has_drifted() else state
