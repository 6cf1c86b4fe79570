"""The thresholds below which a wallet's owner is told."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_people_may_switch_shortcuts_off"),
        ("billing", "0014_exports"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="BalanceAlert",
            fields=[
                (
                    "organisation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="accounts.organisation",
                    ),
                ),
                ("below_micro_usd", models.BigIntegerField()),
                ("is_armed", models.BooleanField(default=True)),
                ("crossing_count", models.PositiveIntegerField(default=0)),
                ("crossed_at", models.DateTimeField(null=True)),
                ("available_micro_usd", models.BigIntegerField(null=True)),
                ("mail_due_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("mail_due_at__isnull", False)),
                        fields=["mail_due_at"],
                        name="balance_mail_that_is_due",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("below_micro_usd__gt", 0)), name="balance_alert_has_a_threshold"
                    )
                ],
            },
        ),
    ]
