"""A settled batch teaches once: its rows are read again, and what was learned moves on in the transaction that says so.

The lines are the batch's own payload, read where they lie; what is kept of them are sums. Killed at any instant, or
run twice, a lesson has its effect once, because it ends in that same transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
import numpy as np
from django.db import connection
from django.db.models import Sum

from accounts.models import Organisation
from catalog.domain.records import Catalog, Endpoint
from catalog.selectors import current_catalog
from ground import clock
from ground.fault_points import FaultPoint, reach
from ground.leases import Keeper, Lease, claim, moving_on, unless_lost
from routing.domain.accuracy import INPUT_ERRORS, OUTPUT_ERRORS, absolute_error_ppm_sum, error_counts
from routing.domain.jsonl.fast import Trouble
from routing.domain.learning.lessons import Lesson, Pupil, TableRows, read_lesson, read_table_rows
from routing.domain.learning.states import NEW, HouseState, ModelStates, State, Taught, teach
from routing.domain.learning.tables import ROWS_A_LESSON
from routing.domain.learning.tallies import CUSTOMER_INPUT, ONE_PPM, house_ratio_ppm, ratio_ppm
from routing.domain.pins import BatchPlan, GroupPlan
from routing.learned import job_salt, learned_vocabulary
from routing.models import Batch, BatchLesson, GroupAccuracy, LearnedScope, LearnedState, LessonState, RowOutcome
from routing.payloads import Payload, open_payload
from routing.services.learned_states import next_version, save_states
from routing.services.learned_tables import candidate_of, teach_table

_log = logging.getLogger(__name__)

# Rows of a group that are read again, evenly over it: a job forgets by the half in 2,000, so more would tell nothing.
_ROWS_AT_MOST: Final = 20_000
JOBS_OF_A_MODEL: Final = 1_000
_CUSTOMERS_AT_MOST: Final = 1_000
# So many processes may die of one lesson before it is skipped.
_TRIES: Final = 5
_Totals = dict[str, int]
# Row, input and output, a line a row.
_Settled = np.ndarray[tuple[int, int], np.dtype[np.int64]]


def owe_lesson(batch: Batch, at: datetime) -> None:
    """Make a batch due to teach, in the transaction that settles it. Test twins run on stand-ins and teach nothing."""
    if not batch.organisation.is_test:
        BatchLesson.objects.create(batch=batch, settled_at=at, due_at=at)


def learn_from_next_batch() -> bool:
    """Learn from the settled batch that has waited longest."""
    lease = claim(BatchLesson, state_field="state", states=(LessonState.PENDING,))
    if lease is None:
        return False
    reach(FaultPoint.LEARN_CLAIMED)
    with unless_lost():
        batch = Batch.objects.select_related("organisation").get(lesson=lease.row_id)
        plan = BatchPlan.from_bytes(batch.plan)
        catalog = current_catalog()
        try:
            groups = [] if lease.fence > _TRIES else list(_read_groups(lease, batch, plan, catalog))
            reason = "" if groups else "no row was charged" if lease.fence <= _TRIES else "it could not be read"
        except FileNotFoundError:
            groups, reason = [], "its payload is gone"
        reach(FaultPoint.LEARN_READ)
        with moving_on(BatchLesson, lease) as row:
            at = clock.now()
            row.version = _apply(row, batch, plan, groups)
            row.state = LessonState.LEARNED if groups else LessonState.SKIPPED
            row.reason = reason
            row.ended_at, row.due_at = at, None
            reach(FaultPoint.LEARN_BEFORE_COMMIT)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadGroup:
    group: GroupPlan
    pupil: Pupil
    lesson: Lesson
    totals: _Totals
    # Of a model whose vocabulary is not public.
    table_rows: TableRows | None


def _read_groups(lease: Lease, batch: Batch, plan: BatchPlan, catalog: Catalog) -> Iterator[_ReadGroup]:
    """Read the charged rows of each group again; one whose model is no longer known teaches nothing."""
    keep = Keeper(lease)
    salt = job_salt(batch.organisation)
    with open_payload(batch.quote_id) as payload:
        for group in plan.groups:
            model = catalog.models.get(group.model_slug)
            totals = _totals(batch, group)
            if model is None or not totals["row_count"]:
                continue
            settled = _settled_rows(batch, group, -(-totals["row_count"] // _ROWS_AT_MOST))
            pupil = Pupil(
                model=model,
                endpoint=Endpoint(batch.endpoint),
                salt=salt,
                vocabulary=learned_vocabulary(model, _table_version(model.slug)),
                candidate=None if model.vocabulary_is_public else candidate_of(model),
            )
            parts = []
            for part in _read_rows(payload, settled, pupil):
                keep()
                parts.append(part)
            table_rows = None if model.vocabulary_is_public else _read_for_table(payload, settled, pupil)
            yield _ReadGroup(
                group=group, pupil=pupil, lesson=Lesson.joined(parts), totals=totals, table_rows=table_rows
            )


def _totals(batch: Batch, group: GroupPlan) -> _Totals:
    charged = RowOutcome.objects.filter(
        accepted_at=batch.created_at, batch_id=batch.pk, group_index=group.index, outcome="succeeded"
    )
    sums = charged.aggregate(
        input=Sum("input_tokens"),
        cached=Sum("cached_input_tokens"),
        write_5m=Sum("cache_write_5m_tokens"),
        write_1h=Sum("cache_write_1h_tokens"),
        output=Sum("output_tokens"),
    )
    output = int(sums.pop("output") or 0)
    return {"row_count": charged.count(), "input": sum(int(each or 0) for each in sums.values()), "output": output}


def _settled_rows(batch: Batch, group: GroupPlan, every: int) -> _Settled:
    """Give row, input and output of each ``every``-th charged row of a group, in the order of the file."""
    with connection.cursor() as cursor:
        cursor.execute(
            'SELECT "row", input_tokens + cached_input_tokens + cache_write_5m_tokens + cache_write_1h_tokens,'
            ' output_tokens FROM (SELECT *, row_number() OVER (ORDER BY "row") AS place FROM routing_rowoutcome'
            " WHERE accepted_at = %s AND batch_id = %s AND group_index = %s AND outcome = 'succeeded') AS charged"
            ' WHERE place %% %s = 0 ORDER BY "row"',
            [batch.created_at, batch.pk, group.index, every],
        )
        return np.array(cursor.fetchall(), dtype=np.int64).reshape(-1, 3)


def _table_version(model_slug: str) -> int:
    row = LearnedState.objects.filter(model_slug=model_slug, organisation=None).first()
    return HouseState.from_bytes(row.state).table_version if row else 0


def _read_for_table(payload: Payload, settled: _Settled, pupil: Pupil) -> TableRows | None:
    """Read an even sample of the rows for the fit of a table."""
    chosen = settled[:: -(-len(settled) // ROWS_A_LESSON)]
    rows = chosen[:, 0]
    lines = [line for block in payload.blocks(rows) for line in block.lines()]
    try:
        return read_table_rows(lines, pupil, chosen[:, 1], payload.input_tokens[rows])
    except Trouble:
        return None


def _read_rows(payload: Payload, settled: _Settled, pupil: Pupil) -> Iterator[Lesson]:
    first = 0
    for block in payload.blocks(settled[:, 0]):
        rows = settled[first : first + len(block.rows)]
        first += len(block.rows)
        try:
            yield read_lesson(
                block.lines(),
                pupil,
                settled_input_tokens=rows[:, 1],
                settled_output_tokens=rows[:, 2],
                quoted_input_tokens=payload.input_tokens[rows[:, 0]],
            )
        except Trouble:
            # What a quote takes has changed since: these rows say nothing any more.
            _log.info("rows from %d on are not read again", block.rows[0])


def _apply(owed: BatchLesson, batch: Batch, plan: BatchPlan, groups: list[_ReadGroup]) -> int | None:
    """Keep how the groups were quoted and move on what they teach; give the version that was made."""
    if not groups:
        return None
    version, at = next_version(), clock.now()
    for read in groups:
        _keep_accuracy(owed, batch, read)
        _teach(batch, plan.workflow.name, read, version, at)
    return version


def _keep_accuracy(owed: BatchLesson, batch: Batch, read: _ReadGroup) -> None:
    lesson, totals, group = read.lesson, read.totals, read.group
    share_ppm = totals["row_count"] * ONE_PPM // group.row_count
    quoted_input = sum(lane.input_tokens for lane in group.lanes)
    quoted_output = lesson.quoted_output_tokens(ONE_PPM)
    if quoted_output.sum():
        # The rows' own figures are not kept: what was quoted together is laid over them by the prior.
        scale_ppm = (
            group.output_tokens * ONE_PPM // max(1, int(quoted_output.sum()) * group.row_count // max(1, len(lesson)))
        )
        quoted_output = lesson.quoted_output_tokens(max(1, scale_ppm))
    GroupAccuracy.objects.create(
        batch=batch,
        group_index=group.index,
        organisation=batch.organisation,
        model_slug=group.model_slug,
        settled_at=owed.settled_at,
        row_count=totals["row_count"],
        quoted_input_tokens=quoted_input * share_ppm // ONE_PPM,
        settled_input_tokens=totals["input"],
        quoted_output_tokens=group.output_tokens * share_ppm // ONE_PPM,
        settled_output_tokens=totals["output"],
        seen_row_count=len(lesson),
        set_aside_row_count=int((~lesson.are_credible()).sum()),
        input_absolute_error_ppm_sum=absolute_error_ppm_sum(lesson.quoted_input_tokens, lesson.settled_input_tokens),
        output_absolute_error_ppm_sum=absolute_error_ppm_sum(quoted_output, lesson.settled_output_tokens),
        input_error_counts=error_counts(INPUT_ERRORS, lesson.quoted_input_tokens, lesson.settled_input_tokens),
        output_error_counts=error_counts(OUTPUT_ERRORS, quoted_output, lesson.settled_output_tokens),
    )


def _teach(batch: Batch, workflow: str, read: _ReadGroup, version: int, at: datetime) -> None:
    """Learn from one group. Under the lock of the version, so that one lesson follows the other."""
    slug = read.group.model_slug
    house_row = LearnedState.objects.filter(model_slug=slug, organisation=None).first()
    if house_row is not None and not house_row.is_on:
        return
    if read.table_rows is not None and teach_table(slug, read.table_rows, version, at):
        # What these rows say of the old table tells nothing of the new one.
        return
    house = HouseState.from_bytes(house_row.state) if house_row else HouseState()
    jobs = set(map(str, read.lesson.jobs.tolist())) - {"0"}
    states = _states(batch.organisation, slug, workflow, jobs)
    is_public = read.pupil.model.vocabulary_is_public
    taught = teach(states, read.lesson, house.ratio_ppm, vocabulary_is_public=is_public)
    if not taught.row_count:
        return
    _save_own(batch.organisation, slug, workflow, states, taught.states, version, at)
    _save_house(slug, house, taught, version, at)


def _states(organisation: Organisation, slug: str, workflow: str, jobs: set[str]) -> ModelStates:
    own = LearnedState.objects.filter(model_slug=slug, organisation=organisation)
    found = (
        own.filter(scope=LearnedScope.CUSTOMER)
        | own.filter(scope=LearnedScope.WORKFLOW, name=workflow)
        | own.filter(scope=LearnedScope.JOB, name__in=jobs)
    )
    by_key = {(row.scope, row.name): State.from_bytes(row.state) for row in found}
    return ModelStates(
        customer=by_key.get((LearnedScope.CUSTOMER, ""), NEW),
        workflow=by_key.get((LearnedScope.WORKFLOW, workflow), NEW),
        jobs={int(name): state for (scope, name), state in by_key.items() if scope == LearnedScope.JOB},
    )


def _save_own(
    organisation: Organisation,
    slug: str,
    workflow: str,
    before: ModelStates,
    after: ModelStates,
    version: int,
    at: datetime,
) -> None:
    changed = {(LearnedScope.CUSTOMER, ""): after.customer, (LearnedScope.WORKFLOW, workflow): after.workflow}
    changed |= {
        (LearnedScope.JOB, str(key)): state for key, state in after.jobs.items() if before.jobs.get(key) != state
    }
    save_states(
        [
            LearnedState(
                model_slug=slug,
                organisation=organisation,
                scope=scope,
                name=name,
                version=version,
                learned_at=at,
                state=state.to_bytes(),
            )
            for (scope, name), state in changed.items()
        ]
    )
    jobs = LearnedState.objects.filter(model_slug=slug, organisation=organisation, scope=LearnedScope.JOB)
    # Those that taught last stay.
    beyond = jobs.order_by("-version", "pk").values_list("pk", flat=True)[JOBS_OF_A_MODEL:]
    jobs.filter(pk__in=list(beyond)).delete()


def _save_house(slug: str, house: HouseState, taught: Taught, version: int, at: datetime) -> None:
    moved = house.after(taught, int(at.timestamp()))
    if moved.has_drifted() and not house.has_drifted():
        _log.error(
            "model %s: its last %d rows settled %.1f %% off what was quoted: its provider counts otherwise than before",
            slug,
            moved.recent_row_count,
            moved.recent_error_ppm / 10_000,
        )
    customers = LearnedState.objects.filter(model_slug=slug, scope=LearnedScope.CUSTOMER).order_by("-version", "pk")
    tallies = [State.from_bytes(row).input for row in customers.values_list("state", flat=True)[:_CUSTOMERS_AT_MOST]]
    alone = [(ratio_ppm(tally, ONE_PPM, CUSTOMER_INPUT), tally.row_count) for tally in tallies]
    moved = msgspec.structs.replace(moved, ratio_ppm=house_ratio_ppm(alone), customer_count=len(alone))
    save_states(
        [
            LearnedState(
                model_slug=slug,
                organisation=None,
                scope=LearnedScope.HOUSE,
                version=version,
                learned_at=at,
                state=moved.to_bytes(),
                house_ratio_ppm=moved.ratio_ppm,
            )
        ]
    )
