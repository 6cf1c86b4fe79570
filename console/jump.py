"""The jump box: where a typed id leads, and what else answers to a text. Scoped to what the viewer may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from accounts.models import Membership, Organisation, StaffRole, User
from billing.adjustments.selectors import adjustment_by_id
from billing.models import Receipt
from billing.reconciliation.selectors import break_by_id, invoice_by_id, invoices
from billing.selectors import any_receipt_by_id, receipt_by_id, receipts
from billing.views.shown import may_read_a_receipt, may_read_money
from catalog.selectors import lanes_overview
from ground.errors import NotFound
from routing.models import Batch
from routing.oversight import any_batch_by_id, any_batch_page
from routing.selectors import BatchFilter, batch_by_id, batch_page, quote_by_id
from webhooks.selectors import delivery_by_id, endpoint_by_id

HITS_MAX_COUNT = 5
TEXT_MAX_CHARACTERS = 80
# A shorter text would match nearly everything.
TEXT_MIN_CHARACTERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something a text led to: where it is, its name, and what it is known by beside that."""

    url: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HitGroup:
    """The first few things of one kind."""

    label: str
    hits: tuple[Hit, ...]


def page_of_id(text: str, *, user: User, membership: Membership | None) -> str | None:
    """Give the address of the page of exactly this id; None where the viewer has no such thing."""
    for prefix, find in _PAGES.items():
        if text.startswith(prefix):
            try:
                return find(text, user, membership)
            except NotFound:
                return None
    return None


def hits(text: str, *, user: User, membership: Membership | None) -> tuple[HitGroup, ...]:
    """Give what answers to a text, by kind, at most five of each; kinds without an answer are left out."""
    text = text.strip()[:TEXT_MAX_CHARACTERS]
    if len(text) < TEXT_MIN_CHARACTERS:
        return ()
    groups: list[HitGroup] = []
    if membership is not None:
        groups += [_own_batches(text, membership), _own_receipts(text, membership)]
    if user.staff_role != StaffRole.NONE:
        groups += [_any_batches(text), _lanes(text), _customers(text)]
    if user.staff_role in _READERS_OF_INVOICES:
        groups.append(_invoices(text))
    return tuple(group for group in groups if group.hits)


def _own(membership: Membership | None) -> Organisation:
    """Give the viewer's organisation.

    Raises:
        NotFound: They belong to none.
    """
    if membership is None:
        raise NotFound("You are not a member of an organisation here.")
    return membership.organisation


def _quote_page(text: str, _user: User, membership: Membership | None) -> str:
    quote = quote_by_id(organisation=_own(membership), public_id=text)
    return reverse("routing:quote-detail", args=[quote.public_id])


def _batch_page(text: str, user: User, membership: Membership | None) -> str:
    if user.staff_role != StaffRole.NONE:
        return reverse("routing:any-batch-detail", args=[any_batch_by_id(text).public_id])
    batch = batch_by_id(organisation=_own(membership), public_id=text)
    return reverse("routing:batch-detail", args=[batch.public_id])


def _receipt_page(text: str, user: User, membership: Membership | None) -> str | None:
    if user.staff_role in _READERS_OF_BOOKS:
        return reverse("billing:house-receipt", args=[any_receipt_by_id(text).public_id])
    receipt = receipt_by_id(_own(membership), text)
    if membership is None or not may_read_a_receipt(membership):
        return None
    return reverse("billing:receipt-detail", args=[receipt.public_id])


def _endpoint_page(text: str, _user: User, membership: Membership | None) -> str:
    return reverse("webhooks:endpoint-detail", args=[endpoint_by_id(_own(membership), text).public_id])


def _delivery_page(text: str, _user: User, membership: Membership | None) -> str:
    return reverse("webhooks:delivery-detail", args=[delivery_by_id(_own(membership), text).public_id])


def _invoice_page(text: str, user: User, _membership: Membership | None) -> str | None:
    if user.staff_role not in _READERS_OF_INVOICES:
        return None
    return reverse("reconciliation:invoice-detail", args=[invoice_by_id(text).public_id])


