"""Rows move between lanes, batches end early, and their ends are told."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_organisations_users_and_keys"),
        ("routing", "0001_quotes_batches_jobs_and_outcomes"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="batch",
            name="collected_count",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="batch",
            name="ending",
            field=models.CharField(
                blank=True,
                choices=[("", "None"), ("cancelled", "Cancelled"), ("expired", "Expired")],
                default="",
                max_length=10,
            ),
        ),
        migrations.AddField(
            model_name="batch",
            name="is_to_be_told",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="providerjob",
            name="cancel_asked_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="providerjob",
            name="collected_number",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="providerjob",
            name="fault",
            field=models.CharField(blank=True, default="", max_length=40),
        ),
        migrations.AddField(
            model_name="providerjob",
            name="moved_from",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="routing.providerjob",
            ),
        ),
        migrations.AddField(
            model_name="providerjob",
            name="tried_lane_ids",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="sublane",
            name="pins",
            field=models.BinaryField(default=b""),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("ending", ""), ("status__in", ["validating", "in_progress"])),
                fields=["expires_at"],
                name="batch_window",
            ),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("is_to_be_told", True)), fields=["organisation"], name="batch_to_be_told"
            ),
        ),
    ]
