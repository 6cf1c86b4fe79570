"""A batch may say how long what it puts out is kept."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0019_tables_are_learned")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="batch", name="output_kept_seconds", field=models.PositiveIntegerField(blank=True, null=True)
        ),
    ]
