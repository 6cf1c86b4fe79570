"""A reversal takes back what was bought, and leaves alone what grants have left."""

from pathlib import Path

from django.db import migrations

CREATE = Path(__file__).with_suffix(".sql").read_text()
BEFORE = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    """The SQL stands beside this file."""

    dependencies = [("billing", "0017_balances_plan_for_their_instant")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, BEFORE),
    ]
