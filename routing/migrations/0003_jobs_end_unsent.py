"""Jobs of a batch that is ended early end without having been sent; a batch says since when it is being ended."""

from django.db import migrations, models
from django.db.models import Q

_NAME = "job_that_runs_has_a_provider_reference"
_RUNS = Q(state__in=["running", "ended", "collected"])


class Migration(migrations.Migration):
    dependencies = [("routing", "0002_moves_endings_and_notices")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(model_name="batch", name="ending_at", field=models.DateTimeField(blank=True, null=True)),
        migrations.RemoveConstraint(model_name="providerjob", name=_NAME),
        migrations.AddConstraint(
            model_name="providerjob",
            constraint=models.CheckConstraint(
                condition=~_RUNS
                | ~Q(batch_ref="")
                | Q(state__in=["ended", "collected"], ending__in=["failed", "cancelled", "expired"]),
                name=_NAME,
            ),
        ),
    ]
