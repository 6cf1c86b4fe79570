"""``/v1/usage``: OpenAI's usage buckets, with lanes, batches and charges added."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, cast
from zoneinfo import ZoneInfo

from django.http import HttpRequest
from ninja import Query, Router

from accounts.models import ApiKey, Organisation
from accounts.selectors import Caller
from accounts.zones import zone_named
from billing.domain.calendar import QUARTER, BucketWidth, borders, quarter_after, quarter_before
from billing.usage.reading import Dimension, UsageChoice, UsageRow, keys_of_usage, usage_rows
from billing.usage.schemas import UsageBucketAnswer, UsagePageAnswer, UsageResultAnswer
from ground import clock
from ground.errors import InvalidRequest

router = Router(tags=["usage"])
# How many buckets a page has: where nothing is said, and at most.
_LIMITS: Final = {
    BucketWidth.QUARTER_HOUR: (96, 672),
    BucketWidth.HOUR: (24, 168),
    BucketWidth.DAY: (31, 400),
}
_SPANS: Final = {
    BucketWidth.QUARTER_HOUR: QUARTER,
    BucketWidth.HOUR: timedelta(hours=1),
    BucketWidth.DAY: timedelta(days=1),
}
_RESULTS_PER_PAGE: Final = 10_000
_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
_DIMENSIONS: Final = {
    "model": Dimension.MODEL,
    "api_key_id": Dimension.KEY,
    "key": Dimension.KEY,
    "lane_id": Dimension.LANE,
    "lane": Dimension.LANE,
    "batch_id": Dimension.BATCH,
    "batch": Dimension.BATCH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """What a page is of: the rest of the range, in UTC on quarters of an hour."""

    since: datetime
    until: datetime


@router.get("/usage", response=UsagePageAnswer)
def list_usage(  # noqa: PLR0913 -- the parameters are OpenAI's
    request: HttpRequest,
    *,
    start_time: int,
    end_time: int | None = None,
    bucket_width: BucketWidth = BucketWidth.DAY,
    group_by: Annotated[list[str] | None, Query()] = None,
    models: Annotated[list[str] | None, Query()] = None,
    api_key_ids: Annotated[list[str] | None, Query()] = None,
    lane_ids: Annotated[list[str] | None, Query()] = None,
    batch_ids: Annotated[list[str] | None, Query()] = None,
    zone: str | None = None,
    limit: Annotated[int | None, Query(ge=1)] = None,
    page: str | None = None,
) -> UsagePageAnswer:
    """Give what was used and charged from `start_time` to before `end_time`, in buckets of 15 minutes, hours or days.

    Usage belongs to the instant at which its batch was settled. Days and hours are those of `zone`, else of the
    organisation's reporting zone; the range's ends are widened to quarters of an hour, never to days, so the buckets of
    any pages add up to the range and to the receipts. `group_by` takes `model`, `api_key_id`, `lane_id` and
    `batch_id`, several times or with commas. Ask again with `next_page` as `page` while `has_more` is true.
    """
    organisation = cast("Caller", request.auth).organisation  # type: ignore[attr-defined]  # django-ninja adds it
    chosen_zone = _zone(organisation, zone)
    by = _dimensions(_listed(request, "group_by", group_by))
    asked = _range_after(page) if page is not None else _range(start_time, end_time)
    default, most = _LIMITS[bucket_width]
    bucket_count = min(default if limit is None else limit, most)
    choice = UsageChoice(
        keys=_listed(request, "api_key_ids", api_key_ids),
        models=_listed(request, "models", models),
        lanes=_listed(request, "lane_ids", lane_ids),
        batches=_listed(request, "batch_ids", batch_ids),
    )
    # Of a long range only what a page shows is cut into buckets.
    reach = asked.since + (bucket_count + 2) * _SPANS[bucket_width]
    found = borders(asked.since, min(asked.until, reach), bucket_width, chosen_zone)[: bucket_count + 1]
    rows = usage_rows(organisation, found, by=by, chosen=choice, limit=_RESULTS_PER_PAGE + 1)
    if len(rows) > _RESULTS_PER_PAGE:
        # The last bucket may be cut off: it begins the next page.
        found = found[: rows[-1].bucket + 1]
        rows = [row for row in rows if row.bucket < rows[-1].bucket]
        if not rows:
            raise InvalidRequest(
                f"A bucket has more than {_RESULTS_PER_PAGE:,} results: take a narrower 'bucket_width', or an export.",
                param="bucket_width",
            )
    has_more = bool(found) and found[-1] < asked.until
    return UsagePageAnswer(
        data=_buckets(organisation, found, by, rows),
        has_more=has_more,
        next_page=_cursor(found[-1], asked.until) if has_more else None,
        zone=chosen_zone.key,
    )


def _buckets(
    organisation: Organisation, found: Sequence[datetime], by: Sequence[Dimension], rows: Sequence[UsageRow]
) -> list[UsageBucketAnswer]:
    keys: dict[int, ApiKey] = {}
    if Dimension.KEY in by:
        place = list(by).index(Dimension.KEY)
        keys = keys_of_usage(organisation, [row.group[place] for row in rows])
    results: list[list[UsageResultAnswer]] = [[] for _ in found[1:]]
    for row in rows:
        results[row.bucket].append(UsageResultAnswer.of(row.sums, dict(zip(by, row.group, strict=True)), keys))
    return [
        UsageBucketAnswer(start_time=int(start.timestamp()), end_time=int(end.timestamp()), results=listed)
        for start, end, listed in zip(found, found[1:], results, strict=False)
    ]


def _zone(organisation: Organisation, name: str | None) -> ZoneInfo:
    found = zone_named(organisation.reporting_zone if name is None else name)
    if found is None:
        raise InvalidRequest(
            "'zone' is no time zone that we know: name one of the IANA list, such as 'Asia/Kathmandu'.", param="zone"
        )
    return found


def _dimensions(names: Sequence[str]) -> tuple[Dimension, ...]:
    unknown = [name for name in names if name not in _DIMENSIONS]
    if unknown:
        raise InvalidRequest("'group_by' takes 'model', 'api_key_id', 'lane_id' and 'batch_id'.", param="group_by")
    return tuple(dict.fromkeys(_DIMENSIONS[name] for name in names))


def _listed(request: HttpRequest, name: str, values: list[str] | None) -> tuple[str, ...]:
    """Give a parameter that may come several times, with commas, or with brackets as OpenAI's SDKs write lists."""
    written = [*(values or []), *request.GET.getlist(f"{name}[]")]
    return tuple(part for value in written for part in value.split(",") if part)