def _break_page(text: str, user: User, _membership: Membership | None) -> str | None:
    if user.staff_role not in _READERS_OF_INVOICES:
        return None
    return reverse("reconciliation:break-detail", args=[break_by_id(text).public_id])


def _adjustment_page(text: str, user: User, _membership: Membership | None) -> str | None:
    if user.staff_role not in _READERS_OF_BOOKS:
        return None
    return reverse("billing:adjustment-detail", args=[adjustment_by_id(text).public_id])


_READERS_OF_BOOKS = frozenset({StaffRole.FINANCE, StaffRole.SUPERADMIN})
_READERS_OF_INVOICES = frozenset({StaffRole.FINANCE, StaffRole.OPERATOR, StaffRole.SUPERADMIN})
_PAGES: dict[str, Callable[[str, User, Membership | None], str | None]] = {
    "qt_": _quote_page,
    "batch_": _batch_page,
    "rcpt_": _receipt_page,
    "whe_": _endpoint_page,
    "dlv_": _delivery_page,
    "inv_": _invoice_page,
    "brk_": _break_page,
    "adj_": _adjustment_page,
}


def _own_batches(text: str, membership: Membership) -> HitGroup:
    found = batch_page(
        organisation=membership.organisation, after=None, limit=HITS_MAX_COUNT, chosen=BatchFilter(text=text)
    )
    return HitGroup(label="Batches", hits=tuple(_batch_hit(batch, "routing:batch-detail") for batch in found.batches))


def _any_batches(text: str) -> HitGroup:
    found = any_batch_page(after=None, limit=HITS_MAX_COUNT, chosen=BatchFilter(text=text))
    return HitGroup(
        label="Batches of all customers",
        hits=tuple(_batch_hit(batch, "routing:any-batch-detail") for batch in found.batches),
    )


def _batch_hit(batch: Batch, url_name: str) -> Hit:
    name = str((batch.metadata or {}).get("name") or "")
    return Hit(
        url=reverse(url_name, args=[batch.public_id]),
        name=name or batch.public_id,
        detail=batch.public_id if name else batch.status,
    )


def _own_receipts(text: str, membership: Membership) -> HitGroup:
    found: list[Receipt] = []
    if may_read_money(membership):
        found, _ = receipts(membership.organisation, after=None, limit=HITS_MAX_COUNT, text=text)
    return HitGroup(
        label="Receipts",
        hits=tuple(
            Hit(
                url=reverse("billing:receipt-detail", args=[receipt.public_id]),
                name=receipt.public_id,
                detail=receipt.batch_public_id,
            )
            for receipt in found
        ),
    )


def _invoices(text: str) -> HitGroup:
    return HitGroup(
        label="Provider invoices",
        hits=tuple(
            Hit(
                url=reverse("reconciliation:invoice-detail", args=[invoice.public_id]),
                name=f"{invoice.provider_account}, {invoice.period:%B %Y}",
                detail=invoice.number or invoice.public_id,
            )
            for invoice in invoices(text=text)[:HITS_MAX_COUNT]
        ),
    )


def _lanes(text: str) -> HitGroup:
    return HitGroup(
        label="Lanes",
        hits=tuple(
            Hit(
                url=reverse("catalog:lane-page", args=[overview.lane.model_slug, overview.lane.lane_id]),
                name=f"{overview.lane.model_slug} on {overview.lane.lane_id}",
                detail=overview.lane.rotation,
            )
            for overview in lanes_overview(text=text)[:HITS_MAX_COUNT]
        ),
    )


def _customers(text: str) -> HitGroup:
    named = Q(name__icontains=text) | Q(slug__icontains=text) | Q(public_id=text)
    found = Organisation.objects.filter(named, twin_of=None).order_by("name", "pk")[:HITS_MAX_COUNT]
    return HitGroup(
        label="Customers",
        hits=tuple(
            Hit(
                url=f"{reverse('routing:any-batch-list')}?customer={organisation.public_id}",
                name=organisation.name,
                detail=organisation.public_id,
            )
            for organisation in found
        ),
    )
