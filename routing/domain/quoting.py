"""The quote path of a body in memory: parse, validate, resolve, estimate, price. Pure: catalog and time are brought."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from catalog.domain.records import Catalog, Endpoint, Model
from routing.domain import asks
from routing.domain.estimate.images import image_rule
from routing.domain.estimate.tables import Vocabulary, vocabulary_named
from routing.domain.estimate.tokens import (
    BY_FORMULA,
    ModelRules,
    RowExtras,
    RowFacts,
    RowRatios,
    RowTokens,
    Weighed,
    estimate_rows,
)
from routing.domain.estimate.weights import RowTexts, prepare_texts
from routing.domain.jsonl import exact, fast, known
from routing.domain.jsonl.compiled import Machine, borrowed_machine
from routing.domain.jsonl.faults import RowFault
from routing.domain.jsonl.known import KnownTable
from routing.domain.jsonl.table import FileLimits, RowTable
from routing.domain.learning.jobs import RowLine, job_keys_of, keys_of_system_texts, opens_by_system_alone
from routing.domain.learning.records import NOTHING_LEARNED, NOTHING_OF_A_MODEL, JobRatios, Learned
from routing.domain.offering import (
    Pricing,
    QuoteSettings,
    RowGroups,
    RowPlace,
    Rows,
    Stopwatch,
    Timer,
    price_rows,
)
from routing.domain.parameters.needs import Alike, each_alone
from routing.domain.plan import QuotePlan
from routing.domain.resolve import ModelRefused, ResolvedModel, resolve_model
from routing.domain.scoring import WorkflowProfile


def make_quote_plan(
    body: bytes,
    catalog: Catalog,
    workflow: WorkflowProfile,
    settings: QuoteSettings,
    at: datetime,
    *,
    learned: Learned = NOTHING_LEARNED,
    timer: Timer = lambda: 0,
) -> QuotePlan:
    """Price a JSONL file: groups, lanes, figures, reasons, and where each row goes.

    Args:
        body: The file's bytes as they came.
        catalog: One consistent catalog with its SLA snapshot.
        workflow: The customer's penalties and fan-out.
        settings: Fee, margin and limits.
        at: The instant by which models count as retired (aware, UTC).
        learned: What the customer's settled rows, and everybody's, taught.
        timer: Gives nanoseconds for ``timings_ns``; without one all steps are 0.

    Raises:
        RowErrors: Something is wrong with rows; every fault of the file is in it.
        InvalidRequest: ``lane_minimum`` or ``lane_unavailable`` when a group has no lane that can take it.
    """
    watch = Stopwatch(timer=timer, started=timer())
    with borrowed_machine() as machine:
        table, resolved = _read_file(body, catalog, settings.limits, at, watch, machine)
        groups = group_rows(table, resolved)
        watch.lap("resolve")
        pricing = Pricing(catalog=catalog, workflow=workflow, settings=settings, at=at, learned=learned)
        return price_rows(file_of(body, table, groups, learned), groups, pricing, watch)


def _read_file(
    body: bytes, catalog: Catalog, limits: FileLimits, at: datetime, watch: Stopwatch, machine: Machine
) -> tuple[RowTable | KnownTable, dict[str, ResolvedModel]]:
    """Read by the fast paths; at the first sign of trouble the exact path says all that is wrong."""
    try:
        table = read_table(body, limits, machine)
        watch.lap("parse")
        return table, {name: resolve_model(catalog, name, table.endpoint, at) for name in table.model_names}
    except (fast.Trouble, ModelRefused):
        exact.report_errors(body, limits, model_check(catalog, at))
    raise AssertionError("the fast path refused a file that the exact path accepts")


def read_table(body: bytes, limits: FileLimits, machine: Machine) -> RowTable | KnownTable:
    """Read by the compiled pass where it is sure of everything, else by the plain fast path.

    Raises:
        Trouble: Something is wrong somewhere.
    """
    return known.read_rows(body, limits, machine) or fast.read_rows(body, limits)


def model_check(catalog: Catalog, at: datetime) -> exact.ModelCheck:
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


def group_rows(table: RowTable | KnownTable, resolved: dict[str, ResolvedModel]) -> RowGroups:
    """Group rows by the snapshot of their model, groups in the order in which their snapshots first appear."""
    models: dict[str, ResolvedModel] = {}
    for found in resolved.values():
        models.setdefault(found.model_snapshot, found)
    order = {snapshot: index for index, snapshot in enumerate(models)}
    index_of = np.array([order[resolved[name].model_snapshot] for name in table.model_names], dtype=np.int32)
    return RowGroups.of(tuple(models.values()), index_of[table.model_indexes])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadTable:
    """The rows of a body in memory, with their strings in the order of their groups."""

    body: bytes
    table: RowTable
    texts: RowTexts
    learned: Learned

    @classmethod
    def of(cls, body: bytes, table: RowTable, groups: RowGroups, learned: Learned) -> ReadTable:
        """Make rows ready; where two names stand for one model, its rows do not lie side by side yet."""
        is_in_order = len(groups.models) == len(table.model_names)
        return cls(
            body=body,
            table=table,
            texts=table.texts if is_in_order else prepare_texts(table.literals, groups.order),
            learned=learned,
        )

    @property
    def endpoint(self) -> Endpoint:
        """Where the rows go."""
        return self.table.endpoint

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where each row's line begins."""
        return self.table.offsets

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of each row's line."""
        return self.table.lengths

    def tokens_of(self, resolved: ResolvedModel, first: int, rows: Rows) -> RowTokens:
        """Estimate a group's rows, whose strings begin at position ``first``."""
        rules = _rules_of(resolved, self.learned, self.table.endpoint)
        weighed = Weighed.of(self.texts, first, len(rows), rules.vocabulary)
        ratios = _ratios_of(resolved, self.learned, self.table.endpoint, lambda: self._jobs_of(rows))
        return estimate_rows(weighed, facts_of(self.table, rows), rules, ratios)

    def _jobs_of(self, rows: Rows) -> Rows:
        return np.array(job_keys_of(lines_of(self.body, self.table, rows), self.learned.salt), dtype=np.int64)

    def asks_of(self, rows: Rows) -> Iterator[Alike]:
        """Give what rows ask by."""
        return each_alone(asks.bodies_of(self.body, self.table, rows))

    def place_of(self, row: int) -> RowPlace:
        """Give a row's line and ``custom_id``."""
        return RowPlace(line=int(self.table.lines[row]), custom_id=self.table.custom_ids[row])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownFile:
    """The rows of a body that the compiled pass read; ``rest_texts`` are those that it left, ``rest_groups`` theirs."""

    body: bytes
    table: KnownTable
    rest_texts: RowTexts | None
    rest_groups: RowGroups
    learned: Learned

    @classmethod
    def of(cls, body: bytes, table: KnownTable, groups: RowGroups, learned: Learned) -> KnownFile:
        """Make rows ready; those that the pass left lie by group."""
        rest_groups = RowGroups.of(groups.models, groups.indexes[table.rest_rows])
        rest_texts = None if table.rest is None else prepare_texts(table.rest.literals, rest_groups.order)
        return cls(body=body, table=table, rest_texts=rest_texts, rest_groups=rest_groups, learned=learned)

    @property
    def endpoint(self) -> Endpoint:
        """Where the rows go."""
        return self.table.endpoint

    @property
    def offsets(self) -> Rows:
        """Where each row's line begins."""
        return self.table.offsets

    @property
    def lengths(self) -> Rows:
        """Bytes of each row's line."""
        return self.table.lengths

    def tokens_of(self, resolved: ResolvedModel, _first: int, rows: Rows) -> RowTokens:
        """Estimate a group's rows."""
        rules, columns = _rules_of(resolved, self.learned, self.table.endpoint), self.table.columns[rows]
        facts = RowFacts(
            message_counts=columns["message_count"].astype(np.int64),
            limits=columns["limit"].astype(np.int64),
            choices=columns["choices"].astype(np.int64),
            extras=self._extras_of(rows),
        )
        ratios = _ratios_of(resolved, self.learned, self.table.endpoint, lambda: self._jobs_of(rows))
        return estimate_rows(self._weigh(resolved, rows, rules.vocabulary), facts, rules, ratios)

    def _jobs_of(self, rows: Rows) -> Rows:
        """Give the job of each row; of a plain one by the place of its system text, without looking at the rest."""
        patterns, salt = self.table.patterns_of(rows), self.learned.salt
        opens_alone = np.array([opens_by_system_alone(each.roles) for each in self.table.patterns] + [False])[patterns]
        keys = np.zeros(len(rows), dtype=np.int64)
        keys[opens_alone] = keys_of_system_texts(self.body, *self.table.machine.first_strings(rows[opens_alone]), salt)
        others = rows[~opens_alone]
        columns = self.table.columns[others]
        places = columns["offset"].tolist(), columns["length"].tolist(), self.table.patterns_of(others).tolist()
        lines: Iterator[RowLine] = (
            (self.body[start : start + length], self.table.patterns[pattern].roles if pattern >= 0 else None)
            for start, length, pattern in zip(*places, strict=True)
        )
        keys[~opens_alone] = job_keys_of(lines, salt)
        return keys

    def _weigh(self, resolved: ResolvedModel, rows: Rows, vocabulary: Vocabulary) -> Weighed:
        are_known = self.table.are_known(rows)
        known = self.table.machine.weigh(rows[are_known], vocabulary)
        if self.rest_texts is None or are_known.all():
            return known
        first = self.rest_groups.firsts[self.rest_groups.models.index(resolved)]
        rest = Weighed.of(self.rest_texts, first, len(rows) - int(are_known.sum()), vocabulary)
        scaled, text_bytes = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
        scaled[are_known], scaled[~are_known] = known.scaled, rest.scaled
        text_bytes[are_known], text_bytes[~are_known] = known.text_bytes, rest.text_bytes
        return Weighed(scaled=scaled, text_bytes=text_bytes)

    def _extras_of(self, rows: Rows) -> dict[int, RowExtras]:
        held = self.table.extras
        if not held:
            return {}
        places = np.fromiter(held, dtype=np.int64, count=len(held))
        positions = np.searchsorted(rows, places)
        is_here = rows[np.minimum(positions, len(rows) - 1)] == places
        return {
            position: extras
            for position, extras, here in zip(positions.tolist(), held.values(), is_here.tolist(), strict=True)
            if here
        }

    def asks_of(self, rows: Rows) -> Iterator[Alike]:
        """Give what rows ask by: plain ones by pattern, the others one by one."""
        patterns = self.table.patterns_of(rows)
        are_plain = patterns >= 0
        used, firsts, counts = np.unique(patterns[are_plain], return_index=True, return_counts=True)
        positions = np.flatnonzero(are_plain)[firsts]
        for pattern, position, count in zip(used.tolist(), positions.tolist(), counts.tolist(), strict=True):
            yield Alike(position, count, self.table.patterns[pattern])
        others = np.flatnonzero(~are_plain)
        lines = self.table.columns[rows[others]]
        for position, start, length in zip(
            others.tolist(), lines["offset"].tolist(), lines["length"].tolist(), strict=True
        ):
            yield Alike(position, 1, asks.decode_body(self.body[start : start + length]))

    def place_of(self, row: int) -> RowPlace:
        """Give a row's line and ``custom_id``."""
        return RowPlace(line=int(self.table.columns["line"][row]), custom_id=self.table.custom_ids[row])


