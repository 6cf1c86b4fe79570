"""Snapshots for balances at any instant, and the record of proofs. The functions stand beside."""

from pathlib import Path

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0011_house_postings"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="LedgerSnapshot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cutoff_at", models.DateTimeField(unique=True)),
                ("made_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SnapshotBalance",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "account_id", "cutoff_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cutoff_at", models.DateTimeField()),
                ("booked_micro_usd", models.BigIntegerField()),
                ("effective_micro_usd", models.BigIntegerField()),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="billing.ledgeraccount",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProofRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("requested_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                ("holds", models.BooleanField(null=True)),
                ("checks", models.JSONField(default=list)),
                ("leg_count", models.BigIntegerField(null=True)),
                ("duration_ms", models.BigIntegerField(null=True)),
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
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("finished_at", None), ("holds", None)),
                            models.Q(("finished_at__isnull", False), ("holds__isnull", False)),
                            _connector="OR",
                        ),
                        name="proof_has_an_answer_when_it_is_done",
                    ),
                    models.UniqueConstraint(
                        models.Value(1),
                        condition=models.Q(("finished_at", None)),
                        name="one_proof_is_asked_for_at_a_time",
                    ),
                ],
            },
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
