"""Organisations take turns; accounts know who signs their provider's notices, and since when they are refused."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_people_may_switch_shortcuts_off"),
        ("routing", "0017_web_processes_report"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(model_name="batch", name="finish_by", field=models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            model_name="provideraccount",
            name="notice_secret_encrypted",
            field=models.BinaryField(blank=True, default=b""),
        ),
        migrations.AddField(
            model_name="provideraccount", name="refused_since", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="provideraccount",
            name="refusal",
            field=models.CharField(blank=True, default="", max_length=300),
        ),
        migrations.AddIndex(
            model_name="providerjob",
            index=models.Index(
                condition=models.Q(("ending", "completed")), fields=["account", "completed_at"], name="job_lately"
            ),
        ),
        migrations.CreateModel(
            name="Turn",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("queue", models.CharField(max_length=300)),
                ("begun_units", models.BigIntegerField()),
                ("given_units", models.BigIntegerField()),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="accounts.organisation"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["queue", "begun_units"], name="turn_of_queue")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("queue", "organisation"), name="turn_is_one_per_queue_and_organisation"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("given_units__gte", models.F("begun_units"))), name="turn_goes_on"
                    ),
                ],
            },
        ),
    ]
