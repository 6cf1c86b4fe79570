"""The quote path of a body in memory: parse, validate, resolve, estimate, price. Pure: catalog and time are brought."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from catalog.domain.records import Catalog, Endpoint, Model
from routing.domain import asks
from routing.domain.estimate.images import image_rule
from routing.domain.estimate.tables import vocabulary_named
from routing.domain.estimate.tokens import ModelRules, RowFacts, RowTokens, estimate_rows
from routing.domain.estimate.weights import RowTexts, prepare_texts
from routing.domain.jsonl import exact, fast
from routing.domain.jsonl.faults import RowFault
from routing.domain.jsonl.table import FileLimits, RowTable
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
    watch = Stopwatch(timer=timer, started=timer())
    table, resolved = _read_file(body, catalog, settings.limits, at, watch)
    groups = group_rows(table, resolved)
    watch.lap("resolve")
    pricing = Pricing(catalog=catalog, workflow=workflow, settings=settings, at=at)
    return price_rows(ReadTable.of(body, table, groups), groups, pricing, watch)


def _read_file(
    body: bytes, catalog: Catalog, limits: FileLimits, at: datetime, watch: Stopwatch
) -> tuple[RowTable, dict[str, ResolvedModel]]:
    """Read by the fast path; at the first sign of trouble the exact path says all that is wrong."""
    try:
        table = fast.read_rows(body, limits)
        watch.lap("parse")
        return table, {name: resolve_model(catalog, name, table.endpoint, at) for name in table.model_names}
    except (fast.Trouble, ModelRefused):
        exact.report_errors(body, limits, model_check(catalog, at))
    raise AssertionError("the fast path refused a file that the exact path accepts")


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


def group_rows(table: RowTable, resolved: dict[str, ResolvedModel]) -> RowGroups:
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

    @classmethod
    def of(cls, body: bytes, table: RowTable, groups: RowGroups) -> ReadTable:
        """Make rows ready; where two names stand for one model, its rows do not lie side by side yet."""
        is_in_order = len(groups.models) == len(table.model_names)
        return cls(
            body=body,
            table=table,
            texts=table.texts if is_in_order else prepare_texts(table.literals, groups.order),
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
        return estimate_rows(self.texts, first, _facts(self.table, rows), _rules(resolved.model, self.table.endpoint))

    def bodies_of(self, rows: Rows) -> Iterator[asks.Body]:
        """Give rows' bodies by name."""
        return asks.bodies_of(self.body, self.table, rows)

    def place_of(self, row: int) -> RowPlace:
        """Give a row's line and ``custom_id``."""
        return RowPlace(line=int(self.table.lines[row]), custom_id=self.table.custom_ids[row])


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