def file_of(
    body: bytes, table: RowTable | KnownTable, groups: RowGroups, learned: Learned = NOTHING_LEARNED
) -> ReadTable | KnownFile:
    """Make the rows of a table ready for pricing."""
    if isinstance(table, KnownTable):
        return KnownFile.of(body, table, groups, learned)
    return ReadTable.of(body, table, groups, learned)


def _rules_of(resolved: ResolvedModel, learned: Learned, endpoint: Endpoint) -> ModelRules:
    return rules_of(resolved.model, endpoint, learned.of(resolved.model.slug).vocabulary)


def _ratios_of(
    resolved: ResolvedModel, learned: Learned, endpoint: Endpoint, jobs_of_rows: Callable[[], Rows]
) -> RowRatios:
    """Give what was learned for a group's rows: by their job where it is known, else by the customer's others."""
    known = learned.of(resolved.model.slug)
    if known is NOTHING_OF_A_MODEL:
        return BY_FORMULA
    high_ppm = known.output_band.high_ppm if known.output_band else None
    if not known.jobs or endpoint is Endpoint.EMBEDDINGS:
        return RowRatios(input_ppm=known.input_ppm, output_ppm=known.output_ppm, output_high_ppm=high_ppm)
    keys, rows_of_key = np.unique(jobs_of_rows(), return_inverse=True)
    other = JobRatios(input_ppm=known.input_ppm, output_ppm=known.output_ppm)
    jobs = [known.jobs.get(key, other) for key in keys.tolist()]
    output_ppm = None
    if known.output_ppm is not None:
        output_ppm = np.array([job.output_ppm or known.output_ppm for job in jobs], dtype=np.int64)[rows_of_key]
    return RowRatios(
        input_ppm=np.array([job.input_ppm for job in jobs], dtype=np.int64)[rows_of_key],
        output_ppm=output_ppm,
        output_high_ppm=high_ppm,
    )


