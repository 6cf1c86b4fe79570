"""Both sides of one invoice, compared in the database: attempts are read once, and what differs comes back.

All of it happens in the caller's transaction, on temporary tables that end with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.db import connection

from billing.reconciliation.domain.sides import Place, Sides
from billing.reconciliation.models import InvoiceFile, ProviderInvoice
from billing.reconciliation.names import snapshots_of

_FILE: Final = Path(__file__).parent.parent / "compare.sql"
_NAMED: Final = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name:|\Z)", re.MULTILINE | re.DOTALL)
_STATEMENTS: Final = {name: statement.strip() for name, statement in _NAMED.findall(_FILE.read_text())}
EVIDENCE_COUNT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLines:
    """Lines of one day and cause that are compared with nothing of ours: taxes, credits, what has no known meaning."""

    day: date
    charge_kind: str
    currency: str
    format_note: str
    is_outside: bool
    line_count: int
    pico_usd: int


class Comparison:
    """One comparison: made, then asked for its evidence while the transaction lasts."""

    def __init__(self, invoice: ProviderInvoice, money: InvoiceFile | None, usage: InvoiceFile | None) -> None:
        zone = ZoneInfo(str((money.mapping or {}).get("zone", "UTC")) if money else "UTC")
        files = [file.pk for file in (money, usage) if file is not None]
        next_month = (invoice.period + timedelta(days=32)).replace(day=1)
        self._period = invoice.period
        self._values: dict[str, Any] = {
            "invoice": invoice.pk,
            "provider": invoice.provider,
            "account": invoice.provider_account,
            "period": invoice.period,
            "zone": zone.key,
            # A day more on both sides: the other half of work near midnight.
            "since": datetime.combine(invoice.period - timedelta(days=1), time(), zone),
            "until": datetime.combine(next_month + timedelta(days=1), time(), zone),
            "files": files,
            "money_file": money.pk if money else None,
            "usage_file": usage.pk if usage else None,
        }

    def compare(self) -> list[Sides]:
        """Write the invoice's buckets anew and give the places that differ; those of the months beside are marked."""
        ((has_model, has_class, has_project, is_monthly),) = self._rows("grain")
        self._run("ours_by_job")
        ((ours_has_project,),) = self._rows("our_projects")
        names = snapshots_of([name for (name,) in self._rows("model_names")])
        self._values |= {
            # Without a bill our side is told apart as finely as it is.
            "has_model": has_model or not self._values["files"],
            "has_class": has_class or not self._values["files"],
            "has_project": has_project and ours_has_project,
            "names": list(names),
            "snapshots": list(names.values()),
        }
        self._run("ours_by_class")
        self._run("line_places")
        if is_monthly:
            self._run("line_month")
            self._run("our_month")
        self._execute("ANALYZE match_part, match_line")
        self._execute("DELETE FROM billing_bucket WHERE invoice_id = %(invoice)s")
        self._run("buckets")
        differing = [self._sides(row) for row in self._rows("differing")]
        if differing:
            # For the evidence of each.
            self._execute("CREATE INDEX ON match_part (day, model, tier, token_class, project)")
            self._execute("CREATE INDEX ON match_line (day, model, tier, token_class, project)")
        self._execute(
            "DELETE FROM billing_bucket WHERE invoice_id = %(invoice)s AND date_trunc('month', day) <> %(period)s::date"
        )
        return differing

    def other_lines(self) -> list[OtherLines]:
        """Give what is compared with nothing of ours."""
        names = ("day", "charge_kind", "currency", "format_note", "is_outside", "line_count", "pico_usd")
        return [
            OtherLines(**dict(zip(names, (*row[:-1], int(row[-1] or 0)), strict=True)))
            for row in self._rows("other_lines")
        ]

    def evidence_at(self, place: Place) -> dict[str, Any]:
        """Give the first lines and jobs of a place, the largest jobs first."""
        values = {
            "day": place.day,
            "model": place.model,
            "tier": place.tier,
            "token_class": place.token_class,
            "place_project": place.project,
            "count": EVIDENCE_COUNT,
        }
        jobs = self._rows("jobs_of_place", values)
        return {
            "lines": [_line(row) for row in self._rows("lines_of_place", values)],
            "jobs": [
                {
                    "batch_id": batch_id,
                    "job": job_id,
                    "row_count": row_count,
                    "is_failed": is_failed,
                    "tokens": tokens,
                    "pico_usd": str(pico_usd),
                }
                for batch_id, job_id, row_count, is_failed, tokens, pico_usd in jobs
            ],
        }

    def evidence_of(self, others: OtherLines) -> dict[str, Any]:
        """Give the first of such lines."""
        values = {
            "day": others.day,
            "charge_kind": others.charge_kind,
            "currency": others.currency,
            "format_note": others.format_note,
            "count": EVIDENCE_COUNT,
        }
        return {"lines": [_line(row) for row in self._rows("other_lines_of", values)], "jobs": []}

    def _sides(self, row: Sequence[Any]) -> Sides:
        place = Place(day=row[0], model=row[1], tier=row[2], token_class=row[3], project=row[4])
        return Sides(
            place=place,
            invoiced_line_count=row[5],
            invoiced_quantity=row[6],
            invoiced_pico_usd=int(row[7]),
            ours_job_count=row[8],
            ours_quantity=row[9],
            ours_pico_usd=int(row[10]),
            failed_pico_usd=int(row[11]),
            long_quantity=row[12],
            duplicate_line_pico_usd=int(row[13]),
            duplicate_job_pico_usd=int(row[14]),
            has_such_line=row[15],
            has_such_job=row[16],
            noted=row[17],
            is_outside=place.day.replace(day=1) != self._period,
        )

    def _run(self, name: str) -> None:
        self._execute(_STATEMENTS[name])

    def _rows(self, name: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(_STATEMENTS[name], self._values | (values or {}))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def _execute(self, statement: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, self._values)


def _line(row: Sequence[Any]) -> dict[str, Any]:
    names = ("line", "model", "tier", "token_class", "project", "quantity", "pico_usd", "reference", "raw")
    values = dict(zip(names, row, strict=True))
    return values | {"pico_usd": str(values["pico_usd"] or 0)}
