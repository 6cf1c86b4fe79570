"""What web processes report of their quotes and their gates."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("routing", "0016_batches_are_found_by_metadata"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="QuotePathReport",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("process", models.CharField(max_length=80)),
                ("reported_at", models.DateTimeField()),
                ("recent", models.JSONField()),
                ("totals", models.JSONField()),
                ("load", models.JSONField()),
            ],
            options={
                "indexes": [models.Index(fields=["reported_at"], name="quote_path_by_time")],
            },
        ),
    ]
