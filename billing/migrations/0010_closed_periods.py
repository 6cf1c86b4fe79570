"""A closed month changes no more: the database refuses late writing, and history is append-only."""

from pathlib import Path

from django.db import migrations

CREATE = Path(__file__).with_suffix(".sql").read_text()
DROP = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    """The SQL stands beside this file."""

    dependencies = [("billing", "0009_provider_invoices")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
    ]
