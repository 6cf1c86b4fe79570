import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """The journal, wallets, holds and receipts as plain tables; the guards follow."""

    initial = True

    dependencies = [
        ("accounts", "0001_organisations_users_and_keys"),
        ("ground", "0002_month_partitions"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="CustomerBalance",
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
                ("posted_micro_usd", models.BigIntegerField(default=0)),
                ("held_micro_usd", models.BigIntegerField(default=0)),
                ("receivable_micro_usd", models.BigIntegerField(default=0)),
                ("floor_micro_usd", models.BigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "posted_micro_usd__gte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("floor_micro_usd"), "+", models.F("held_micro_usd")
                                ),
                            )
                        ),
                        name="balance_stays_above_its_floor",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("held_micro_usd__gte", 0)), name="balance_never_holds_less_than_nothing"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("receivable_micro_usd__gte", 0)), name="balance_is_never_owed_by_the_house"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LedgerAccount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.CharField(max_length=200, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("customer_wallet", "Customer Wallet"),
                            ("customer_receivable", "Customer Receivable"),
                            ("revenue_usage", "Revenue Usage"),
                            ("revenue_fee", "Revenue Fee"),
                            ("ceiling_credit", "Ceiling Credit"),
                            ("cost_of_service", "Cost Of Service"),
                            ("provider_payable", "Provider Payable"),
                            ("top_up_clearing", "Top Up Clearing"),
                        ],
                        max_length=20,
                    ),
                ),
                ("book", models.CharField(choices=[("customer", "Customer"), ("test", "Test")], max_length=10)),
                ("created_at", models.DateTimeField()),
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
        ),
        migrations.CreateModel(
            name="LedgerTransaction",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("business_key", models.CharField(max_length=250, unique=True)),
                ("body_hash", models.BinaryField(max_length=32)),
                ("kind", models.CharField(choices=[("top_up", "Top Up"), ("settlement", "Settlement")], max_length=20)),
                ("reference", models.CharField(max_length=200)),
                ("effective_at", models.DateTimeField()),
                ("booked_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
                (
                    "recorded_by",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LedgerLeg",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("leg_number", models.PositiveSmallIntegerField()),
                ("amount_micro_usd", models.BigIntegerField()),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="legs",
                        to="billing.ledgeraccount",
                    ),
                ),
                (
                    "transaction",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="legs",
                        to="billing.ledgertransaction",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("batch_public_id", models.CharField(max_length=40)),
                ("group_key", models.CharField(max_length=200)),
                ("amount_micro_usd", models.BigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("settled", "settled"),
                            ("voided", "voided"),
                            ("expired", "expired"),
                        ],
                        max_length=10,
                    ),
                ),
                ("settled_micro_usd", models.BigIntegerField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
                (
                    "transaction",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="holds",
                        to="billing.ledgertransaction",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("batch_public_id", models.CharField(max_length=40, unique=True)),
                ("settled_at", models.DateTimeField()),
                ("line_count", models.PositiveIntegerField()),
                ("usage_charge_micro_usd", models.BigIntegerField()),
                ("fee_micro_usd", models.BigIntegerField()),
                ("total_micro_usd", models.BigIntegerField()),
                ("reserved_micro_usd", models.BigIntegerField()),
                ("released_micro_usd", models.BigIntegerField()),
                ("receivable_micro_usd", models.BigIntegerField()),
                ("estimate_total_micro_usd", models.BigIntegerField()),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
                (
                    "transaction",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="receipt",
                        to="billing.ledgertransaction",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ReceiptLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("line_number", models.PositiveIntegerField()),
                ("group_key", models.CharField(max_length=200)),
                ("lane_id", models.CharField(max_length=120)),
                ("model_slug", models.CharField(max_length=120)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("input", "input"),
                            ("cached_input", "cached_input"),
                            ("cache_write_5m", "cache_write_5m"),
                            ("cache_write_1h", "cache_write_1h"),
                            ("output", "output"),
                            ("control_plane_fee", "control_plane_fee"),
                            ("ceiling_credit", "ceiling_credit"),
                        ],
                        max_length=20,
                    ),
                ),
                ("tokens", models.BigIntegerField(null=True)),
                ("rate_micro_usd_per_mtok", models.BigIntegerField(null=True)),
                ("amount_micro_usd", models.BigIntegerField()),
                ("exact_pico_usd", models.DecimalField(decimal_places=0, max_digits=38)),
                (
                    "receipt",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="billing.receipt",
                    ),
                ),
            ],
            options={
                "ordering": ["receipt", "line_number"],
            },
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
                        ],
                    )
                ),
                name="ledger_account_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="ledgeraccount",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind__in", ("customer_wallet", "customer_receivable")), ("organisation__isnull", False)),
                    models.Q(
                        models.Q(("kind__in", ("customer_wallet", "customer_receivable")), _negated=True),
                        ("organisation__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="ledger_account_has_an_owner_or_is_the_houses",
            ),
        ),
        migrations.AddConstraint(
            model_name="ledgeraccount",
            constraint=models.UniqueConstraint(
                fields=("organisation", "kind"), name="ledger_account_is_one_per_organisation_and_kind"
            ),
        ),
        migrations.AddIndex(
            model_name="ledgertransaction",
            index=models.Index(fields=["organisation", "effective_at"], name="transaction_of_organisation"),
        ),
        migrations.AddConstraint(
            model_name="ledgertransaction",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["top_up", "settlement"])), name="ledger_transaction_kind_is_known"
            ),
        ),
        migrations.AddIndex(
            model_name="ledgerleg",
            index=models.Index(fields=["account"], include=("amount_micro_usd",), name="leg_amounts_of_account"),
        ),
        migrations.AddConstraint(
            model_name="ledgerleg",
            constraint=models.UniqueConstraint(
                fields=("transaction", "leg_number"), name="ledger_leg_number_is_one_per_transaction"
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                condition=models.Q(("expires_at__isnull", False), ("state", "open")),
                fields=["organisation", "expires_at"],
                name="hold_that_can_lapse",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                condition=models.Q(("state", "open")),
                fields=["organisation"],
                include=("amount_micro_usd",),
                name="hold_open_of_organisation",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.UniqueConstraint(
                fields=("organisation", "batch_public_id", "group_key"), name="hold_is_one_per_batch_and_group"
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount_micro_usd__gte", 0)), name="hold_is_never_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("closed_at__isnull", True),
                        ("settled_micro_usd__isnull", True),
                        ("state", "open"),
                        ("transaction__isnull", True),
                    ),
                    models.Q(
                        ("closed_at__isnull", False),
                        ("settled_micro_usd__gte", 0),
                        ("settled_micro_usd__lte", models.F("amount_micro_usd")),
                        ("state", "settled"),
                        ("transaction__isnull", False),
                    ),
                    models.Q(
                        ("closed_at__isnull", False),
                        ("settled_micro_usd__isnull", True),
                        ("state__in", ("voided", "expired")),
                        ("transaction__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="hold_is_open_or_has_one_exit",
            ),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(fields=["organisation", "-settled_at", "-id"], name="receipt_newest_first"),
        ),
        migrations.AddConstraint(
            model_name="receipt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "total_micro_usd",
                        django.db.models.expressions.CombinedExpression(
                            models.F("usage_charge_micro_usd"), "+", models.F("fee_micro_usd")
                        ),
                    )
                ),
                name="receipt_total_is_usage_and_fee",
            ),
        ),
        migrations.AddConstraint(
            model_name="receipt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("fee_micro_usd__gte", 0), ("receivable_micro_usd__gte", 0), ("usage_charge_micro_usd__gte", 0)
                ),
                name="receipt_never_pays_out",
            ),
        ),
        migrations.AddConstraint(
            model_name="receiptline",
            constraint=models.UniqueConstraint(
                fields=("receipt", "line_number"), name="receipt_line_number_is_one_per_receipt"
            ),
        ),
        migrations.AddConstraint(
            model_name="receiptline",
            constraint=models.UniqueConstraint(
                fields=("receipt", "group_key", "lane_id", "kind", "rate_micro_usd_per_mtok"),
                name="receipt_line_is_one_per_group_kind_and_rate",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="receiptline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "kind__in",
                        [
                            "input",
                            "cached_input",
                            "cache_write_5m",
                            "cache_write_1h",
                            "output",
                            "control_plane_fee",
                            "ceiling_credit",
                        ],
                    )
                ),
                name="receipt_line_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="receiptline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("kind__in", ("control_plane_fee", "ceiling_credit")),
                        ("rate_micro_usd_per_mtok__isnull", True),
                        ("tokens__isnull", True),
                    ),
                    models.Q(
                        models.Q(("kind__in", ("control_plane_fee", "ceiling_credit")), _negated=True),
                        ("rate_micro_usd_per_mtok__gte", 0),
                        ("tokens__gt", 0),
                    ),
                    _connector="OR",
                ),
                name="receipt_line_of_usage_has_tokens_and_rate",
            ),
        ),
        migrations.AddConstraint(
            model_name="receiptline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("amount_micro_usd__lt", 0), ("kind", "ceiling_credit")),
                    models.Q(models.Q(("kind", "ceiling_credit"), _negated=True), ("amount_micro_usd__gte", 0)),
                    _connector="OR",
                ),
                name="receipt_line_is_negative_for_a_credit_alone",
            ),
        ),
    ]
