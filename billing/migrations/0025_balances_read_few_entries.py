"""Balances at an instant read few entries by construction; measured in docs/performance.md."""

from pathlib import Path

from django.db import migrations

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    dependencies = [("billing", "0024_settlement_in_few_statements")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
    ]
