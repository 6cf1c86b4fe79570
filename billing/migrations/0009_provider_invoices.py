"""Provider invoices: their files and lines, what matching found of them, decisions, periods."""

import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Guards follow in the next one."""

    dependencies = [
        ("billing", "0008_adjustments"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="CollectedJobFact",
            fields=[
                ("job_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("batch_public_id", models.CharField(max_length=40)),
                ("model_snapshot", models.CharField(max_length=120)),
                ("model_id", models.CharField(max_length=160)),
                ("tier", models.CharField(max_length=20)),
                ("is_test", models.BooleanField()),
                ("input_rate_micro_usd_per_mtok", models.BigIntegerField()),
                ("cached_input_rate_micro_usd_per_mtok", models.BigIntegerField()),
                ("cache_write_5m_rate_micro_usd_per_mtok", models.BigIntegerField()),
                ("cache_write_1h_rate_micro_usd_per_mtok", models.BigIntegerField()),
                ("output_rate_micro_usd_per_mtok", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Break",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("key", models.CharField(max_length=80)),
                ("cause_key", models.CharField(blank=True, max_length=80)),
                ("kind", models.CharField(max_length=24)),
                ("said", models.CharField(max_length=500)),
                ("day", models.DateField(null=True)),
                ("model", models.CharField(blank=True, max_length=160)),
                ("tier", models.CharField(blank=True, max_length=160)),
                ("token_class", models.CharField(blank=True, max_length=22)),
                ("project", models.CharField(blank=True, max_length=160)),
                ("invoiced_quantity", models.BigIntegerField(null=True)),
                ("invoiced_pico_usd", models.DecimalField(decimal_places=0, max_digits=38)),
                ("ours_quantity", models.BigIntegerField(null=True)),
                ("ours_pico_usd", models.DecimalField(decimal_places=0, max_digits=38)),
                ("difference_pico_usd", models.DecimalField(decimal_places=0, max_digits=38)),
                ("evidence", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("explained", "Explained"),
                            ("pending", "Pending"),
                            ("accepted", "Accepted"),
                            ("linked", "Linked"),
                            ("adjusted", "Adjusted"),
                            ("written_off", "Written Off"),
                            ("disputed", "Disputed"),
                            ("cleared", "Cleared"),
                        ],
                        max_length=12,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("asked_action", models.CharField(blank=True, max_length=12)),
                ("entry_key", models.CharField(blank=True, max_length=250)),
                ("decided_at", models.DateTimeField(null=True)),
                ("opened_at", models.DateTimeField()),
                ("seen_number", models.PositiveIntegerField()),
                (
                    "decided_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BreakEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("action", models.CharField(max_length=12)),
                ("from_state", models.CharField(blank=True, max_length=12)),
                ("to_state", models.CharField(max_length=12)),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("said", models.CharField(blank=True, max_length=300)),
                (
                    "by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "of_break",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="events", to="billing.break"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ColumnMappingRow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80, unique=True)),
                ("mapping", models.JSONField()),
                ("saved_at", models.DateTimeField()),
                (
                    "saved_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Period",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("month", models.DateField(unique=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("closing", "Closing"), ("closed", "Closed")],
                        default="open",
                        max_length=8,
                    ),
                ),
                ("requested_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("export_blob", models.CharField(blank=True, default="", max_length=200)),
                ("export_sha256", models.BinaryField(max_length=32, null=True)),
                ("close_count", models.PositiveIntegerField(default=0)),
                (
                    "closed_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PeriodEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField()),
                ("action", models.CharField(max_length=12)),
                ("reason", models.CharField(blank=True, max_length=200)),
                ("export_sha256", models.BinaryField(max_length=32, null=True)),
                (
                    "by",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "period",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="events", to="billing.period"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProviderInvoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("provider", models.CharField(max_length=40)),
                ("provider_account", models.CharField(max_length=80)),
                ("period", models.DateField()),
                ("number", models.CharField(blank=True, max_length=120)),
                ("stated_total_micro_usd", models.BigIntegerField(null=True)),
                ("created_at", models.DateTimeField()),
                (
                    "match_state",
                    models.CharField(choices=[("idle", "Idle"), ("due", "Due")], default="idle", max_length=4),
                ),
                ("match_number", models.PositiveIntegerField(default=0)),
                ("matched_at", models.DateTimeField(null=True)),
                ("invoiced_pico_usd", models.DecimalField(decimal_places=0, max_digits=38, null=True)),
                ("ours_pico_usd", models.DecimalField(decimal_places=0, max_digits=38, null=True)),
                ("exact_pico_usd", models.DecimalField(decimal_places=0, max_digits=38, null=True)),
                ("waiting_pico_usd", models.DecimalField(decimal_places=0, max_digits=38, null=True)),
                ("bucket_count", models.PositiveIntegerField(default=0)),
                ("exact_bucket_count", models.PositiveIntegerField(default=0)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-period", "-id"], name="invoice_newest_first"),
                    models.Index(
                        condition=models.Q(("due_at__isnull", False)), fields=["due_at", "id"], name="invoice_due"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("provider", "provider_account", "period"), name="invoice_is_one_per_account_and_month"
                    ),
                    models.CheckConstraint(condition=models.Q(("period__day", 1)), name="invoice_is_of_a_month"),
                ],
            },
        ),
        migrations.CreateModel(
            name="InvoiceFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "report_format",
                    models.CharField(
                        choices=[
                            ("openai_costs", "openai_costs"),
                            ("openai_usage", "openai_usage"),
                            ("anthropic_cost", "anthropic_cost"),
                            ("anthropic_usage", "anthropic_usage"),
                            ("focus", "focus"),
                            ("aws_cur", "aws_cur"),
                            ("mapped_csv", "mapped_csv"),
                        ],
                        max_length=16,
                    ),
                ),
                ("has_money", models.BooleanField()),
                ("is_parquet", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("uploaded", "Uploaded"),
                            ("read", "Read"),
                            ("replaced", "Replaced"),
                            ("unreadable", "Unreadable"),
                            ("cancelled", "Cancelled"),
                        ],
                        max_length=10,
                    ),
                ),
                ("file_name", models.CharField(max_length=200)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("sha256", models.BinaryField(max_length=32)),
                ("blob_name", models.CharField(max_length=200)),
                ("mapping", models.JSONField(null=True)),
                ("request_parameters", models.CharField(blank=True, max_length=500)),
                ("fetched_at", models.DateTimeField(null=True)),
                ("parser_version", models.PositiveIntegerField(default=0)),
                ("page_count", models.PositiveIntegerField(default=0)),
                ("incomplete_reason", models.CharField(blank=True, default="", max_length=200)),
                ("line_count", models.PositiveIntegerField(default=0)),
                ("bad_line_count", models.PositiveIntegerField(default=0)),
                ("read_line_count", models.PositiveIntegerField(default=0)),
                ("amount_decimals_count", models.PositiveSmallIntegerField(default=0)),
                ("total_pico_usd", models.DecimalField(decimal_places=0, default=0, max_digits=38)),
                ("trouble", models.CharField(blank=True, default="", max_length=300)),
                ("is_cancel_asked", models.BooleanField(default=False)),
                ("uploaded_at", models.DateTimeField()),
                ("read_at", models.DateTimeField(null=True)),
                (
                    "uploaded_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="files", to="billing.providerinvoice"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Bucket",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("model", models.CharField(max_length=160)),
                ("tier", models.CharField(max_length=160)),
                ("token_class", models.CharField(max_length=22)),
                ("project", models.CharField(max_length=160)),
                ("invoiced_line_count", models.PositiveIntegerField()),
                ("invoiced_quantity", models.BigIntegerField(null=True)),
                ("invoiced_pico_usd", models.DecimalField(decimal_places=0, max_digits=38)),
                ("ours_job_count", models.PositiveIntegerField()),
                ("ours_quantity", models.BigIntegerField()),
                ("ours_pico_usd", models.DecimalField(decimal_places=0, max_digits=38)),
                ("failed_quantity", models.BigIntegerField(default=0)),
                ("failed_pico_usd", models.DecimalField(decimal_places=0, default=0, max_digits=38)),
                (
                    "state",
                    models.CharField(
                        choices=[("exact", "exact"), ("break", "break"), ("waiting", "waiting")],
                        default="exact",
                        max_length=10,
                    ),
                ),
                (
                    "invoice",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="buckets",
                        to="billing.providerinvoice",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="break",
            name="invoice",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="breaks",
                to="billing.providerinvoice",
            ),
        ),
        migrations.CreateModel(
            name="BadInvoiceLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("line", models.PositiveIntegerField()),
                ("code", models.CharField(max_length=40)),
                ("message", models.CharField(max_length=300)),
                ("raw", models.TextField()),
                (
                    "file",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="bad_lines",
                        to="billing.invoicefile",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["file", "line", "id"], name="bad_invoice_line_of_file")],
            },
        ),
        migrations.CreateModel(
            name="InvoiceLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("line", models.PositiveIntegerField()),
                ("account", models.CharField(max_length=160)),
                ("window_start", models.DateTimeField()),
                ("window_end", models.DateTimeField()),
                ("model_name", models.CharField(max_length=160)),
                ("tier", models.CharField(max_length=160)),
                (
                    "token_class",
                    models.CharField(
                        choices=[
                            ("input_uncached", "input_uncached"),
                            ("input_cache_read", "input_cache_read"),
                            ("input_cache_write_5m", "input_cache_write_5m"),
                            ("input_cache_write_1h", "input_cache_write_1h"),
                            ("output", "output"),
                            ("tool_call", "tool_call"),
                            ("other", "other"),
                        ],
                        max_length=22,
                    ),
                ),
                ("project", models.CharField(max_length=160)),
                ("quantity", models.BigIntegerField(null=True)),
                ("unit", models.CharField(max_length=160)),
                ("amount_pico_usd", models.BigIntegerField(null=True)),
                ("currency", models.CharField(max_length=160)),
                (
                    "charge_kind",
                    models.CharField(
                        choices=[
                            ("usage", "usage"),
                            ("tax", "tax"),
                            ("credit", "credit"),
                            ("commitment", "commitment"),
                        ],
                        max_length=10,
                    ),
                ),
                ("is_long_context", models.BooleanField()),
                ("reference", models.CharField(max_length=160)),
                ("format_note", models.CharField(max_length=160)),
                ("raw", models.TextField()),
                ("raw_row_hash", models.BinaryField(max_length=16)),
                (
                    "file",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="billing.invoicefile",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["file", "line", "id"], name="invoice_line_of_file")],
            },
        ),
        migrations.AddConstraint(
            model_name="period",
            constraint=models.CheckConstraint(condition=models.Q(("month__day", 1)), name="period_is_a_month"),
        ),
        migrations.AddConstraint(
            model_name="period",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("closed_by", None), ("export_sha256", None), ("requested_by", None), ("state", "open")),
                    models.Q(
                        ("closed_by", None),
                        ("export_sha256", None),
                        ("requested_by__isnull", False),
                        ("state", "closing"),
                    ),
                    models.Q(
                        ("closed_by__isnull", False),
                        ("export_sha256__isnull", False),
                        ("requested_by__isnull", False),
                        ("state", "closed"),
                    ),
                    _connector="OR",
                ),
                name="period_has_what_its_state_says",
            ),
        ),
        migrations.AddConstraint(
            model_name="period",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("closed_by", None),
                    models.Q(("closed_by", models.F("requested_by")), _negated=True),
                    _connector="OR",
                ),
                name="period_is_closed_by_two",
            ),
        ),
        migrations.AddIndex(
            model_name="invoicefile",
            index=models.Index(
                condition=models.Q(("due_at__isnull", False)), fields=["due_at", "id"], name="invoice_file_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="invoicefile",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["uploaded", "read", "replaced"])),
                fields=("invoice", "sha256"),
                name="invoice_file_is_taken_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoicefile",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "read")),
                fields=("invoice", "has_money"),
                name="invoice_has_one_current_file_a_kind",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoicefile",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["uploaded", "read", "replaced", "unreadable", "cancelled"])),
                name="invoice_file_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="bucket",
            constraint=models.UniqueConstraint(
                fields=("invoice", "day", "model", "tier", "token_class", "project"),
                name="bucket_is_one_per_invoice_and_place",
            ),
        ),
        migrations.AddIndex(
            model_name="break",
            index=models.Index(fields=["state", "-opened_at", "-id"], name="break_of_state"),
        ),
        migrations.AddIndex(
            model_name="break",
            index=models.Index(fields=["invoice", "state"], name="break_of_invoice"),
        ),
        migrations.AddConstraint(
            model_name="break",
            constraint=models.UniqueConstraint(fields=("invoice", "key"), name="break_is_one_per_invoice_and_place"),
        ),
        migrations.AddConstraint(
            model_name="break",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "state__in",
                        [
                            "open",
                            "explained",
                            "pending",
                            "accepted",
                            "linked",
                            "adjusted",
                            "written_off",
                            "disputed",
                            "cleared",
                        ],
                    )
                ),
                name="break_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="break",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "difference_pico_usd",
                        django.db.models.expressions.CombinedExpression(
                            models.F("invoiced_pico_usd"), "-", models.F("ours_pico_usd")
                        ),
                    )
                ),
                name="break_difference_is_invoiced_less_ours",
            ),
        ),
        migrations.AddConstraint(
            model_name="break",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_by", None), ("state__in", ["open", "explained", "cleared"])),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        ("state__in", ["pending", "accepted", "linked", "adjusted", "written_off", "disputed"]),
                    ),
                    _connector="OR",
                ),
                name="break_that_is_decided_says_by_whom",
            ),
        ),
    ]
