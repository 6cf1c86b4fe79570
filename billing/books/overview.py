"""What finance sees first: whether the books hold, what is owed, held, came in, and waits for a second person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, Sum

from accounts.models import OrganisationKind
from billing.adjustments.selectors import waiting_adjustment_count
from billing.books.models import ProofRun
from billing.books.wallet_selectors import WalletProof, wallet_proof
from billing.models import CustomerBalance, Hold, LedgerLeg, TransactionKind
from catalog.pricing.models import DraftState, RateDraft

_RECENT = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinanceOverview:
    """The customers' book at one instant, micro-USD."""

    proof: ProofRun | None
    wallets: WalletProof
    owing_count: int
    receivable_micro_usd: int
    held_batch_count: int
    held_micro_usd: int
    recent_since: datetime
    top_up_count: int
    top_up_micro_usd: int
    waiting_adjustment_count: int
    waiting_rate_count: int


def finance_overview(at: datetime) -> FinanceOverview:
    """Give finance's first page at an instant; top-ups are those of the 30 days before."""
    balances = CustomerBalance.objects.filter(organisation__kind=OrganisationKind.CUSTOMER)
    owing = balances.filter(receivable_micro_usd__gt=0).aggregate(count=Count("pk"), sum=Sum("receivable_micro_usd"))
    unlapsed = Q(expires_at=None) | Q(expires_at__gt=at)
    held = Hold.objects.filter(unlapsed, state="open", organisation__kind=OrganisationKind.CUSTOMER)
    top_ups = LedgerLeg.objects.filter(
        transaction__kind=TransactionKind.TOP_UP,
        transaction__booked_at__gte=at - _RECENT,
        account__book=OrganisationKind.CUSTOMER,
        amount_micro_usd__gt=0,
    ).aggregate(count=Count("transaction_id", distinct=True), sum=Sum("amount_micro_usd"))
    return FinanceOverview(
        proof=ProofRun.objects.filter(finished_at__isnull=False).order_by("-pk").first(),
        wallets=wallet_proof(),
        owing_count=owing["count"],
        receivable_micro_usd=int(owing["sum"] or 0),
        held_batch_count=held.values("batch_public_id").distinct().count(),
        held_micro_usd=int(held.aggregate(sum=Sum("amount_micro_usd"))["sum"] or 0),
        recent_since=at - _RECENT,
        top_up_count=top_ups["count"],
        top_up_micro_usd=int(top_ups["sum"] or 0),
        waiting_adjustment_count=waiting_adjustment_count(),
        waiting_rate_count=RateDraft.objects.filter(state=DraftState.DRAFT).count(),
    )
