"""What a call needs to know in one statement, and the debit of a quote's tokens with its row."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
BACK = """
DROP FUNCTION routing_take_call(bytea);
DROP TRIGGER quote_debits_its_tokens_once ON routing_quote;
DROP TRIGGER quote_debits_its_tokens ON routing_quote;
DROP FUNCTION routing_debit_tokens();
ALTER TABLE routing_quote DROP COLUMN input_tokens;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_rate_buckets"),
        ("billing", "0006_statement_index"),
        ("catalog", "0005_lanes_may_be_beyond_their_adapter"),
        ("routing", "0009_batches_of_files"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(SQL, BACK),
        # The table is not Django's to change: this is what its model knows of the new column.
        migrations.AddField(model_name="quote", name="input_tokens", field=models.PositiveBigIntegerField(null=True)),
    ]
