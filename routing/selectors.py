"""Reads of routing: always an organisation's own, bounded and ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec
import orjson
from django.db import connection
from django.db.models import BooleanField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet, Sum

from accounts.models import Organisation
from accounts.selectors import DATABASE_NOW
from ground.errors import InvalidRequest, NotFound
from ground.filters import EVER, Span
from ground.ids import created_at_of, is_public_id
from routing.models import Batch, BatchStatus, ProviderJob, Quote, QuoteStatus, RowOutcome, StoredFile, SubLane

PAGE_DEFAULT = 20
PAGE_MAX = 100
# OpenAI's.
FILE_PAGE_MAX = 10_000


def quote_by_id(*, organisation: Organisation, public_id: str) -> Quote:
    """Give an organisation's quote.

    Raises:
        NotFound: It has none with this id.
    """
    at = _created_at(public_id)
    if at is not None:
        # The id's time names the partition; stored times are cut to the id's milliseconds.
        quote = Quote.objects.filter(public_id=public_id, created_at=at, organisation=organisation).first()
        if quote is not None:
            return quote
    raise NotFound(f"There is no quote {public_id[:60]!r}.", param="quote_id")


def _created_at(quote_id: str) -> datetime | None:
    """Give the time in a quote's id; None where it is no id that we can have given."""
    if not is_public_id(quote_id, "qt_"):
        return None
    try:
        return created_at_of(quote_id)
    except OverflowError:
        # An id can spell instants after the year 9999.
        return None


def quote_has_expired(quote: Quote) -> bool:
    """Say whether a quote's time is over, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz <= lanehouse_now()", [quote.expires_at])
        (expired,) = cursor.fetchone()
    return bool(expired)


def batch_of_quote(quote: Quote) -> Batch | None:
    """Give the batch that a quote became, if it was accepted."""
    return Batch.objects.filter(quote_id=quote.public_id, organisation_id=quote.organisation_id).first()


def batch_by_id(*, organisation: Organisation, public_id: str, param: str = "batch_id") -> Batch:
    """Give an organisation's batch with its files.

    Args:
        organisation: Whose batch it is.
        public_id: The batch's id.
        param: What the caller named it by, for the refusal.

    Raises:
        NotFound: It has none with this id.
    """
    batch = None
    if is_public_id(public_id, "batch_"):
        batch = _batches_with_files(organisation).filter(public_id=public_id).first()
    if batch is None:
        raise NotFound(f"There is no batch {public_id[:60]!r}.", param=param)
    return batch


def _batches_with_files(organisation: Organisation) -> QuerySet[Batch]:
    return Batch.objects.select_related("organisation", "output_file", "error_file", "results_file").filter(
        organisation=organisation
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """One page of batches, newest first."""

    batches: tuple[Batch, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """Which batches a list shows; what is empty leaves all.

    Args:
        state: A key of ``BATCH_STATES``.
        model: Part of a model's name.
        text: Part of the batch's id or of the name in its metadata.
        lane: Part of a lane's id.
        span: When they were accepted.
    """

    state: str = ""
    model: str = ""
    text: str = ""
    lane: str = ""
    span: Span = EVER

    def applied_to(self, batches: QuerySet[Batch]) -> QuerySet[Batch]:
        """Give those of the batches that match everything."""
        if self.state:
            batches = batches.filter(BATCH_STATES[self.state])
        if self.text:
            batches = batches.filter(Q(public_id__icontains=self.text) | Q(metadata__name__icontains=self.text))
        if self.model or self.lane:
            lanes = SubLane.objects.filter(
                batch=OuterRef("pk"), model_slug__icontains=self.model, lane_id__icontains=self.lane
            )
            batches = batches.filter(Exists(lanes))
        if self.span.since is not None:
            batches = batches.filter(created_at__gte=self.span.since)
        if self.span.until is not None:
            batches = batches.filter(created_at__lt=self.span.until)
        return batches


_OPEN = ("validating", "in_progress", "finalizing", "cancelling")
BATCH_STATES: Mapping[str, Q] = {
    "running": Q(status__in=_OPEN),
    "completed": Q(status=BatchStatus.COMPLETED, failed_count=0),
    "partly_failed": Q(status=BatchStatus.COMPLETED, failed_count__gt=0),
    "failed": Q(status=BatchStatus.FAILED),
    "expired": Q(status=BatchStatus.EXPIRED),
    "cancelled": Q(status=BatchStatus.CANCELLED),
}
EVERY_BATCH = BatchFilter()


class Choice(Protocol):
    """Narrows a list of batches."""

    def applied_to(self, batches: QuerySet[Batch]) -> QuerySet[Batch]:
        """Give those of the batches that are wanted."""


def batch_page(*, organisation: Organisation, after: str | None, limit: int, chosen: Choice = EVERY_BATCH) -> BatchPage:
    """Give a page of an organisation's batches, newest first; ``after`` is the last id of the page before.

    Raises:
        NotFound: There is no batch ``after``.
        InvalidRequest: ``limit`` is not 1 to 100.
    """
    if not 1 <= limit <= PAGE_MAX:
        raise InvalidRequest(f"limit is 1 to {PAGE_MAX}.", param="limit")
    batches = chosen.applied_to(_batches_with_files(organisation))
    if after:
        last = batch_by_id(organisation=organisation, public_id=after, param="after")
        batches = batches.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    page = list(batches.order_by("-created_at", "-pk")[: limit + 1])
    return BatchPage(batches=tuple(page[:limit]), has_more=len(page) > limit)


def sub_lanes_of(batch: Batch) -> list[SubLane]:
    """Give a batch's sub-lanes in their order."""
    return list(SubLane.objects.filter(batch=batch).order_by("number"))


