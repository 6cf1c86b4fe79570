"""What each attempt of each row used and cost: partitioned by time from the start, append-only."""

from pathlib import Path

from django.db import migrations, models

CREATE = Path(__file__).with_suffix(".sql").read_text()


class Migration(migrations.Migration):
    """The table is made by hand: Django knows no partitions."""

    dependencies = [("billing", "0002_journal_guards")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, "DROP TABLE attempt_fact"),
        migrations.CreateModel(
            name="AttemptFact",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "completed_at", "job_id", "row", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("completed_at", models.DateTimeField()),
                ("job_id", models.BigIntegerField()),
                ("row", models.IntegerField()),
                ("attempt_number", models.SmallIntegerField()),
                ("organisation_id", models.BigIntegerField()),
                ("batch_id", models.BigIntegerField()),
                ("lane_id", models.TextField()),
                ("provider", models.TextField()),
                ("provider_account", models.TextField()),
                ("provider_project", models.TextField()),
                (
                    "outcome",
                    models.TextField(
                        choices=[
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("expired", "expired"),
                            ("cancelled", "cancelled"),
                        ]
                    ),
                ),
                ("code", models.TextField()),
                ("input_tokens", models.BigIntegerField()),
                ("cached_input_tokens", models.BigIntegerField()),
                ("cache_write_5m_tokens", models.BigIntegerField()),
                ("cache_write_1h_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("cost_pico_usd", models.BigIntegerField()),
            ],
            options={
                "db_table": "attempt_fact",
                "managed": False,
            },
        ),
    ]
