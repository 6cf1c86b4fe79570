"""Customers as staff sees them: money, work and limits side by side, and one of them whole. Bounded reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Sum

from accounts.models import ApiKey, Organisation, OrganisationKind
from accounts.selectors import api_key_page
from billing.books.wallet_selectors import WalletRow, wallet_of, wallet_page
from billing.models import Receipt
from ground.errors import NotFound
from routing.models import Batch, BatchStatus
from webhooks.models import Endpoint
from webhooks.selectors import endpoint_list

_OPEN = (BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS, BatchStatus.FINALIZING, BatchStatus.CANCELLING)
_RECENT = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerRow:
    """A customer now: wallet, what 30 days cost, batches that run, and when one was last accepted."""

    wallet: WalletRow
    spend_micro_usd: int
    running_count: int
    is_blocked: bool

    @property
    def organisation(self) -> Organisation:
        """The customer."""
        return self.wallet.organisation


def customer_page(
    *,
    at: datetime,
    after: str | None,
    limit: int,
    text: str = "",
    below_micro_usd: int | None = None,
    is_owing: bool = False,
) -> tuple[list[CustomerRow], bool]:
    """Give up to ``limit`` customers by name, and whether there are more; three statements whatever their number.

    Args:
        at: Now.
        after: Public id of the last customer of the page before.
        limit: How many a page has.
        text: A customer's id, namespace, or part of its name.
        is_owing: Only those who owe something.
        below_micro_usd: Only those with less available.

    Raises:
        NotFound: ``after`` is no customer.
    """
    wallets, has_more = wallet_page(
        after=after, limit=limit, text=text, below_micro_usd=below_micro_usd, is_owing=is_owing
    )
    return _rows(wallets, at), has_more


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerDetail:
    """A customer now, with the newest of its keys (the test twin's too) and of its webhook endpoints."""

    row: CustomerRow
    keys: tuple[ApiKey, ...]
    has_more_keys: bool
    endpoints: tuple[Endpoint, ...]
    has_more_endpoints: bool


def customer_by_id(public_id: str, *, at: datetime, limit: int) -> CustomerDetail:
    """Give one customer, with up to ``limit`` keys and as many endpoints.

    Raises:
        NotFound: There is no such customer; a test twin is none.
    """
    organisation = Organisation.objects.filter(public_id=public_id, kind=OrganisationKind.CUSTOMER).first()
    if organisation is None:
        raise NotFound("There is no such customer.", param="customer")
    (row,) = _rows([wallet_of(organisation)], at)
    keys = api_key_page(organisation, after=None, limit=limit)
    endpoints = tuple(endpoint_list(organisation)[: limit + 1])
    return CustomerDetail(
        row=row,
        keys=keys.keys,
        has_more_keys=keys.has_more,
        endpoints=endpoints[:limit],
        has_more_endpoints=len(endpoints) > limit,
    )


def _rows(wallets: Sequence[WalletRow], at: datetime) -> list[CustomerRow]:
    keys = [row.organisation.pk for row in wallets]
    spent = dict(
        Receipt.objects.filter(organisation__in=keys, settled_at__gte=at - _RECENT)
        .values_list("organisation_id")
        .annotate(sum=Sum("total_micro_usd"))
    )
    running = dict(
        Batch.objects.filter(organisation__in=keys, status__in=_OPEN)
        .values_list("organisation_id")
        .annotate(count=Count("pk"))
    )
    return [
        CustomerRow(
            wallet=row,
            spend_micro_usd=int(spent.get(row.organisation.pk, 0)),
            running_count=running.get(row.organisation.pk, 0),
            is_blocked=row.organisation.billing_blocked_at is not None or row.receivable_micro_usd > 0,
        )
        for row in wallets
    ]