def _range(start_time: int, end_time: int | None) -> _Range:
    since = _instant(start_time, "start_time")
    until = clock.now() if end_time is None else _instant(end_time, "end_time")
    if until <= since:
        raise InvalidRequest("'end_time' must be after 'start_time'.", param="end_time")
    return _Range(since=quarter_before(since), until=quarter_after(until))


def _instant(seconds: int, param: str) -> datetime:
    if not _FIRST.timestamp() <= seconds < _LAST.timestamp():
        raise InvalidRequest(f"'{param}' is in Unix seconds, from the year 2000 on.", param=param)
    return datetime.fromtimestamp(seconds, UTC)


def _cursor(since: datetime, until: datetime) -> str:
    text = f"{int(since.timestamp())}-{int(until.timestamp())}"
    return "page_" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _range_after(page: str) -> _Range:
    try:
        text = page.removeprefix("page_")
        since, until = (
            int(part) for part in base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).split(b"-")
        )
        asked = _Range(since=_instant(since, "page"), until=_instant(until, "page"))
    except (ValueError, binascii.Error, InvalidRequest):
        raise InvalidRequest("'page' is the 'next_page' of the page before.", param="page") from None
    if asked.until <= asked.since or asked.since != quarter_before(asked.since):
        raise InvalidRequest("'page' is the 'next_page' of the page before.", param="page")
    return asked
