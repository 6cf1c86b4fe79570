"""Reads of usage: sums by bucket of time and by key, model, lane or batch. Always of one organisation."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from accounts.models import ApiKey, Organisation


class Dimension(enum.StrEnum):
    """What usage is told apart by; the value is its column."""

    KEY = "api_key_id"
    MODEL = "model_slug"
    LANE = "lane_id"
    BATCH = "batch_public_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSums:
    """What was used and charged. Tokens by kind are disjoint; the usage charge is net of credits above the ceiling."""

    request_count: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    usage_charge_micro_usd: int = 0
    fee_micro_usd: int = 0

    @property
    def prompt_tokens(self) -> int:
        """All input, read from or written to a cache or not."""
        return self.input_tokens + self.cached_input_tokens + self.cache_write_tokens

    @property
    def charge_micro_usd(self) -> int:
        """What the receipts say in all."""
        return self.usage_charge_micro_usd + self.fee_micro_usd

    def __add__(self, other: UsageSums) -> UsageSums:
        """Give both together."""
        return UsageSums(**{name: getattr(self, name) + getattr(other, name) for name in _SUMS})


_SUMS: Final = tuple(UsageSums.__slots__)
NOTHING: Final = UsageSums()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """The usage of one group in one bucket. ``group`` has a value for each dimension asked for, in that order."""

    bucket: int
    group: tuple[Any, ...]
    sums: UsageSums


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChoice:
    """Which usage is meant: any of the named values of each dimension; none named is all. Keys by public id."""

    keys: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()


ALL_USAGE: Final = UsageChoice()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchUsage:
    """The usage of one batch, as its receipt has it."""

    receipt_id: int
    batch_public_id: str
    settled_at: datetime
    sums: UsageSums


def usage_rows(
    organisation: Organisation,
    borders: Sequence[datetime],
    *,
    by: Sequence[Dimension] = (),
    chosen: UsageChoice = ALL_USAGE,
    limit: int,
) -> list[UsageRow]:
    """Give usage by bucket and group, in the order of the buckets; a bucket without usage has no row.

    Read from the roll-up unless batches are asked for, so that its cost is that of the quarters of an hour in which
    anything was settled, however many batches that were.

    Args:
        organisation: Whose usage it is.
        borders: Of the buckets, ascending, on quarters of an hour; one more than there are buckets.
        by: What it is told apart by.
        chosen: Which of it.
        limit: At most so many rows.
    """
    if len(borders) < 2:  # noqa: PLR2004 -- a bucket has two borders
        return []
    is_by_batch = Dimension.BATCH in by or bool(chosen.batches)
    columns = [dimension.value for dimension in by]
    conditions, values = _conditions(organisation, chosen)
    positions = ", ".join(str(number) for number in range(1, len(columns) + 2))
    query = f"""
        SELECT width_bucket(bucket_at, %(borders)s::timestamptz[]) - 1, {"".join(f"{name}, " for name in columns)}
               {", ".join(f"sum({name})::bigint" for name in _SUMS)}
        FROM {"usage_fact" if is_by_batch else "usage_rollup"}
        WHERE bucket_at >= %(since)s AND bucket_at < %(until)s AND {conditions}
              {"AND settled_at >= %(since)s AND settled_at < %(until)s" if is_by_batch else ""}
        GROUP BY {positions} ORDER BY {positions} LIMIT %(limit)s
    """  # noqa: S608 -- names of our own
    values |= {"borders": list(borders), "since": borders[0], "until": borders[-1], "limit": limit}
    return [
        UsageRow(bucket=row[0], group=tuple(row[1 : len(columns) + 1]), sums=_sums(row[len(columns) + 1 :]))
        for row in _fetched(query, values)
    ]


def batch_usage_page(
    organisation: Organisation,
    since: datetime,
    until: datetime,
    *,
    chosen: UsageChoice = ALL_USAGE,
    before_receipt: tuple[datetime, int] | None = None,
    limit: int,
) -> tuple[list[BatchUsage], bool]:
    """Give up to ``limit`` batches settled from ``since`` to before ``until``, newest first, and whether more follow.

    ``before_receipt`` is the settlement and the receipt of the last batch of the page before.
    """
    conditions, values = _conditions(organisation, chosen)
    query = f"""
        SELECT receipt_id, batch_public_id, settled_at, {", ".join(f"sum({name})::bigint" for name in _SUMS)}
        FROM usage_fact
        WHERE bucket_at >= %(since)s AND bucket_at < %(until)s AND {conditions}
          AND settled_at >= %(since)s AND settled_at < %(until)s
          AND (%(before_at)s::timestamptz IS NULL OR (settled_at, receipt_id) < (%(before_at)s, %(before_id)s))
        GROUP BY settled_at, receipt_id, batch_public_id
        ORDER BY settled_at DESC, receipt_id DESC LIMIT %(limit)s
    """  # noqa: S608 -- names of our own
    before_at, before_id = before_receipt or (None, 0)
    values |= {"since": since, "until": until, "before_at": before_at, "before_id": before_id, "limit": limit + 1}
    found = [
        BatchUsage(receipt_id=row[0], batch_public_id=row[1], settled_at=row[2], sums=_sums(row[3:]))
        for row in _fetched(query, values)
    ]
    return found[:limit], len(found) > limit


def last_usage_before(organisation: Organisation, until: datetime) -> datetime | None:
    """Give the quarter of an hour of the last usage before an instant; None where there was none."""
    query = """
        SELECT max(bucket_at) FROM usage_rollup WHERE organisation_id = %(organisation_id)s AND bucket_at < %(until)s
    """
    ((at,),) = _fetched(query, {"organisation_id": organisation.pk, "until": until})
    found: datetime | None = at
    return found


def keys_of_usage(organisation: Organisation, rows: Sequence[int]) -> dict[int, ApiKey]:
    """Give an organisation's keys by what facts call them."""
    return {key.pk: key for key in ApiKey.objects.filter(organisation=organisation, pk__in=set(rows))}


def _conditions(organisation: Organisation, chosen: UsageChoice) -> tuple[str, dict[str, Any]]:
    conditions = ["organisation_id = %(organisation_id)s"]
    values: dict[str, Any] = {"organisation_id": organisation.pk}
    if chosen.keys:
        keys = ApiKey.objects.filter(organisation=organisation, public_id__in=chosen.keys)
        conditions.append("api_key_id = ANY(%(keys)s)")
        values["keys"] = list(keys.values_list("pk", flat=True))
    for name, column, wanted in (
        ("models", "model_slug", chosen.models),
        ("lanes", "lane_id", chosen.lanes),
        ("batches", "batch_public_id", chosen.batches),
    ):
        if wanted:
            conditions.append(f"{column} = ANY(%({name})s)")
            values[name] = list(wanted)
    return " AND ".join(conditions), values


def _sums(row: Sequence[Any]) -> UsageSums:
    return UsageSums(**dict(zip(_SUMS, row, strict=True)))


def _fetched(query: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
