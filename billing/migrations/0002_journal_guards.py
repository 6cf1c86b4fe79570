"""The database keeps the journal's promises, whoever writes."""

from pathlib import Path

from django.db import migrations

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    """The SQL stands beside this file."""

    dependencies = [("billing", "0001_ledger_wallets_and_receipts")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
    ]
