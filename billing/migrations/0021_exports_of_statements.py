from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0020_matching_gives_up")]

    operations = [
        migrations.AlterField(
            model_name="export",
            name="kind",
            field=models.CharField(
                choices=[
                    ("ledger", "ledger"),
                    ("usage", "usage"),
                    ("receipts", "receipts"),
                    ("statements", "statements"),
                    ("focus", "focus"),
                    ("journal", "journal"),
                    ("breaks", "breaks"),
                ],
                max_length=12,
            ),
        ),
    ]
