"""A settlement in few statements: guards look at their rows once, and say what CHECKs and foreign keys said."""

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()
# What the guards of 0024_settlement_in_few_statements.sql keep instead.
KEPT_BY_GUARDS = (
    ("customerbalance", "balance_never_holds_less_than_nothing"),
    ("customerbalance", "balance_is_never_owed_by_the_house"),
    ("hold", "hold_is_never_negative"),
    ("hold", "hold_is_open_or_has_one_exit"),
    ("ledgertransaction", "ledger_transaction_kind_is_known"),
    ("receipt", "receipt_total_is_usage_and_fee"),
    ("receipt", "receipt_never_pays_out"),
    ("receiptline", "receipt_line_kind_is_known"),
    ("receiptline", "receipt_line_of_usage_has_tokens_and_rate"),
    ("receiptline", "receipt_line_is_negative_for_a_credit_alone"),
)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0008_staff_keys"),
        ("billing", "0023_credit_goes_back_to_its_grants"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
        *(migrations.RemoveConstraint(model_name=model, name=name) for model, name in KEPT_BY_GUARDS),
        migrations.AlterField(
            model_name="hold",
            name="transaction",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="holds",
                to="billing.ledgertransaction",
            ),
        ),
        migrations.AlterField(model_name="ledgerleg", name="leg_number", field=models.SmallIntegerField()),
        migrations.AlterField(
            model_name="ledgertransaction",
            name="organisation",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="accounts.organisation",
            ),
        ),
        migrations.AlterField(model_name="receipt", name="line_count", field=models.IntegerField()),
        migrations.AlterField(model_name="receiptline", name="line_number", field=models.IntegerField()),
    ]
