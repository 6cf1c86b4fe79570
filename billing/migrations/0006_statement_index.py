"""The legs of an account in their order: serves its balance and its statement."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """The old index lacked the order."""

    dependencies = [("billing", "0005_settle_batch")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="ledgerleg",
            index=models.Index(fields=["account", "id"], include=("amount_micro_usd",), name="leg_of_account_in_order"),
        ),
        migrations.RemoveIndex(model_name="ledgerleg", name="leg_amounts_of_account"),
    ]
