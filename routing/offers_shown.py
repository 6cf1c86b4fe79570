"""Reads of an organisation's quotes for its list, newest first, with the state each has now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q

from accounts.models import Organisation
from accounts.selectors import DATABASE_NOW
from ground.filters import EVER, Span
from routing.models import Batch, Quote, QuoteStatus
from routing.selectors import quote_by_id

_IS_ACCEPTED = Exists(Batch.objects.filter(quote_id=OuterRef("public_id")))
QUOTE_STATES: Mapping[str, Q] = {
    "open": Q(status=QuoteStatus.READY, expires_at__gt=DATABASE_NOW) & ~Q(_IS_ACCEPTED),
    "accepted": Q(_IS_ACCEPTED),
    "expired": Q(status=QuoteStatus.READY, expires_at__lte=DATABASE_NOW) & ~Q(_IS_ACCEPTED),
    "pending": Q(status=QuoteStatus.PENDING),
    "failed": Q(status=QuoteStatus.FAILED),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedQuote:
    """One line of the list. ``state`` is a key of :data:`QUOTE_STATES`; ``answer`` is empty until it is ready."""

    quote: Quote
    state: str
    batch_id: str | None
    answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotePage:
    """One page of quotes, newest first."""

    quotes: tuple[ListedQuote, ...]
    has_more: bool


def quote_page(
    *, organisation: Organisation, after: str | None, limit: int, state: str = "", text: str = "", span: Span = EVER
) -> QuotePage:
    """Give a page of an organisation's quotes; ``after`` is the last id of the page before.

    Args:
        organisation: Whose they are.
        after: None for the first page.
        limit: How many at most.
        state: A key of :data:`QUOTE_STATES`; empty for all.
        text: Part of the quote's id or of its workflow's name.
        span: When they were made.

    Raises:
        NotFound: There is no quote ``after``.
    """
    quotes = Quote.objects.filter(organisation=organisation)
    if state:
        quotes = quotes.filter(QUOTE_STATES[state])
    if text:
        quotes = quotes.filter(Q(public_id__icontains=text) | Q(workflow__icontains=text))
    if span.since is not None:
        quotes = quotes.filter(created_at__gte=span.since)
    if span.until is not None:
        quotes = quotes.filter(created_at__lt=span.until)
    if after:
        last = quote_by_id(organisation=organisation, public_id=after)
        quotes = quotes.filter(
            Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, public_id__lt=last.public_id)
        )
    quotes = quotes.annotate(has_expired=ExpressionWrapper(Q(expires_at__lte=DATABASE_NOW), BooleanField()))
    found = list(quotes.defer("plan").order_by("-created_at", "-public_id")[: limit + 1])
    batches = dict(
        Batch.objects.filter(organisation=organisation, quote_id__in=[quote.public_id for quote in found]).values_list(
            "quote_id", "public_id"
        )
    )
    return QuotePage(
        quotes=tuple(_listed(quote, batches.get(quote.public_id)) for quote in found[:limit]),
        has_more=len(found) > limit,
    )


def _listed(quote: Quote, batch_id: str | None) -> ListedQuote:
    state = str(quote.status)
    if batch_id:
        state = "accepted"
    elif quote.status == QuoteStatus.READY:
        state = "expired" if quote.has_expired else "open"  # type: ignore[attr-defined]  # annotated above
    stored = bytes(quote.answer)
    return ListedQuote(quote=quote, state=state, batch_id=batch_id, answer=orjson.loads(stored) if stored else {})
