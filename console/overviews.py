"""What the first pages say: an organisation's work and money, and the house's work in flight. Bounded reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Count, Min, Q, Sum

from accounts.models import ApiKey, Organisation, OrganisationKind
from accounts.selectors import DATABASE_NOW, usable_key_count
from billing.domain.records import WalletState
from billing.models import Receipt
from billing.selectors import wallet
from catalog.domain.records import Rotation
from catalog.health import WallLane, sla_wall
from ground.filters import Span
from routing.models import Batch, BatchStatus, JobState, ProviderAccount, ProviderJob, SubLane, SubLaneState
from webhooks.models import Delivery, DeliveryState, Endpoint, EndpointState

# A lane that takes work is in breach from here on.
BREACH_ERROR_PPM = 50_000
BREACH_P95_MINUTES = 24 * 60
# A step that has been due this long is late: sweeps run each second.
LATE = timedelta(minutes=2)
_OPEN = (BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS, BatchStatus.FINALIZING, BatchStatus.CANCELLING)
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """The batches that have not ended, their requests, and how many of these are done."""

    batch_count: int
    row_count: int
    done_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSteps:
    """What an organisation has done of what comes before its first result."""

    has_credit: bool
    has_key: bool
    has_batch: bool

    @property
    def are_done(self) -> bool:
        """Say whether nothing is left to explain."""
        return self.has_credit and self.has_key and self.has_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerOverview:
    """An organisation at one instant. Months are the organisation's own, in its reporting zone."""

    wallet: WalletState
    running: RunningWork
    charged_this_month_micro_usd: int
    charged_last_month_micro_usd: int
    failed_delivery_count: int
    disabled_endpoints: tuple[Endpoint, ...]
    first_steps: FirstSteps


def customer_overview(organisation: Organisation, at: datetime) -> CustomerOverview:
    """Give what the first page of an organisation says at an instant."""
    this_month, last_month = month_spans(at, ZoneInfo(organisation.reporting_zone))
    state = wallet(organisation)
    return CustomerOverview(
        wallet=state,
        running=running_work(organisation),
        charged_this_month_micro_usd=_charged_micro_usd(organisation, this_month),
        charged_last_month_micro_usd=_charged_micro_usd(organisation, last_month),
        failed_delivery_count=Delivery.objects.filter(
            organisation=organisation,
            state__in=(DeliveryState.FAILED, DeliveryState.ENDED),
            state_changed_at__gte=at - _DAY,
        ).count(),
        disabled_endpoints=tuple(
            Endpoint.objects.filter(organisation=organisation, state=EndpointState.DISABLED).order_by("pk")[:5]
        ),
        first_steps=FirstSteps(
            has_credit=state.posted_micro_usd != 0 or state.available_micro_usd > 0,
            has_key=usable_key_count(organisation) > 0 or ApiKey.objects.filter(organisation=organisation).exists(),
            has_batch=Batch.objects.filter(organisation=organisation).exists(),
        ),
    )


def running_work(organisation: Organisation) -> RunningWork:
    """Give an organisation's batches that have not ended."""
    found = Batch.objects.filter(organisation=organisation, status__in=_OPEN).aggregate(
        batch_count=Count("pk"),
        row_count=Sum("row_count", default=0),
        done_count=Sum("completed_count", default=0) + Sum("failed_count", default=0),
    )
    return RunningWork(**found)


