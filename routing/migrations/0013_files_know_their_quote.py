"""A file knows its newest quote and who sent it; a quote may be made of the rows that another batch did not do."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_organisations_users_and_keys"),
        ("routing", "0012_usage_of_earlier_batches"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="storedfile",
            name="api_key",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="accounts.apikey",
            ),
        ),
        migrations.AddField(
            model_name="storedfile", name="quote_id", field=models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.RunSQL(
            "ALTER TABLE routing_quote ADD COLUMN retry_of varchar(40) NOT NULL DEFAULT ''",
            "ALTER TABLE routing_quote DROP COLUMN retry_of",
        ),
        # The table is not Django's to change: this is what its model knows of the column above.
        migrations.AddField(
            model_name="quote", name="retry_of", field=models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.AddField(
            model_name="batch", name="retry_of", field=models.CharField(blank=True, default="", max_length=40)
        ),
    ]
