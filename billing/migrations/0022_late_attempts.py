"""Attempts that come when their month is closed: noted, and carried to the next month that is open."""

from pathlib import Path

from django.db import migrations, models
from django.db.models import F, Q

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    """The SQL stands beside this file."""

    dependencies = [("billing", "0021_exports_of_statements")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="AttemptRecording",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("batch_public_id", models.CharField(max_length=40)),
                ("completed_at", models.DateTimeField()),
                ("recorded_at", models.DateTimeField()),
                ("provider", models.CharField(max_length=40)),
                ("provider_account", models.CharField(max_length=80)),
                ("is_test", models.BooleanField()),
                ("attempt_count", models.PositiveIntegerField()),
                ("cost_pico_usd", models.DecimalField(decimal_places=0, max_digits=38)),
                ("late_for", models.DateField(null=True)),
                ("carried_to", models.DateField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(late_for=None, carried_to=None)
                        | Q(late_for__isnull=False, carried_to__gt=F("late_for")),
                        name="late_attempts_are_carried_onwards",
                    )
                ],
                "indexes": [
                    models.Index(fields=["provider", "provider_account", "completed_at"], name="recording_of_account"),
                    models.Index(
                        fields=["late_for", "-id"], condition=Q(late_for__isnull=False), name="recording_late_for"
                    ),
                    models.Index(
                        fields=["carried_to"], condition=Q(carried_to__isnull=False), name="recording_carried_to"
                    ),
                ],
            },
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