def month_spans(at: datetime, zone: ZoneInfo) -> tuple[Span, Span]:
    """Give the month an instant lies in, as far as it is over, and the whole month before, as the zone has them."""
    first = at.astimezone(zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    before = (first - _DAY).replace(day=1)
    return Span(since=first, until=at), Span(since=before, until=first)


def _charged_micro_usd(organisation: Organisation, span: Span) -> int:
    found = Receipt.objects.filter(organisation=organisation, settled_at__gte=span.since, settled_at__lt=span.until)
    total: int = found.aggregate(total=Sum("total_micro_usd", default=0))["total"]
    return int(total)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkInFlight:
    """All customers' work that has not ended. The oldest is the one that was promised first."""

    batch_count: int
    row_count: int
    done_count: int
    waiting_count: int
    late_batch_count: int
    oldest: Batch | None
    charged_last_hour_micro_usd: int

    @property
    def is_calm(self) -> bool:
        """Say whether nothing runs."""
        return self.batch_count == 0


def work_in_flight(at: datetime) -> WorkInFlight:
    """Give the batches of all organisations that run, and what customers were charged in the hour before ``at``."""
    running = Batch.objects.filter(status__in=_OPEN)
    counts = running.aggregate(
        batch_count=Count("pk"),
        row_count=Sum("row_count", default=0),
        done_count=Sum("completed_count", default=0) + Sum("failed_count", default=0),
        late_batch_count=Count("pk", filter=Q(expires_at__lt=DATABASE_NOW)),
    )
    charged = Receipt.objects.filter(
        organisation__kind=OrganisationKind.CUSTOMER, settled_at__gte=at - _HOUR, settled_at__lt=at
    ).aggregate(total=Sum("total_micro_usd", default=0))
    return WorkInFlight(
        **counts,
        waiting_count=SubLane.objects.filter(state=SubLaneState.WAITING).count(),
        oldest=running.select_related("organisation").defer("plan").order_by("expires_at", "pk").first(),
        charged_last_hour_micro_usd=int(charged["total"]),
    )


def lanes_in_breach() -> tuple[WallLane, ...]:
    """Give the lanes in rotation that fail too often or take longer than a window, the worst first."""
    return tuple(
        each
        for each in sla_wall(rotation=Rotation.IN)
        if each.overview.health.sample_count
        and (
            each.overview.health.error_ppm >= BREACH_ERROR_PPM
            or each.overview.health.p95_completion_minutes >= BREACH_P95_MINUTES
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineQueue:
    """The provider jobs that are open: how many are late for their next step, since when, and which wait for people.

    ``refused_account_count``: accounts that their providers refuse themselves.
    """

    open_count: int
    late_count: int
    due_since: datetime | None
    unclear_count: int
    failing_count: int
    refused_account_count: int


def engine_queue() -> EngineQueue:
    """Give the state of the provider jobs that are not done with. Late is by the database's clock."""
    late = Q(due_at__lt=DATABASE_NOW - LATE)
    found = ProviderJob.objects.exclude(state__in=(JobState.COLLECTED, JobState.ABANDONED)).aggregate(
        open_count=Count("pk"),
        late_count=Count("pk", filter=late),
        due_since=Min("due_at", filter=late),
        unclear_count=Count("pk", filter=Q(unclear_since__isnull=False)),
        failing_count=Count("pk", filter=Q(try_count__gt=0) & ~Q(last_error="")),
    )
    refused = ProviderAccount.objects.filter(refused_since__isnull=False)
    return EngineQueue(**found, refused_account_count=refused.count())


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookQueue:
    """Deliveries that are under way, late or given up in the last day, and endpoints that were switched off."""

    pending_count: int
    late_count: int
    failed_count: int
    disabled_endpoint_count: int


def webhook_queue(at: datetime) -> WebhookQueue:
    """Give the state of all customers' webhooks."""
    pending = Delivery.objects.filter(state=DeliveryState.PENDING).aggregate(
        pending_count=Count("pk"), late_count=Count("pk", filter=Q(due_at__lt=DATABASE_NOW - LATE))
    )
    gone = (DeliveryState.FAILED, DeliveryState.ENDED)
    return WebhookQueue(
        **pending,
        failed_count=Delivery.objects.filter(state__in=gone, state_changed_at__gte=at - _DAY).count(),
        disabled_endpoint_count=Endpoint.objects.filter(state=EndpointState.DISABLED).count(),
    )
