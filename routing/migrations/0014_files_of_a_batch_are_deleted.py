"""A batch says since when its files are deleted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("routing", "0013_files_know_their_quote"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="batch", name="files_deleted_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="batch", name="files_swept_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("files_deleted_at__isnull", False), ("files_swept_at", None)),
                fields=["files_deleted_at"],
                name="batch_files_deleted",
            ),
        ),
        migrations.AddConstraint(
            model_name="batch",
            constraint=models.CheckConstraint(
                condition=models.Q(("files_deleted_at", None))
                | models.Q(("status__in", ["completed", "failed", "expired", "cancelled"])),
                name="batch_keeps_its_files_until_it_has_ended",
            ),
        ),
    ]
