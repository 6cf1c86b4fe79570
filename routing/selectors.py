"""Reads of routing: always an organisation's own, bounded and ordered."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import F, Q

from accounts.models import Organisation
from ground.errors import InvalidRequest, NotFound
from ground.ids import created_at_of, is_public_id
from routing.models import Batch, ProviderJob, Quote, StoredFile, SubLane

PAGE_DEFAULT = 20
PAGE_MAX = 100


def quote_by_id(*, organisation: Organisation, public_id: str) -> Quote:
    """Give an organisation's quote.

    Raises:
        NotFound: It has none with this id.
    """
    if is_public_id(public_id, "qt_"):
        # The id's time names the partition; stored times are cut to the id's milliseconds.
        quote = Quote.objects.filter(
            public_id=public_id, created_at=created_at_of(public_id), organisation=organisation
        ).first()
        if quote is not None:
            return quote
    raise NotFound(f"There is no quote {public_id[:60]!r}.", param="quote_id")


def quote_has_expired(quote: Quote) -> bool:
    """Say whether a quote's time is over, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz <= lanehouse_now()", [quote.expires_at])
        (expired,) = cursor.fetchone()
    return bool(expired)


def batch_of_quote(quote: Quote) -> Batch | None:
    """Give the batch that a quote became, if it was accepted."""
    return Batch.objects.filter(quote_id=quote.public_id, organisation_id=quote.organisation_id).first()


def batch_by_id(*, organisation: Organisation, public_id: str) -> Batch:
    """Give an organisation's batch with its files.

    Raises:
        NotFound: It has none with this id.
    """
    batch = (
        Batch.objects.select_related("output_file", "error_file", "results_file")
        .filter(organisation=organisation, public_id=public_id)
        .first()
    )
    if batch is None:
        raise NotFound(f"There is no batch {public_id[:60]!r}.", param="batch_id")
    return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """One page of batches, newest first."""

    batches: tuple[Batch, ...]
    has_more: bool


def batch_page(*, organisation: Organisation, after: str | None, limit: int) -> BatchPage:
    """Give a page of an organisation's batches, newest first; ``after`` is the last id of the page before.

    Raises:
        NotFound: There is no batch ``after``.
        InvalidRequest: ``limit`` is not 1 to 100.
    """
    if not 1 <= limit <= PAGE_MAX:
        raise InvalidRequest(f"limit is 1 to {PAGE_MAX}.", param="limit")
    batches = Batch.objects.select_related("output_file", "error_file", "results_file").filter(
        organisation=organisation
    )
    if after:
        last = batch_by_id(organisation=organisation, public_id=after)
        batches = batches.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    page = list(batches.order_by("-created_at", "-pk")[: limit + 1])
    return BatchPage(batches=tuple(page[:limit]), has_more=len(page) > limit)


def sub_lanes_of(batch: Batch) -> list[SubLane]:
    """Give a batch's sub-lanes in their order."""
    return list(SubLane.objects.filter(batch=batch).order_by("number"))


def jobs_of(batch: Batch) -> list[ProviderJob]:
    """Give a batch's provider jobs in their order, for operators."""
    return list(ProviderJob.objects.filter(batch=batch).order_by("sub_lane__number", F("number")))


def file_by_id(*, organisation: Organisation, public_id: str) -> StoredFile:
    """Give an organisation's file.

    Raises:
        NotFound: It has none with this id.
    """
    stored = StoredFile.objects.filter(organisation=organisation, public_id=public_id).first()
    if stored is None:
        raise NotFound(f"There is no file {public_id[:60]!r}.", param="file_id")
    return stored
