"""A key's scopes are of a closed set; none means every scope, as all keys had until now."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_rate_buckets")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(("scopes__contained_by", ["quotes", "batches", "files", "webhooks", "read"])),
                name="api_key_scopes_are_known",
            ),
        ),
    ]
