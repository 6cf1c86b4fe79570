"""A job remembers which provider's jobs were taken for it and proved to be another's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0003_jobs_end_unsent")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="providerjob", name="disproved_batch_refs", field=models.JSONField(default=list)
        ),
    ]
