"""A provider's adapter may carry some of its lanes only."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("catalog", "0004_rates_and_rotations_are_never_edited")]

    operations = [
        migrations.AddField(model_name="lane", name="is_carried", field=models.BooleanField(default=True)),
    ]
