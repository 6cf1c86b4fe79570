"""Adjustments: requests, decisions, postings; grants that burn and expire. The guards and functions stand beside."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_audit_log"),
        ("billing", "0007_usage_facts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Adjustment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("request_key", models.CharField(max_length=80, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("credit", "Credit to the customer"),
                            ("debit", "Charge to the customer"),
                            ("refund", "Refund, paid out"),
                            ("write_off", "Write-off of what is owed"),
                            ("reversal", "Reversal of an entry"),
                            ("grant", "Grant with expiry"),
                        ],
                        max_length=20,
                    ),
                ),
                ("amount_micro_usd", models.BigIntegerField()),
                ("reason", models.CharField(max_length=200)),
                ("break_ref", models.CharField(default="", max_length=40)),
                ("effective_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("priority", models.PositiveSmallIntegerField(default=50)),
                ("needs_approval", models.BooleanField()),
                (
                    "state",
                    models.CharField(
                        choices=[("requested", "Waits for approval"), ("posted", "Posted"), ("refused", "Refused")],
                        max_length=10,
                    ),
                ),
                ("requested_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                ("decision_reason", models.CharField(default="", max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="GrantBurn",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("amount_micro_usd", models.BigIntegerField()),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="ledgeraccount",
            name="ledger_account_kind_is_known",
        ),
        migrations.RemoveConstraint(
            model_name="ledgertransaction",
            name="ledger_transaction_kind_is_known",
        ),
        migrations.AlterField(
            model_name="ledgeraccount",
            name="kind",
            field=models.CharField(
                choices=[
                    ("customer_wallet", "Customer Wallet"),
                    ("customer_receivable", "Customer Receivable"),
                    ("revenue_usage", "Revenue Usage"),
                    ("revenue_fee", "Revenue Fee"),
                    ("ceiling_credit", "Ceiling Credit"),
                    ("cost_of_service", "Cost Of Service"),
                    ("provider_payable", "Provider Payable"),
                    ("top_up_clearing", "Top Up Clearing"),
                    ("adjustment", "Adjustment"),
                    ("write_off", "Write Off"),
                    ("promotion", "Promotion"),
                    ("breakage", "Breakage"),
                ],
                max_length=20,
            ),
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
                ],
                max_length=20,
            ),
        ),
        migrations.AddConstraint(
            model_name="ledgeraccount",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "customer_wallet",
                            "customer_receivable",
                            "revenue_usage",
                            "revenue_fee",
                            "ceiling_credit",
                            "cost_of_service",
                            "provider_payable",
                            "top_up_clearing",
                            "adjustment",
                            "write_off",
                            "promotion",
                            "breakage",
                        ],
                    )
                ),
                name="ledger_account_kind_is_known",
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
                        ],
                    )
                ),
                name="ledger_transaction_kind_is_known",
            ),
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "adjustment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="grant",
                        serialize=False,
                        to="billing.adjustment",
                    ),
                ),
                ("amount_micro_usd", models.BigIntegerField()),
                ("burned_micro_usd", models.BigIntegerField(default=0)),
                ("expired_micro_usd", models.BigIntegerField(default=0)),
                ("priority", models.PositiveSmallIntegerField()),
                ("effective_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="adjustment",
            name="decided_by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="adjustment",
            name="organisation",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="accounts.organisation",
            ),
        ),
        migrations.AddField(
            model_name="adjustment",
            name="receipt",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="adjustments", to="billing.receipt"
            ),
        ),
        migrations.AddField(
            model_name="adjustment",
            name="requested_by",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="adjustment",
            name="reverses",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="billing.ledgertransaction",
            ),
        ),
        migrations.AddField(
            model_name="adjustment",
            name="transaction",
            field=models.OneToOneField(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="adjustment",
                to="billing.ledgertransaction",
            ),
        ),
        migrations.AddField(
            model_name="grantburn",
            name="transaction",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="billing.ledgertransaction",
            ),
        ),
        migrations.AddField(
            model_name="grantburn",
            name="grant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="burns", to="billing.grant"
            ),
        ),
        migrations.AddIndex(
            model_name="adjustment",
            index=models.Index(fields=["organisation", "-id"], name="adjustment_of_organisation"),
        ),
        migrations.AddIndex(
            model_name="adjustment",
            index=models.Index(
                condition=models.Q(("state", "requested")), fields=["-id"], name="adjustment_that_waits"
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["credit", "debit", "refund", "write_off", "reversal", "grant"])),
                name="adjustment_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_micro_usd__gt", 0)), name="adjustment_moves_something"
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("decided_by__isnull", True),
                    models.Q(("decided_by", models.F("requested_by")), _negated=True),
                    _connector="OR",
                ),
                name="adjustment_is_decided_by_another_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_at", None), ("decided_by", None), ("state", "requested"), ("transaction", None)),
                    models.Q(
                        ("decided_at__isnull", False),
                        ("decided_by__isnull", False),
                        ("state", "refused"),
                        ("transaction", None),
                    ),
                    models.Q(
                        models.Q(("needs_approval", False), ("decided_by__isnull", False), _connector="OR"),
                        ("decided_at__isnull", False),
                        ("state", "posted"),
                        ("transaction__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="adjustment_is_posted_after_its_approval",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "reversal"), ("reverses__isnull", False)),
                    models.Q(models.Q(("kind", "reversal"), _negated=True), ("reverses", None)),
                    _connector="OR",
                ),
                name="adjustment_reverses_an_entry_or_none",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expires_at", None),
                    models.Q(("expires_at__gt", models.F("effective_at")), ("kind", "grant")),
                    _connector="OR",
                ),
                name="adjustment_expires_as_a_grant_alone",
            ),
        ),
        migrations.AddConstraint(
            model_name="adjustment",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "refused"), _negated=True),
                fields=("reverses",),
                name="entry_is_reversed_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="grantburn",
            constraint=models.UniqueConstraint(fields=("transaction", "grant"), name="grant_is_burned_once_a_posting"),
        ),
        migrations.AddConstraint(
            model_name="grantburn",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_micro_usd__gt", 0)), name="burn_takes_something"
            ),
        ),
        migrations.AddIndex(
            model_name="grant",
            index=models.Index(
                condition=models.Q(
                    (
                        "amount_micro_usd__gt",
                        django.db.models.expressions.CombinedExpression(
                            models.F("burned_micro_usd"), "+", models.F("expired_micro_usd")
                        ),
                    )
                ),
                fields=["organisation"],
                name="grant_with_something_left",
            ),
        ),
        migrations.AddConstraint(
            model_name="grant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "amount_micro_usd__gte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("burned_micro_usd"), "+", models.F("expired_micro_usd")
                        ),
                    ),
                    ("burned_micro_usd__gte", 0),
                    ("expired_micro_usd__gte", 0),
                ),
                name="grant_is_used_once",
            ),
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
