"""Batches of uploaded files: validating until their file is priced, failed with what is wrong with it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("routing", "0008_quotes_of_files")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="batch", name="input_file_id", field=models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.AddField(model_name="batch", name="errors", field=models.JSONField(blank=True, null=True)),
        migrations.RemoveConstraint(model_name="batch", name="batch_that_ended_is_settled"),
        migrations.AddConstraint(
            model_name="batch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status__in", ["completed", "expired", "cancelled"]), _negated=True),
                    models.Q(("charge_micro_usd__isnull", False), models.Q(("receipt_id", ""), _negated=True)),
                    models.Q(("in_progress_at__isnull", True), ("status", "cancelled")),
                    _connector="OR",
                ),
                name="batch_that_ended_is_settled",
            ),
        ),
    ]