def sub_lanes_of_batches(batches: Sequence[Batch]) -> dict[int, list[SubLane]]:
    """Give the sub-lanes of several batches by the batch's key, in their order; one query whatever their number."""
    found: dict[int, list[SubLane]] = {batch.pk: [] for batch in batches}
    for sub_lane in SubLane.objects.filter(batch__in=found).order_by("batch_id", "number"):
        found[sub_lane.batch_id].append(sub_lane)
    return found


def collected_charge_by_group(batch: Batch) -> dict[int, int]:
    """Give the exact charge in pico-USD of the rows collected so far, by model group; fees come with settlement."""
    sums = (
        RowOutcome.objects.filter(accepted_at=batch.created_at, batch_id=batch.pk)
        .values_list("group_index")
        .annotate(charge_pico_usd=Sum("charge_pico_usd"))
        .order_by("group_index")
    )
    return {group_index: int(charge_pico_usd) for group_index, charge_pico_usd in sums}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteTerms:
    """What a batch's quote said beyond what the batch keeps: the estimate by name, p95 by lane, and the reasons."""

    estimate: Mapping[str, int]
    p95_completion_minutes: Mapping[tuple[str, str], int]
    reasons: tuple[str, ...]


def quote_terms_of(batch: Batch) -> QuoteTerms | None:
    """Give what the batch's quote said, lanes by (``model_snapshot``, ``lane_id``); None without figures, or gone."""
    quote = Quote.objects.filter(
        public_id=batch.quote_id, created_at=created_at_of(batch.quote_id), organisation_id=batch.organisation_id
    ).first()
    if quote is None or quote.status != QuoteStatus.READY:
        return None
    answer = orjson.loads(bytes(quote.answer))
    return QuoteTerms(
        estimate=answer["estimate"],
        p95_completion_minutes={
            (lane["model_snapshot"], lane["lane_id"]): lane["p95_completion_minutes"] for lane in answer["lanes"]
        },
        reasons=tuple(group["text"] for group in answer["explanation"]),
    )


def jobs_of(batch: Batch) -> list[ProviderJob]:
    """Give a batch's provider jobs in their order, for operators."""
    return list(ProviderJob.objects.filter(batch=batch).order_by("sub_lane__number", F("number")))


