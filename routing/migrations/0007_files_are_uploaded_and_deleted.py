"""A file can be deleted; its row stays as the record, and says when its bytes were removed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0006_workflows")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="storedfile", name="deleted_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="storedfile", name="swept_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddIndex(
            model_name="storedfile",
            index=models.Index(
                condition=models.Q(("deleted_at__isnull", False), ("swept_at", None)),
                fields=["deleted_at"],
                name="file_deleted",
            ),
        ),
        migrations.AddIndex(
            model_name="storedfile",
            index=models.Index(condition=models.Q(("swept_at", None)), fields=["expires_at"], name="file_ends"),
        ),
        migrations.AddConstraint(
            model_name="storedfile",
            constraint=models.CheckConstraint(condition=models.Q(("size_bytes__gt", 0)), name="file_is_not_empty"),
        ),
    ]
