"""Reads of adjustments."""

from __future__ import annotations

from django.db.models import Q, Sum

from accounts.models import Organisation
from billing.adjustments.models import Adjustment, GrantBurn
from ground.errors import NotFound
from ground.filters import EVER, Span
from ground.ids import is_public_id

_RELATED = ("organisation", "receipt", "reverses", "requested_by", "decided_by", "transaction", "grant")


def adjustment_page(
    *, after: str | None, limit: int, text: str = "", kind: str = "", state: str = "", span: Span = EVER
) -> tuple[list[Adjustment], bool]:
    """Give up to ``limit`` adjustments of all organisations, newest first, and whether there are more.

    Args:
        after: Public id of the last one of the page before.
        limit: How many a page has.
        text: A customer's id, namespace or part of its name, or part of an adjustment's or a receipt's id.
        kind: An :class:`AdjustmentKind`.
        state: An :class:`AdjustmentState`.
        span: When it was asked for.

    Raises:
        NotFound: ``after`` is no adjustment.
    """
    found = Adjustment.objects.select_related(*_RELATED).order_by("-pk")
    if text:
        customer = Q(organisation__public_id=text) | Q(organisation__slug=text) | Q(organisation__name__icontains=text)
        found = found.filter(customer | Q(public_id__icontains=text) | Q(receipt__public_id__icontains=text))
    if kind:
        found = found.filter(kind=kind)
    if state:
        found = found.filter(state=state)
    if span.since is not None:
        found = found.filter(requested_at__gte=span.since)
    if span.until is not None:
        found = found.filter(requested_at__lt=span.until)
    if after is not None:
        found = found.filter(pk__lt=adjustment_by_id(after).pk)
    page = list(found[: limit + 1])
    return page[:limit], len(page) > limit


def adjustment_by_id(public_id: str) -> Adjustment:
    """Give an adjustment.

    Raises:
        NotFound: There is none by that id.
    """
    found = Adjustment.objects.select_related(*_RELATED).filter(public_id=public_id)
    adjustment = found.first() if is_public_id(public_id, "adj_") else None
    if adjustment is None:
        raise NotFound("There is no such adjustment.")
    return adjustment


def given_back_micro_usd(adjustment: Adjustment) -> int:
    """Give what a posted adjustment gave back to grants, in micro-USD; what came to an expired one has expired."""
    burns = GrantBurn.objects.filter(transaction_id=adjustment.transaction_id, amount_micro_usd__lt=0)
    return -int(burns.aggregate(sum=Sum("amount_micro_usd"))["sum"] or 0)


def waiting_adjustment_count() -> int:
    """Give how many adjustments wait for a second person."""
    return Adjustment.objects.filter(state="requested").count()


def organisation_named(text: str) -> Organisation:
    """Give an organisation by its public id, or a customer by its namespace.

    Raises:
        NotFound: There is none.
    """
    by_slug = Q(slug=text, kind="customer")
    organisation = Organisation.objects.filter(Q(public_id=text) | by_slug).first() if text else None
    if organisation is None:
        raise NotFound("There is no such customer.", param="customer")
    return organisation
