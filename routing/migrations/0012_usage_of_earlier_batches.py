"""Receipts from before there was usage are folded into it, with the keys of their batches; they say no requests."""

from django.db import migrations

FOLD = """
SELECT billing_fold_usage(
    coalesce(array_agg(receipt.id ORDER BY receipt.id), '{}'),
    coalesce(array_agg(batch.api_key_id ORDER BY receipt.id), '{}'),
    coalesce(array_agg('[]'::jsonb ORDER BY receipt.id), '{}'))
FROM billing_receipt receipt LEFT JOIN routing_batch batch ON batch.public_id = receipt.batch_public_id
"""


class Migration(migrations.Migration):
    """Billing does not know batches, so this stands here."""

    dependencies = [("routing", "0011_open_quotes_are_swept"), ("billing", "0007_usage_facts")]
    operations = [migrations.RunSQL(FOLD, migrations.RunSQL.noop)]
