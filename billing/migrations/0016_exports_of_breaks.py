from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0008_staff_keys"),
        ("billing", "0015_balance_alerts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RemoveConstraint(
            model_name="export",
            name="export_of_the_journal_is_the_houses",
        ),
        migrations.AlterField(
            model_name="export",
            name="kind",
            field=models.CharField(
                choices=[
                    ("ledger", "ledger"),
                    ("usage", "usage"),
                    ("receipts", "receipts"),
                    ("focus", "focus"),
                    ("journal", "journal"),
                    ("breaks", "breaks"),
                ],
                max_length=12,
            ),
        ),
        migrations.AddConstraint(
            model_name="export",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind__in", ["journal", "breaks"]), _negated=True),
                    ("organisation", None),
                    _connector="OR",
                ),
                name="export_of_the_houses_books_is_the_houses",
            ),
        ),
    ]
