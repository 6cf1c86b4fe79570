"""A batch knows what its collected rows are charged, so that one near its ceiling is found without reading its rows."""

from django.db import migrations, models

# Those that run; the charge of the others is settled.
FILL = """
UPDATE routing_batch AS batch SET collected_charge_pico_usd = (
    SELECT coalesce(sum(charge_pico_usd), 0) FROM routing_rowoutcome
    WHERE accepted_at = batch.created_at AND batch_id = batch.id
) WHERE status IN ('in_progress', 'finalizing', 'cancelling')
"""


class Migration(migrations.Migration):
    dependencies = [("routing", "0020_output_has_its_lifetime")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="batch", name="collected_charge_pico_usd", field=models.BigIntegerField(default=0)
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