def file_by_id(*, organisation: Organisation, public_id: str, param: str = "file_id") -> StoredFile:
    """Give an organisation's file, while it is kept (by the database's clock).

    Args:
        organisation: Whose file it is.
        public_id: The file's id.
        param: What the caller named it by, for the refusal.

    Raises:
        NotFound: It has none with this id, it was deleted, or its time is over.
    """
    stored = None
    if is_public_id(public_id, "file-"):
        stored = kept_files(organisation).filter(public_id=public_id).first()
    if stored is None:
        raise NotFound(f"There is no file {public_id[:60]!r}.", param=param)
    return stored


def kept_files(organisation: Organisation) -> QuerySet[StoredFile]:
    """Give an organisation's files that are neither deleted nor over their time."""
    return StoredFile.objects.filter(organisation=organisation, deleted_at=None).filter(
        Q(expires_at__isnull=True) | Q(expires_at__gt=DATABASE_NOW)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """One page of files."""

    files: tuple[StoredFile, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileQuote:
    """What is shown of a file's newest quote. ``total_micro_usd`` is its estimate; None until it is priced."""

    public_id: str
    status: str
    expires_at: datetime | None = None
    total_micro_usd: int | None = None


class _Total(msgspec.Struct):
    total_micro_usd: int


def quotes_of_files(organisation: Organisation, files: Sequence[StoredFile]) -> dict[str, FileQuote]:
    """Give the newest quote of each uploaded file by the quote's id; two queries whatever their number."""
    ids = [stored.quote_id for stored in files if stored.quote_id]
    if not ids:
        return {}
    # An id begins with its time, which names the partitions.
    span = (created_at_of(min(ids)), created_at_of(max(ids)))
    rows = Quote.objects.filter(public_id__in=ids, created_at__range=span, organisation=organisation)
    batches = Batch.objects.filter(quote_id__in=ids, organisation=organisation)
    accepted = set(batches.values_list("quote_id", flat=True))
    found: dict[str, FileQuote] = {}
    is_over = ExpressionWrapper(Q(expires_at__lte=DATABASE_NOW), output_field=BooleanField())
    for public_id, status, expires_at, over, plan in rows.annotate(is_over=is_over).values_list(
        "public_id", "status", "expires_at", "is_over", "plan"
    ):
        is_priced = status == QuoteStatus.READY
        shown = "accepted" if public_id in accepted and is_priced else "expired" if is_priced and over else status
        found[public_id] = FileQuote(
            public_id=public_id,
            status=shown,
            expires_at=expires_at,
            total_micro_usd=msgspec.json.decode(bytes(plan), type=_Total).total_micro_usd if is_priced else None,
        )
    return found


def file_page(
    *,
    organisation: Organisation,
    after: str | None = None,
    limit: int = FILE_PAGE_MAX,
    is_newest_first: bool = True,
    purpose: str | None = None,
) -> FilePage:
    """Give a page of an organisation's files by creation time; ``after`` is the last id of the page before.

    Raises:
        NotFound: There is no file ``after``.
        InvalidRequest: ``limit`` is not 1 to 10,000.
    """
    if not 1 <= limit <= FILE_PAGE_MAX:
        raise InvalidRequest(f"limit is 1 to {FILE_PAGE_MAX}.", param="limit")
    files = kept_files(organisation)
    if purpose:
        files = files.filter(purpose=purpose)
    if after:
        # Also a deleted file marks its place: a program may delete what it has read, and read on.
        last = StoredFile.objects.filter(organisation=organisation, public_id=after).first()
        if last is None:
            raise NotFound(f"There is no file {after[:60]!r}.", param="after")
        side = "lt" if is_newest_first else "gt"
        files = files.filter(
            Q(**{f"created_at__{side}": last.created_at}) | Q(created_at=last.created_at, **{f"pk__{side}": last.pk})
        )
    order = ("-created_at", "-pk") if is_newest_first else ("created_at", "pk")
    page = list(files.order_by(*order)[: limit + 1])
    return FilePage(files=tuple(page[:limit]), has_more=len(page) > limit)
