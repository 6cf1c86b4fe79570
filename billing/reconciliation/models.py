"""Provider invoices, their files and lines, what matching found, and decisions.

A month that is closed (``period_models``) changes no more: triggers beside the migration refuse every later write.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from accounts.models import User
from billing.reconciliation.domain.decisions import POSTED_STATES, Action
from billing.reconciliation.domain.records import ChargeKind, Format, TokenClass
from ground.leases import Claimable


def pico_usd_field(**options: object) -> models.DecimalField:  # type: ignore[type-arg]
    """Give a field of whole pico-USD: sums of a month do not fit 64 bits."""
    return models.DecimalField(max_digits=38, decimal_places=0, **options)  # type: ignore[arg-type]


class MatchState(models.TextChoices):
    """Whether an invoice waits to be matched (again); ``failed``: every try broke off, says ``match_trouble``."""

    IDLE = "idle"
    DUE = "due"
    FAILED = "failed"


class ProviderInvoice(Claimable):
    """What one provider bills one of our accounts for one month; the figures are of its last match, in pico-USD.

    ``invoiced - ours = explained + unexplained + waiting``: signed sums of breaks, and of what may still be billed.
    """

    public_id = models.CharField(max_length=40, unique=True)
    provider = models.CharField(max_length=40)
    provider_account = models.CharField(max_length=80)
    period = models.DateField()
    number = models.CharField(max_length=120, blank=True)
    # What the paper says, where a person typed it in.
    stated_total_micro_usd = models.BigIntegerField(null=True)
    created_at = models.DateTimeField()
    match_state = models.CharField(max_length=6, choices=MatchState, default=MatchState.IDLE)
    match_try_count = models.PositiveSmallIntegerField(default=0)
    match_trouble = models.CharField(max_length=300, default="", blank=True)
    match_number = models.PositiveIntegerField(default=0)
    matched_at = models.DateTimeField(null=True)
    invoiced_pico_usd = pico_usd_field(null=True)
    ours_pico_usd = pico_usd_field(null=True)
    exact_pico_usd = pico_usd_field(null=True)
    waiting_pico_usd = pico_usd_field(null=True)
    bucket_count = models.PositiveIntegerField(default=0)
    exact_bucket_count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["provider", "provider_account", "period"], name="invoice_is_one_per_account_and_month"
            ),
            models.CheckConstraint(condition=Q(period__day=1), name="invoice_is_of_a_month"),
            models.CheckConstraint(
                condition=Q(match_trouble="") | Q(match_state="failed", due_at=None),
                name="match_trouble_ends_the_tries",
            ),
        ]
        indexes: ClassVar = [
            # The list, newest month first.
            models.Index(fields=["-period", "-id"], name="invoice_newest_first"),
            # The next one to match.
            models.Index(fields=["due_at", "id"], condition=Q(due_at__isnull=False), name="invoice_due"),
        ]

    def __str__(self) -> str:
        return self.public_id


class FileState(models.TextChoices):
    """A file is read in the background; one that a corrected file has replaced stays as history.

    A ``draft`` waits for its mapping.
    """

    DRAFT = "draft"
    UPLOADED = "uploaded"
    READ = "read"
    REPLACED = "replaced"
    UNREADABLE = "unreadable"
    CANCELLED = "cancelled"


class InvoiceFile(Claimable):
    """One report as it was handed in: its bytes are a blob, and what was read of it are lines and bad lines."""

    public_id = models.CharField(max_length=40, unique=True)
    invoice = models.ForeignKey(ProviderInvoice, models.PROTECT, related_name="files")
    report_format = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Format])
    # False: usage alone, the second evidence.
    has_money = models.BooleanField()
    is_parquet = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=FileState)
    file_name = models.CharField(max_length=200)
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.BinaryField(max_length=32)
    blob_name = models.CharField(max_length=200)
    mapping = models.JSONField(null=True)
    # How the report was asked for, in words.
    request_parameters = models.CharField(max_length=500, blank=True)
    fetched_at = models.DateTimeField(null=True)
    parser_version = models.PositiveIntegerField(default=0)
    page_count = models.PositiveIntegerField(default=0)
    # Empty: the file proves that it is all.
    incomplete_reason = models.CharField(max_length=200, default="", blank=True)
    line_count = models.PositiveIntegerField(default=0)
    bad_line_count = models.PositiveIntegerField(default=0)
    read_line_count = models.PositiveIntegerField(default=0)
    # How many decimals its amounts are printed with: what rounding may explain.
    amount_decimals_count = models.PositiveSmallIntegerField(default=0)
    total_pico_usd = pico_usd_field(default=0)
    trouble = models.CharField(max_length=300, default="", blank=True)
    is_cancel_asked = models.BooleanField(default=False)
    uploaded_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    uploaded_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["invoice", "sha256"],
                condition=Q(state__in=["draft", "uploaded", "read", "replaced"]),
                name="invoice_file_is_taken_once",
            ),
            models.UniqueConstraint(
                fields=["invoice", "has_money"], condition=Q(state="read"), name="invoice_has_one_current_file_a_kind"
            ),
            models.CheckConstraint(condition=Q(state__in=FileState.values), name="invoice_file_state_is_known"),
        ]
        # The next file to read.
        indexes: ClassVar = [
            models.Index(fields=["due_at", "id"], condition=Q(due_at__isnull=False), name="invoice_file_due")
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def is_complete(self) -> bool:
        """Say whether it may be closed against: read to its end, proven to be all, and no line bad."""
        return self.state == FileState.READ and not self.incomplete_reason and self.bad_line_count == 0


class InvoiceLine(models.Model):
    """A line in the normal form; written by COPY, never changed."""

    file = models.ForeignKey(InvoiceFile, models.PROTECT, related_name="lines", db_index=False)
    line = models.PositiveIntegerField()
    account = models.CharField(max_length=160)
    window_start = models.DateTimeField()
    window_end = models.DateTimeField()
    model_name = models.CharField(max_length=160)
    tier = models.CharField(max_length=160)
    token_class = models.CharField(max_length=22, choices=[(each.value, each.value) for each in TokenClass])
    project = models.CharField(max_length=160)
    quantity = models.BigIntegerField(null=True)
    unit = models.CharField(max_length=160)
    # In the line's own currency: pico of one of its units.
    amount_pico_usd = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=160)
    charge_kind = models.CharField(max_length=10, choices=[(each.value, each.value) for each in ChargeKind])
    is_long_context = models.BooleanField()
    reference = models.CharField(max_length=160)
    format_note = models.CharField(max_length=160)
    raw = models.TextField()
    raw_row_hash = models.BinaryField(max_length=16)

    class Meta:
        # A file's lines in order: its page, and matching.
        indexes: ClassVar = [models.Index(fields=["file", "line", "id"], name="invoice_line_of_file")]

    def __str__(self) -> str:
        return f"line {self.line} of file {self.file_id}"


class BadInvoiceLine(models.Model):
    """A line that could not be read, with the reason."""

    file = models.ForeignKey(InvoiceFile, models.PROTECT, related_name="bad_lines", db_index=False)
    line = models.PositiveIntegerField()
    code = models.CharField(max_length=40)
    message = models.CharField(max_length=300)
    raw = models.TextField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["file", "line", "id"], name="bad_invoice_line_of_file")]

    def __str__(self) -> str:
        return f"bad line {self.line} of file {self.file_id}"


class ColumnMappingRow(models.Model):
    """A saved mapping of somebody else's CSV, by a name of its own."""

    name = models.CharField(max_length=80, unique=True)
    mapping = models.JSONField()
    saved_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    saved_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class Bucket(models.Model):
    """One account's day, model, tier, token class and project: both sides, of the last match. Sums in pico-USD."""

    invoice = models.ForeignKey(ProviderInvoice, models.PROTECT, related_name="buckets", db_index=False)
    day = models.DateField()
    model = models.CharField(max_length=160)
    tier = models.CharField(max_length=160)
    token_class = models.CharField(max_length=22)
    project = models.CharField(max_length=160)
    invoiced_line_count = models.PositiveIntegerField()
    invoiced_quantity = models.BigIntegerField(null=True)
    invoiced_pico_usd = pico_usd_field()
    ours_job_count = models.PositiveIntegerField()
    ours_quantity = models.BigIntegerField()
    ours_pico_usd = pico_usd_field()
    # Of ours: what ended failed, expired or cancelled.
    failed_quantity = models.BigIntegerField(default=0)
    failed_pico_usd = pico_usd_field(default=0)
    state = models.CharField(
        max_length=10, choices=[(each, each) for each in ("exact", "break", "waiting")], default="exact"
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["invoice", "day", "model", "tier", "token_class", "project"],
                name="bucket_is_one_per_invoice_and_place",
            )
        ]

    def __str__(self) -> str:
        return f"bucket {self.pk}"


