"""A CSV of somebody else's waits for its mapping before it is read."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """One more state of a file."""

    dependencies = [
        ("billing", "0012_books"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RemoveConstraint(
            model_name="invoicefile",
            name="invoice_file_is_taken_once",
        ),
        migrations.RemoveConstraint(
            model_name="invoicefile",
            name="invoice_file_state_is_known",
        ),
        migrations.AlterField(
            model_name="invoicefile",
            name="state",
            field=models.CharField(
                choices=[
                    ("draft", "Draft"),
                    ("uploaded", "Uploaded"),
                    ("read", "Read"),
                    ("replaced", "Replaced"),
                    ("unreadable", "Unreadable"),
                    ("cancelled", "Cancelled"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddConstraint(
            model_name="invoicefile",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["draft", "uploaded", "read", "replaced"])),
                fields=("invoice", "sha256"),
                name="invoice_file_is_taken_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoicefile",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["draft", "uploaded", "read", "replaced", "unreadable", "cancelled"])),
                name="invoice_file_state_is_known",
            ),
        ),
    ]
