"""Credit that grants had paid goes back to them; an expired grant keeps for a hold what the hold keeps of it."""

from pathlib import Path

from django.db import migrations, models
from django.db.models import Q

CREATE = Path(__file__).with_suffix(".sql").read_text()
BEFORE = Path(__file__).with_suffix(".reverse.sql").read_text()


class Migration(migrations.Migration):
    """The SQL stands beside this file."""

    dependencies = [("billing", "0022_late_attempts")]
    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RemoveConstraint(model_name="grantburn", name="burn_takes_something"),
        migrations.AddConstraint(
            model_name="grantburn",
            constraint=models.CheckConstraint(condition=~Q(amount_micro_usd=0), name="burn_moves_something"),
        ),
        migrations.RunSQL(CREATE, BEFORE),
    ]
