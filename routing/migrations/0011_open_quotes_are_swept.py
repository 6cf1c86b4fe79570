"""The bytes of open quotes are counted by organisation, and those of older quotes get their end too."""

from django.db import migrations

OPEN_QUOTES = """
CREATE INDEX quote_open_of_organisation ON routing_quote (organisation_id) INCLUDE (body_size_bytes)
    WHERE payload_kept_until IS NOT NULL;
UPDATE routing_quote SET payload_kept_until = expires_at + interval '1 hour'
    WHERE status = 'ready' AND payload_kept_until IS NULL
    AND NOT EXISTS (SELECT FROM routing_batch WHERE routing_batch.quote_id = routing_quote.public_id);
"""


class Migration(migrations.Migration):
    dependencies = [("routing", "0010_calls_are_taken_and_tokens_debited")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(OPEN_QUOTES, "DROP INDEX quote_open_of_organisation"),
    ]
