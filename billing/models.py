"""The journal, wallets, holds, receipts and attempt facts.

Signs: a positive leg is a credit, a negative one a debit. A wallet's legs therefore add up to what the customer has,
revenue and payables are positive, receivables, cost and clearing negative.
Rows of the journal are written by the SQL functions beside the migrations; triggers there refuse every change. What a
settlement writes is checked by those triggers and hardly by CHECKs: PostgreSQL reads and plans a CHECK anew for each
statement (``0024_settlement_in_few_statements.sql``).
"""

from __future__ import annotations

import enum
from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.models import Organisation, OrganisationKind, User
from billing.adjustments import models as _adjustments  # noqa: F401 -- Django finds an app's models through this module
from billing.alerts import models as _alerts  # noqa: F401 -- the same
from billing.books import models as _books  # noqa: F401 -- the same
from billing.domain.records import AttemptOutcome, HoldState, LineKind
from billing.exports import models as _exports  # noqa: F401 -- Django finds an app's models through this module
from billing.reconciliation import models as reconciliation  # noqa: F401 -- Django looks for an app's models here
from billing.reconciliation import period_models as _periods  # noqa: F401 -- the same


def _choices(kinds: type[enum.StrEnum]) -> list[tuple[str, str]]:
    return [(kind.value, kind.value) for kind in kinds]


class AccountKind(models.TextChoices):
    """What an account is for. The first two belong to an organisation, the others to the house."""

    CUSTOMER_WALLET = "customer_wallet"
    CUSTOMER_RECEIVABLE = "customer_receivable"
    REVENUE_USAGE = "revenue_usage"
    REVENUE_FEE = "revenue_fee"
    CEILING_CREDIT = "ceiling_credit"
    COST_OF_SERVICE = "cost_of_service"
    PROVIDER_PAYABLE = "provider_payable"
    TOP_UP_CLEARING = "top_up_clearing"
    ADJUSTMENT = "adjustment"
    WRITE_OFF = "write_off"
    PROMOTION = "promotion"
    BREAKAGE = "breakage"


_OF_AN_ORGANISATION = (AccountKind.CUSTOMER_WALLET, AccountKind.CUSTOMER_RECEIVABLE)


class LedgerAccount(models.Model):
    """An account of the ledger. ``book`` keeps play money of test twins out of the house's accounts."""

    code = models.CharField(max_length=200, unique=True)
    kind = models.CharField(max_length=20, choices=AccountKind)
    book = models.CharField(max_length=10, choices=OrganisationKind)
    organisation = models.ForeignKey(Organisation, models.PROTECT, null=True, related_name="+", db_index=False)
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(kind__in=AccountKind.values), name="ledger_account_kind_is_known"),
            models.CheckConstraint(
                condition=Q(kind__in=_OF_AN_ORGANISATION, organisation__isnull=False)
                | (~Q(kind__in=_OF_AN_ORGANISATION) & Q(organisation__isnull=True)),
                name="ledger_account_has_an_owner_or_is_the_houses",
            ),
            models.UniqueConstraint(
                fields=["organisation", "kind"], name="ledger_account_is_one_per_organisation_and_kind"
            ),
        ]

    def __str__(self) -> str:
        return self.code


class TransactionKind(models.TextChoices):
    """Why money moved."""

    TOP_UP = "top_up"
    SETTLEMENT = "settlement"
    CREDIT = "credit"
    DEBIT = "debit"
    REFUND = "refund"
    WRITE_OFF = "write_off"
    REVERSAL = "reversal"
    GRANT = "grant"
    GRANT_EXPIRY = "grant_expiry"
    PROVIDER_ADJUSTMENT = "provider_adjustment"


