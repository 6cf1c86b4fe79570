"""Quotes, batches, sub-lanes, provider jobs, files, row outcomes; quotes and outcomes are partitioned by month."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models

TABLES = (Path(__file__).parent / "0001_partitioned_tables.sql").read_text()
DROP_TABLES = "DROP TABLE routing_rowoutcome; DROP FUNCTION routing_outcome_is_final(); DROP TABLE routing_quote;"


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("ground", "0002_month_partitions"),
        ("accounts", "0001_organisations_users_and_keys"),
    ]

    operations = [
        migrations.CreateModel(
            name="Quote",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "public_id", "created_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("public_id", models.CharField(max_length=40)),
                ("created_at", models.DateTimeField()),
                ("workflow", models.CharField(max_length=80)),
                (
                    "status",
                    models.CharField(
                        choices=[("pending", "Pending"), ("ready", "Ready"), ("failed", "Failed")], max_length=10
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("endpoint", models.CharField(max_length=40)),
                ("row_count", models.PositiveIntegerField()),
                ("body_size_bytes", models.PositiveBigIntegerField()),
                ("answer", models.BinaryField()),
                ("plan", models.BinaryField()),
            ],
            options={
                "db_table": "routing_quote",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="RowOutcome",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "accepted_at", "batch_id", "row", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("accepted_at", models.DateTimeField()),
                ("batch_id", models.BigIntegerField()),
                ("row", models.IntegerField()),
                ("outcome", models.CharField(max_length=10)),
                ("code", models.CharField(max_length=60)),
                ("status_code", models.SmallIntegerField()),
                ("sub_lane_id", models.BigIntegerField()),
                ("job_id", models.BigIntegerField(null=True)),
                ("group_index", models.SmallIntegerField()),
                ("attempt_number", models.SmallIntegerField()),
                ("re_dispatch_count", models.SmallIntegerField()),
                ("input_tokens", models.BigIntegerField()),
                ("cached_input_tokens", models.BigIntegerField()),
                ("cache_write_5m_tokens", models.BigIntegerField()),
                ("cache_write_1h_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("reasoning_tokens", models.BigIntegerField()),
                ("charge_pico_usd", models.BigIntegerField()),
                ("body_offset", models.BigIntegerField()),
                ("body_length", models.IntegerField()),
            ],
            options={
                "db_table": "routing_rowoutcome",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="ProviderAccount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("provider", models.CharField(max_length=40)),
                ("kind", models.CharField(choices=[("customer", "Customer"), ("test", "Test")], max_length=10)),
                ("name", models.CharField(max_length=80)),
                ("base_url", models.URLField(max_length=300)),
                ("api_key_encrypted", models.BinaryField()),
                ("project", models.CharField(blank=True, default="", max_length=120)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("provider", "kind"), name="provider_account_is_one_per_provider_and_kind"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StoredFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "purpose",
                    models.CharField(choices=[("batch", "Batch"), ("batch_output", "Batch Output")], max_length=20),
                ),
                ("filename", models.CharField(max_length=255)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("sha256", models.BinaryField(max_length=32)),
                ("blob_name", models.CharField(max_length=200, unique=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.organisation"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Batch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("quote_id", models.CharField(max_length=40, unique=True)),
                ("accept_body_hash", models.BinaryField(max_length=32)),
                ("workflow", models.CharField(max_length=80)),
                ("endpoint", models.CharField(max_length=40)),
                ("completion_window", models.CharField(default="24h", max_length=8)),
                ("metadata", models.JSONField(blank=True, null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("validating", "Validating"),
                            ("in_progress", "In Progress"),
                            ("finalizing", "Finalizing"),
                            ("completed", "Completed"),
                            ("failed", "Failed"),
                            ("expired", "Expired"),
                            ("cancelling", "Cancelling"),
                            ("cancelled", "Cancelled"),
                        ],
                        max_length=12,
                    ),
                ),
                ("plan", models.BinaryField()),
                ("row_count", models.PositiveIntegerField()),
                ("completed_count", models.PositiveIntegerField(default=0)),
                ("failed_count", models.PositiveIntegerField(default=0)),
                ("input_tokens", models.PositiveBigIntegerField(default=0)),
                ("cached_input_tokens", models.PositiveBigIntegerField(default=0)),
                ("output_tokens", models.PositiveBigIntegerField(default=0)),
                ("reasoning_tokens", models.PositiveBigIntegerField(default=0)),
                ("total_estimate_micro_usd", models.PositiveBigIntegerField()),
                ("ceiling_micro_usd", models.PositiveBigIntegerField()),
                ("charge_micro_usd", models.PositiveBigIntegerField(blank=True, null=True)),
                ("receipt_id", models.CharField(blank=True, default="", max_length=40)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("in_progress_at", models.DateTimeField(blank=True, null=True)),
                ("finalizing_at", models.DateTimeField(blank=True, null=True)),
                ("completed_at", models.DateTimeField(blank=True, null=True)),
                ("failed_at", models.DateTimeField(blank=True, null=True)),
                ("expired_at", models.DateTimeField(blank=True, null=True)),
                ("cancelling_at", models.DateTimeField(blank=True, null=True)),
                ("cancelled_at", models.DateTimeField(blank=True, null=True)),
                (
                    "api_key",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.apikey",
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.organisation"
                    ),
                ),
                (
                    "error_file",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="routing.storedfile",
                    ),
                ),
                (
                    "output_file",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="routing.storedfile",
                    ),
                ),
                (
                    "results_file",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="routing.storedfile",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SubLane",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("number", models.PositiveSmallIntegerField()),
                ("group_index", models.PositiveSmallIntegerField()),
                ("lane_id", models.CharField(max_length=80)),
                ("model_slug", models.CharField(max_length=120)),
                ("provider", models.CharField(max_length=40)),
                ("region", models.CharField(max_length=40)),
                ("model_id", models.CharField(max_length=160)),
                ("model_snapshot", models.CharField(max_length=160)),
                ("is_quoted", models.BooleanField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("waiting", "Waiting"),
                            ("submitting", "Submitting"),
                            ("submitted", "Submitted"),
                            ("running", "Running"),
                            ("collecting", "Collecting"),
                            ("completed", "Completed"),
                            ("failed", "Failed"),
                            ("expired", "Expired"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=200)),
                ("row_count", models.PositiveIntegerField()),
                ("completed_count", models.PositiveIntegerField(default=0)),
                ("failed_count", models.PositiveIntegerField(default=0)),
                ("moved_out_count", models.PositiveIntegerField(default=0)),
                ("re_dispatched_count", models.PositiveIntegerField(default=0)),
                ("reported_count", models.PositiveIntegerField(default=0)),
                ("estimated_input_tokens", models.PositiveBigIntegerField()),
                ("fee_micro_usd", models.PositiveBigIntegerField()),
                ("charge_micro_usd", models.PositiveBigIntegerField(blank=True, null=True)),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="sub_lanes", to="routing.batch"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProviderJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("number", models.PositiveIntegerField()),
                ("attempt_number", models.PositiveSmallIntegerField(default=1)),
                ("token", models.CharField(max_length=40, unique=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("intended", "Intended"),
                            ("submitting", "Submitting"),
                            ("unknown", "Unknown"),
                            ("running", "Running"),
                            ("ended", "Ended"),
                            ("collected", "Collected"),
                            ("abandoned", "Abandoned"),
                        ],
                        default="intended",
                        max_length=10,
                    ),
                ),
                ("rows", models.BinaryField()),
                ("row_count", models.PositiveIntegerField()),
                ("estimated_input_tokens", models.PositiveBigIntegerField()),
                ("input_ref", models.CharField(blank=True, default="", max_length=200)),
                ("batch_ref", models.CharField(blank=True, default="", max_length=200)),
                ("output_refs", models.JSONField(default=list)),
                ("ending", models.CharField(blank=True, default="", max_length=10)),
                ("reported_done_count", models.PositiveIntegerField(default=0)),
                ("reported_failed_count", models.PositiveIntegerField(default=0)),
                ("results_blob", models.CharField(blank=True, default="", max_length=200)),
                ("foreign_count", models.PositiveIntegerField(default=0)),
                ("duplicate_count", models.PositiveIntegerField(default=0)),
                ("missing_count", models.PositiveIntegerField(default=0)),
                ("try_count", models.PositiveIntegerField(default=0)),
                ("last_error", models.CharField(blank=True, default="", max_length=300)),
                ("intended_at", models.DateTimeField()),
                ("submitting_at", models.DateTimeField(blank=True, null=True)),
                ("submitted_at", models.DateTimeField(blank=True, null=True)),
                ("polled_at", models.DateTimeField(blank=True, null=True)),
                ("completed_at", models.DateTimeField(blank=True, null=True)),
                ("collected_at", models.DateTimeField(blank=True, null=True)),
                (
                    "account",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="routing.provideraccount"
                    ),
                ),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="routing.batch"
                    ),
                ),
                (
                    "sub_lane",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="routing.sublane"
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="storedfile",
            index=models.Index(fields=["organisation", "-created_at", "-id"], name="file_of_organisation"),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(fields=["organisation", "-created_at", "-id"], name="batch_of_organisation"),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="batch_due"),
        ),
        migrations.AddConstraint(
            model_name="batch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "row_count__gte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("completed_count"), "+", models.F("failed_count")
                        ),
                    )
                ),
                name="batch_has_no_more_outcomes_than_rows",
            ),
        ),
        migrations.AddConstraint(
            model_name="batch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status", "completed"), _negated=True),
                    (
                        "row_count",
                        django.db.models.expressions.CombinedExpression(
                            models.F("completed_count"), "+", models.F("failed_count")
                        ),
                    ),
                    _connector="OR",
                ),
                name="batch_completed_has_every_row",
            ),
        ),
        migrations.AddConstraint(
            model_name="batch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status__in", ["completed", "expired", "cancelled"]), _negated=True),
                    models.Q(("charge_micro_usd__isnull", False), models.Q(("receipt_id", ""), _negated=True)),
                    _connector="OR",
                ),
                name="batch_that_ended_is_settled",
            ),
        ),
        migrations.AddIndex(
            model_name="sublane",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="sub_lane_due"),
        ),
        migrations.AddConstraint(
            model_name="sublane",
            constraint=models.UniqueConstraint(fields=("batch", "number"), name="sub_lane_number_is_unique_in_batch"),
        ),
        migrations.AddConstraint(
            model_name="sublane",
            constraint=models.UniqueConstraint(
                fields=("batch", "model_snapshot", "lane_id"), name="sub_lane_is_one_per_lane_and_batch"
            ),
        ),
        migrations.AddConstraint(
            model_name="sublane",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "row_count__gte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("completed_count"), "+", models.F("failed_count")
                        ),
                    )
                ),
                name="sub_lane_has_no_more_outcomes_than_rows",
            ),
        ),
        migrations.AddIndex(
            model_name="providerjob",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="job_due"),
        ),
        migrations.AddIndex(
            model_name="providerjob",
            index=models.Index(
                condition=models.Q(("state__in", ["collected", "abandoned"]), _negated=True),
                fields=["state"],
                name="job_in_flight",
            ),
        ),
        migrations.AddConstraint(
            model_name="providerjob",
            constraint=models.UniqueConstraint(fields=("sub_lane", "number"), name="job_number_is_unique_in_sub_lane"),
        ),
        migrations.AddConstraint(
            model_name="providerjob",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["running", "ended", "collected"]), _negated=True),
                    models.Q(("batch_ref", ""), _negated=True),
                    ("ending", "failed"),
                    _connector="OR",
                ),
                name="job_that_runs_has_a_provider_reference",
            ),
        ),
        migrations.RunSQL(TABLES, DROP_TABLES),
    ]
