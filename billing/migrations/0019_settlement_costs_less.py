"""Guards that read the same rows stand for foreign keys; a posting's statements are planned once, by their keys."""

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0008_staff_keys"),
        ("billing", "0018_reversals_spare_grants"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="ledgerleg",
            name="account",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="legs",
                to="billing.ledgeraccount",
            ),
        ),
        migrations.AlterField(
            model_name="ledgerleg",
            name="transaction",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="legs",
                to="billing.ledgertransaction",
            ),
        ),
        migrations.AlterField(
            model_name="receipt",
            name="organisation",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="accounts.organisation",
            ),
        ),
        migrations.AlterField(
            model_name="receipt",
            name="transaction",
            field=models.OneToOneField(
                db_constraint=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="receipt",
                to="billing.ledgertransaction",
            ),
        ),
        migrations.AlterField(
            model_name="receiptline",
            name="receipt",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="lines",
                to="billing.receipt",
            ),
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