class BreakState(models.TextChoices):
    """``open``: nobody knows why. ``explained``: a class names it, and a person has to decide. Then the decisions.

    ``pending`` waits for a second person; ``cleared`` is gone at a later match.
    """

    OPEN = "open"
    EXPLAINED = "explained"
    PENDING = "pending"
    ACCEPTED = "accepted"
    LINKED = "linked"
    ADJUSTED = "adjusted"
    WRITTEN_OFF = "written_off"
    DISPUTED = "disputed"
    CLEARED = "cleared"


UNDECIDED = (BreakState.OPEN, BreakState.EXPLAINED, BreakState.PENDING)


class Break(models.Model):
    """A difference between our books and a provider's invoice. ``key`` says which: matching again finds it by that.

    ``difference = invoiced - ours``; siblings (two halves of one cause) share ``cause_key``. ``evidence`` holds the
    lines and jobs of both sides as they were.
    """

    public_id = models.CharField(max_length=40, unique=True)
    invoice = models.ForeignKey(ProviderInvoice, models.PROTECT, related_name="breaks", db_index=False)
    # A hash of its place, so that any name fits.
    key = models.CharField(max_length=80)
    cause_key = models.CharField(max_length=80, blank=True)
    kind = models.CharField(max_length=24)
    said = models.CharField(max_length=500)
    day = models.DateField(null=True)
    model = models.CharField(max_length=160, blank=True)
    tier = models.CharField(max_length=160, blank=True)
    token_class = models.CharField(max_length=22, blank=True)
    project = models.CharField(max_length=160, blank=True)
    invoiced_quantity = models.BigIntegerField(null=True)
    invoiced_pico_usd = pico_usd_field()
    ours_quantity = models.BigIntegerField(null=True)
    ours_pico_usd = pico_usd_field()
    difference_pico_usd = pico_usd_field()
    evidence = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=BreakState)
    owner = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    reason = models.CharField(max_length=200, blank=True)
    # What was asked for while it is pending.
    asked_action = models.CharField(max_length=12, blank=True)
    # The ledger entry that was made or linked, by its business key.
    entry_key = models.CharField(max_length=250, blank=True)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    decided_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField()
    seen_number = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["invoice", "key"], name="break_is_one_per_invoice_and_place"),
            models.CheckConstraint(condition=Q(state__in=BreakState.values), name="break_state_is_known"),
            models.CheckConstraint(
                condition=Q(difference_pico_usd=F("invoiced_pico_usd") - F("ours_pico_usd")),
                name="break_difference_is_invoiced_less_ours",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["open", "explained", "cleared"], decided_by=None)
                | Q(
                    state__in=["pending", "accepted", "linked", "adjusted", "written_off", "disputed"],
                    decided_by__isnull=False,
                    decided_at__isnull=False,
                ),
                name="break_that_is_decided_says_by_whom",
            ),
        ]
        indexes: ClassVar = [
            # The list and its total, by state.
            models.Index(fields=["state", "-opened_at", "-id"], name="break_of_state"),
            models.Index(fields=["invoice", "state"], name="break_of_invoice"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def is_posted(self) -> bool:
        """Say whether a decision stands in our books: also while somebody has asked to take it back."""
        is_asked_back = self.state == BreakState.PENDING and self.asked_action == Action.REOPEN
        return bool(self.entry_key) and (self.state in POSTED_STATES or is_asked_back)


class BreakEvent(models.Model):
    """One step in a break's life: append-only."""

    of_break = models.ForeignKey(Break, models.PROTECT, related_name="events")
    at = models.DateTimeField()
    # Empty: the matcher.
    by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    action = models.CharField(max_length=12)
    from_state = models.CharField(max_length=12, blank=True)
    to_state = models.CharField(max_length=12)
    reason = models.CharField(max_length=200, blank=True)
    said = models.CharField(max_length=300, blank=True)

    def __str__(self) -> str:
        return f"{self.action} {self.of_break_id}"
