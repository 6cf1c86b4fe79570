"""A retry may choose the rows that it does again, by code and outcome."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0021_batches_count_their_charge")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="filepricing", name="retried_codes", field=models.JSONField(blank=True, default=list)
        ),
        migrations.AddField(
            model_name="filepricing", name="retried_outcomes", field=models.JSONField(blank=True, default=list)
        ),
    ]