class LedgerTransaction(models.Model):
    """The header of a posting. The same key with the same ``body_hash`` replays, with another it conflicts.

    The database adds ``created_in`` (the xid8 that wrote it; legs of any other are refused) and sets ``booked_at``.
    """

    business_key = models.CharField(max_length=250, unique=True)
    body_hash = models.BinaryField(max_length=32)
    kind = models.CharField(max_length=20, choices=TransactionKind)
    # Empty where no customer has a part in it: the house and a provider. The guard of legs finds the balance.
    organisation = models.ForeignKey(
        Organisation, models.PROTECT, null=True, related_name="+", db_index=False, db_constraint=False
    )
    reference = models.CharField(max_length=200)
    recorded_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    effective_at = models.DateTimeField()
    booked_at = models.DateTimeField()

    class Meta:
        # An organisation's postings in time: its statement.
        indexes: ClassVar = [models.Index(fields=["organisation", "effective_at"], name="transaction_of_organisation")]

    def __str__(self) -> str:
        return self.business_key


class LedgerLeg(models.Model):
    """One side of a posting. Zero only where a batch is settled at zero."""

    # The guard of legs looks both up, and neither ever goes away: see ``0019_settlement_costs_less.sql``.
    transaction = models.ForeignKey(
        LedgerTransaction, models.PROTECT, related_name="legs", db_index=False, db_constraint=False
    )
    leg_number = models.SmallIntegerField()
    account = models.ForeignKey(LedgerAccount, models.PROTECT, related_name="legs", db_index=False, db_constraint=False)
    amount_micro_usd = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["transaction", "leg_number"], name="ledger_leg_number_is_one_per_transaction"
            )
        ]
        # The balance and the statement of an account, from the index alone.
        indexes: ClassVar = [
            models.Index(fields=["account", "id"], include=["amount_micro_usd"], name="leg_of_account_in_order")
        ]

    def __str__(self) -> str:
        return f"leg {self.leg_number} of transaction {self.transaction_id}"


class CustomerBalance(models.Model):
    """An organisation's money, the one balance that is stored. Triggers on legs and holds move it; nothing else can."""

    organisation = models.OneToOneField(Organisation, models.PROTECT, primary_key=True, related_name="+")
    posted_micro_usd = models.BigIntegerField(default=0)
    held_micro_usd = models.BigIntegerField(default=0)
    receivable_micro_usd = models.BigIntegerField(default=0)
    floor_micro_usd = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(posted_micro_usd__gte=F("floor_micro_usd") + F("held_micro_usd")),
                name="balance_stays_above_its_floor",
            ),
        ]

    def __str__(self) -> str:
        return f"balance of organisation {self.organisation_id}"


class Hold(models.Model):
    """Credit reserved for one model group of a batch. Without ``expires_at`` it cannot lapse."""

    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="+", db_index=False)
    batch_public_id = models.CharField(max_length=40)
    group_key = models.CharField(max_length=200)
    amount_micro_usd = models.BigIntegerField()
    state = models.CharField(max_length=10, choices=_choices(HoldState))
    settled_micro_usd = models.BigIntegerField(null=True)
    # The guard of holds looks it up.
    transaction = models.ForeignKey(
        LedgerTransaction, models.PROTECT, null=True, related_name="holds", db_index=False, db_constraint=False
    )
    expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organisation", "batch_public_id", "group_key"], name="hold_is_one_per_batch_and_group"
            ),
        ]
        indexes: ClassVar = [
            # Lapsed holds of one organisation, when its money is read or moved.
            models.Index(
                fields=["organisation", "expires_at"],
                condition=Q(state="open", expires_at__isnull=False),
                name="hold_that_can_lapse",
            ),
            # The proof that held = open holds.
            models.Index(
                fields=["organisation"],
                include=["amount_micro_usd"],
                condition=Q(state="open"),
                name="hold_open_of_organisation",
            ),
        ]

    def __str__(self) -> str:
        return f"hold {self.pk}"


