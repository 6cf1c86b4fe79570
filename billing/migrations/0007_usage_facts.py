"""What was used, by quarter of an hour: facts per receipt, model and lane, and their roll-up without receipts."""

from pathlib import Path

from django.db import migrations

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    """The SQL stands beside this file: Django knows no partitions."""

    dependencies = [("billing", "0006_statement_index")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
    ]
