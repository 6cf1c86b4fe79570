import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_people_may_switch_shortcuts_off"),
        ("billing", "0013_files_may_wait_for_a_mapping"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Export",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("public_id", models.CharField(max_length=40, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("ledger", "ledger"),
                            ("usage", "usage"),
                            ("receipts", "receipts"),
                            ("focus", "focus"),
                            ("journal", "journal"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "file_format",
                    models.CharField(
                        choices=[
                            ("csv", "csv"),
                            ("jsonl", "jsonl"),
                            ("parquet", "parquet"),
                            ("beancount", "beancount"),
                        ],
                        max_length=10,
                    ),
                ),
                ("first_day", models.DateField(null=True)),
                ("last_day", models.DateField(null=True)),
                ("zone", models.CharField(max_length=64)),
                ("filters", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("completed", "Completed"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("failure", models.CharField(blank=True, default="", max_length=200)),
                ("done_count", models.BigIntegerField(default=0)),
                ("expected_count", models.BigIntegerField(null=True)),
                ("row_count", models.BigIntegerField(null=True)),
                ("totals", models.JSONField(default=dict)),
                ("size_bytes", models.BigIntegerField(null=True)),
                ("sha256", models.BinaryField(max_length=32, null=True)),
                ("blob_name", models.CharField(blank=True, default="", max_length=200)),
                ("created_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField()),
                ("swept_at", models.DateTimeField(null=True)),
                (
                    "api_key",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.apikey",
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["organisation", "-created_at", "-id"], name="export_newest_first"),
                    models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="export_due"),
                    models.Index(
                        condition=models.Q(("swept_at", None)), fields=["expires_at"], name="export_not_swept"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", False),
                                ("sha256__isnull", False),
                                ("size_bytes__gte", 0),
                                ("state", "completed"),
                                ("row_count", models.F("done_count")),
                                ("row_count__gte", 0),
                                models.Q(("blob_name", ""), _negated=True),
                            ),
                            models.Q(
                                models.Q(("state", "completed"), _negated=True),
                                ("blob_name", ""),
                                ("row_count", None),
                                ("sha256", None),
                                ("size_bytes", None),
                            ),
                            _connector="OR",
                        ),
                        name="export_has_a_file_exactly_when_completed",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("due_at__isnull", False), ("finished_at", None), ("state__in", ["queued", "running"])
                            ),
                            models.Q(
                                ("due_at", None),
                                ("finished_at__isnull", False),
                                ("state__in", ["completed", "failed", "cancelled"]),
                            ),
                            _connector="OR",
                        ),
                        name="export_is_due_or_ended",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "journal"), _negated=True), ("organisation", None), _connector="OR"
                        ),
                        name="export_of_the_journal_is_the_houses",
                    ),
                ],
            },
        ),
    ]
