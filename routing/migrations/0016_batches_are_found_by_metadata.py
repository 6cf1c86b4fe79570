"""Lists of batches are narrowed by pairs of their metadata."""

import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0015_batches_teach_the_estimator")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="batch",
            index=django.contrib.postgres.indexes.GinIndex(
                condition=models.Q(("metadata__isnull", False)),
                fields=["metadata"],
                name="batch_has_metadata",
                opclasses=["jsonb_path_ops"],
            ),
        ),
    ]
