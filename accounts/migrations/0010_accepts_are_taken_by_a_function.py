"""An accept is counted by a function, so that functions which make batches count theirs without a statement more."""

from django.db import migrations

FORWARD = """
-- Says whether there was room for one more; the row stays locked until the transaction ends.
CREATE FUNCTION accounts_take_accept(payer_id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := lanehouse_now();
BEGIN
    UPDATE accounts_ratebucket bucket
        SET full_at = greatest(bucket.full_at, at) + accounts_span_of(1, organisation.accepts_per_minute)
        FROM accounts_organisation organisation
        WHERE organisation.id = payer_id AND bucket.organisation_id = payer_id AND bucket.kind = 'accepts'
          AND bucket.full_at + accounts_span_of(1, organisation.accepts_per_minute) <= at + interval '1 minute';
    RETURN FOUND;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0009_calls_and_keys_of_staff")]

    operations = [migrations.RunSQL(FORWARD, "DROP FUNCTION accounts_take_accept(bigint)")]