class Receipt(models.Model):
    """What a batch was charged; final, one per batch, also at zero."""

    public_id = models.CharField(max_length=40, unique=True)
    # Both are proven at commit: the posting exists, and is this organisation's.
    organisation = models.ForeignKey(
        Organisation, models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    batch_public_id = models.CharField(max_length=40, unique=True)
    transaction = models.OneToOneField(LedgerTransaction, models.PROTECT, related_name="receipt", db_constraint=False)
    settled_at = models.DateTimeField()
    line_count = models.IntegerField()
    # Net of the ceiling credit.
    usage_charge_micro_usd = models.BigIntegerField()
    fee_micro_usd = models.BigIntegerField()
    total_micro_usd = models.BigIntegerField()
    reserved_micro_usd = models.BigIntegerField()
    released_micro_usd = models.BigIntegerField()
    # The part of the total that the wallet could not carry.
    receivable_micro_usd = models.BigIntegerField()
    estimate_total_micro_usd = models.BigIntegerField()

    class Meta:
        # An organisation's receipts, newest first, by cursor.
        indexes: ClassVar = [models.Index(fields=["organisation", "-settled_at", "-id"], name="receipt_newest_first")]

    def __str__(self) -> str:
        return self.public_id


class ReceiptLine(models.Model):
    """One line: an exact amount, rounded once. Tokens and rate are empty on fees and the ceiling credit."""

    # The guard of lines looks it up.
    receipt = models.ForeignKey(Receipt, models.PROTECT, related_name="lines", db_index=False, db_constraint=False)
    line_number = models.IntegerField()
    group_key = models.CharField(max_length=200)
    lane_id = models.CharField(max_length=120)
    model_slug = models.CharField(max_length=120)
    kind = models.CharField(max_length=20, choices=_choices(LineKind))
    tokens = models.BigIntegerField(null=True)
    rate_micro_usd_per_mtok = models.BigIntegerField(null=True)
    amount_micro_usd = models.BigIntegerField()
    # A large line's exact amount does not fit 64 bits.
    exact_pico_usd = models.DecimalField(max_digits=38, decimal_places=0)

    class Meta:
        ordering: ClassVar = ["receipt", "line_number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["receipt", "line_number"], name="receipt_line_number_is_one_per_receipt"),
            models.UniqueConstraint(
                fields=["receipt", "group_key", "lane_id", "kind", "rate_micro_usd_per_mtok"],
                nulls_distinct=False,
                name="receipt_line_is_one_per_group_kind_and_rate",
            ),
        ]

    def __str__(self) -> str:
        return f"line {self.line_number} of receipt {self.receipt_id}"


class AttemptFact(models.Model):
    """What one attempt of one row used and cost. Partitioned by ``completed_at``; no foreign keys, append-only."""

    pk = models.CompositePrimaryKey("completed_at", "job_id", "row")
    completed_at = models.DateTimeField()
    job_id = models.BigIntegerField()
    row = models.IntegerField()
    attempt_number = models.SmallIntegerField()
    organisation_id = models.BigIntegerField()
    batch_id = models.BigIntegerField()
    lane_id = models.TextField()
    provider = models.TextField()
    provider_account = models.TextField()
    provider_project = models.TextField()
    outcome = models.TextField(choices=_choices(AttemptOutcome))
    code = models.TextField()
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    cache_write_5m_tokens = models.BigIntegerField()
    cache_write_1h_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cost_pico_usd = models.BigIntegerField()

    class Meta:
        managed = False
        db_table = "attempt_fact"

    def __str__(self) -> str:
        return f"attempt at row {self.row} in job {self.job_id}"


class CollectedJobFact(models.Model):
    """What the attempts of one provider job have in common: which model at which of the provider's rates."""

    job_id = models.BigIntegerField(primary_key=True)
    batch_public_id = models.CharField(max_length=40)
    model_snapshot = models.CharField(max_length=120)
    model_id = models.CharField(max_length=160)
    tier = models.CharField(max_length=20)
    is_test = models.BooleanField()
    input_rate_micro_usd_per_mtok = models.BigIntegerField()
    cached_input_rate_micro_usd_per_mtok = models.BigIntegerField()
    cache_write_5m_rate_micro_usd_per_mtok = models.BigIntegerField()
    cache_write_1h_rate_micro_usd_per_mtok = models.BigIntegerField()
    output_rate_micro_usd_per_mtok = models.BigIntegerField()

    def __str__(self) -> str:
        return f"job {self.job_id}"
