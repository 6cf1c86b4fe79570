"""Uploads and batches of them are a statement each, and a call knows a retry that overtook it."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
BACK = """
DROP FUNCTION routing_create_file_batch(
    bigint, bigint, integer, bytea, text, text, jsonb, jsonb, integer, boolean, interval, interval, boolean, text,
    timestamptz, timestamptz);
DROP FUNCTION routing_keep_file(
    bigint, bigint, text, text, bigint, bytea, text, timestamptz, interval, bigint, boolean, interval, interval,
    text, timestamptz, timestamptz, text, bytea);
DROP FUNCTION routing_begin_pricing(
    bigint, bigint, text, timestamptz, timestamptz, text, bytea, text, bigint, text, text, jsonb, jsonb);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_accepts_are_taken_by_a_function"),
        ("routing", "0022_retries_choose_their_rows"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(model_name="batch", name="overtook_at", field=models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            model_name="storedfile", name="overtook_at", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.RunSQL(SQL, BACK),
    ]
