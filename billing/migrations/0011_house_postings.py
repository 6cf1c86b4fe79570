"""Entries between the house and a provider: no customer has a part in them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """A kind of posting, and headers without an organisation."""

    dependencies = [
        ("accounts", "0007_people_may_switch_shortcuts_off"),
        ("billing", "0010_closed_periods"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RemoveConstraint(
            model_name="ledgertransaction",
            name="ledger_transaction_kind_is_known",
        ),
        migrations.AlterField(
            model_name="ledgertransaction",
            name="kind",
            field=models.CharField(
                choices=[
                    ("top_up", "Top Up"),
                    ("settlement", "Settlement"),
                    ("credit", "Credit"),
                    ("debit", "Debit"),
                    ("refund", "Refund"),
                    ("write_off", "Write Off"),
                    ("reversal", "Reversal"),
                    ("grant", "Grant"),
                    ("grant_expiry", "Grant Expiry"),
                    ("provider_adjustment", "Provider Adjustment"),
                ],
                max_length=20,
            ),
        ),
        migrations.AlterField(
            model_name="ledgertransaction",
            name="organisation",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="accounts.organisation",
            ),
        ),
        migrations.AddConstraint(
            model_name="ledgertransaction",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "top_up",
                            "settlement",
                            "credit",
                            "debit",
                            "refund",
                            "write_off",
                            "reversal",
                            "grant",
                            "grant_expiry",
                            "provider_adjustment",
                        ],
                    )
                ),
                name="ledger_transaction_kind_is_known",
            ),
        ),
    ]