def lines_of(body: bytes, table: RowTable, rows: Rows) -> Iterator[RowLine]:
    """Give rows' lines, and who speaks in those that are plain."""
    plain = table.plain
    for row, start, length in zip(
        rows.tolist(), table.offsets[rows].tolist(), table.lengths[rows].tolist(), strict=True
    ):
        yield body[start : start + length], plain.roles_of(row) if plain and plain.are_plain[row] else None


def facts_of(table: RowTable, rows: npt.NDArray[np.int64]) -> RowFacts:
    """Give what the estimator needs of some rows besides their strings."""
    positions = {row: position for position, row in enumerate(rows.tolist())} if table.extras else {}
    return RowFacts(
        message_counts=table.message_counts[rows],
        limits=table.limits[rows],
        choices=table.choices[rows],
        extras={positions[row]: extras for row, extras in table.extras.items() if row in positions},
    )


def rules_of(model: Model, endpoint: Endpoint, learned: Vocabulary | None = None) -> ModelRules:
    """Give how a model counts: by the catalog's vocabulary, or by one that settled rows taught."""
    return ModelRules(
        vocabulary=learned or vocabulary_named(model.vocabulary),
        image_rule=image_rule(model.slug),
        max_output_tokens=model.max_output_tokens,
        makes_output=endpoint is not Endpoint.EMBEDDINGS,
    )
