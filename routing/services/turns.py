"""Whose due row a worker claims next: deficit round robin between organisations, the earliest finish inside one.

Of each step the table of turns keeps what every organisation was given, in the step's own units (tokens, rows, polls);
and so it does of each lane whose room is limited (``routing.services.room``).
The organisation that is furthest behind goes first; one that had nothing to do begins where the others are, and saves
nothing up. So many large pieces of work of one organisation never keep a small one of another waiting for more than
the piece that a worker has in hand, whatever the step. Inside one organisation size counts in whole minutes: of two
small pieces the older goes first, whatever their estimates.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import connection

from ground.leases import Lease
from routing.domain.line import SECONDS_LATER_BY_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A step's table, how it comes to its batch, what its rows count, and by how much a unit counts as later."""

    table: str
    state: str
    batch_id: str
    units: str
    later_by_unit_seconds: float
    # False where a claim is not yet work: what was really done is counted by :func:`count_turn`.
    is_counted: bool = True


class Step(enum.StrEnum):
    """The steps whose rows are claimed in turn."""

    START = "start"
    SUBMIT = "submit"
    POLL = "poll"
    COLLECT = "collect"
    FINISH = "finish"


_TOKEN_SECONDS: Final = SECONDS_LATER_BY_TOKEN
# A row is taken for a hundred tokens.
_ROW_SECONDS: Final = 100 * _TOKEN_SECONDS
_WORKS: Final = {
    Step.START: _Work(
        table="routing_sublane",
        state="state",
        batch_id="due.batch_id",
        units="due.estimated_input_tokens",
        later_by_unit_seconds=_TOKEN_SECONDS,
    ),
    Step.SUBMIT: _Work(
        table="routing_providerjob",
        state="state",
        batch_id="due.batch_id",
        units="due.estimated_input_tokens",
        later_by_unit_seconds=_TOKEN_SECONDS,
        is_counted=False,
    ),
    Step.POLL: _Work(
        table="routing_providerjob", state="state", batch_id="due.batch_id", units="1", later_by_unit_seconds=0
    ),
    Step.COLLECT: _Work(
        table="routing_providerjob",
        state="state",
        batch_id="due.batch_id",
        units="due.row_count",
        later_by_unit_seconds=_ROW_SECONDS,
    ),
    Step.FINISH: _Work(
        table="routing_batch",
        state="status",
        batch_id="due.id",
        units="due.row_count",
        later_by_unit_seconds=_ROW_SECONDS,
    ),
}
_COUNT: Final = """
    INSERT INTO routing_turn AS turn (queue, organisation_id, begun_units, given_units)
    SELECT %(queue)s, organisation_id, begun_units, begun_units + units FROM {picked}
    ON CONFLICT (queue, organisation_id) DO UPDATE SET
        begun_units = greatest(turn.begun_units, excluded.begun_units),
        given_units = greatest(turn.given_units, excluded.begun_units) + excluded.given_units - excluded.begun_units
"""
# Where those are who had their turn last: nobody begins further back.
_ROUND: Final = "SELECT coalesce(max(begun_units), 0) FROM routing_turn WHERE queue = %(queue)s"


def claim_in_turn(step: Step, states: tuple[str, ...]) -> Lease | None:
    """Claim the row that is next in turn of those that are due in one of ``states``, or give None."""
    work = _WORKS[step]
    counted = f", counted AS ({_COUNT.format(picked='picked')})" if work.is_counted else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH picked AS (
                SELECT due.id, batch.organisation_id, {work.units} AS units,
                    greatest(coalesce(turn.given_units, 0), ({_ROUND})) AS begun_units
                FROM {work.table} due
                JOIN routing_batch batch ON batch.id = {work.batch_id}
                LEFT JOIN routing_turn turn ON turn.queue = %(queue)s AND turn.organisation_id = batch.organisation_id
                WHERE due.{work.state} = ANY(%(states)s) AND due.due_at <= lanehouse_now()
                  AND (due.lease_until IS NULL OR due.lease_until <= lanehouse_now())
                ORDER BY begun_units, coalesce(batch.finish_by, batch.expires_at)
                    + make_interval(mins => floor({work.units} * %(later)s / 60)::integer), due.id
                LIMIT 1 FOR UPDATE OF due SKIP LOCKED
            ){counted}
            UPDATE {work.table} SET lease_until = lanehouse_now() + make_interval(secs => %(lease)s), fence = fence + 1
            FROM picked WHERE {work.table}.id = picked.id RETURNING {work.table}.id, {work.table}.fence
            """,  # noqa: S608 -- tables and columns of ours
            {
                "queue": step,
                "states": list(states),
                "later": work.later_by_unit_seconds,
                "lease": settings.LEASE_SECONDS,
            },
        )
        found = cursor.fetchone()
    return Lease(table=work.table, row_id=found[0], fence=found[1]) if found else None


def given_units(queue: str) -> Mapping[int, int]:
    """Give what each organisation was given in a queue; one that is not named begins where the last turn began."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT organisation_id, begun_units, given_units FROM routing_turn WHERE queue = %s", [queue])
        turns = cursor.fetchall()
    round_units = max((begun for _, begun, _ in turns), default=0)
    return defaultdict(lambda: round_units, {each: max(given, round_units) for each, _, given in turns})


def count_turn(queue: str, organisation_id: int, units: int) -> None:
    """Count what an organisation was given in a queue whose claims do not count by themselves."""
    given = f"""(
        SELECT %(organisation)s::bigint AS organisation_id, %(units)s::bigint AS units, greatest(
            (SELECT given_units FROM routing_turn WHERE queue = %(queue)s AND organisation_id = %(organisation)s),
            ({_ROUND})) AS begun_units
    ) AS given"""  # noqa: S608 -- the round is a query of ours
    with connection.cursor() as cursor:
        cursor.execute(_COUNT.format(picked=given), {"queue": queue, "organisation": organisation_id, "units": units})
