"""A card's versions are one chain in time: each holds until the next begins, has every rate, and begins from now on."""

from django.db import migrations

CREATE = """
-- A version has no end of its own, so two cannot overlap and nothing lies between them; but one without a rate would be a
-- gap, and one made in the past would change what held then. The clock is the database's: a minute is what two may differ.
CREATE OR REPLACE FUNCTION catalog_stamp_rate_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.made_in_transaction := pg_current_xact_id()::text::bigint;
    IF NEW.made_at < lanehouse_now() - interval '1 minute' - (statement_timestamp() - transaction_timestamp()) THEN
        RAISE EXCEPTION 'a rate version is made now, not at %', NEW.made_at
            USING ERRCODE = 'check_violation', CONSTRAINT = 'rate_version_is_not_backdated';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION catalog_refuse_gap() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kind_count integer;
BEGIN
    SELECT count(DISTINCT kind) INTO kind_count FROM catalog_rateline
        WHERE version_id = NEW.id AND context_from_tokens = 0;
    IF kind_count < 5 THEN
        RAISE EXCEPTION 'rate version % has % of 5 rates: its lane would have none from % on', NEW.id, kind_count, NEW.valid_from
            USING ERRCODE = 'check_violation', CONSTRAINT = 'rate_version_has_every_rate';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER rate_version_has_every_rate AFTER INSERT ON catalog_rateversion
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION catalog_refuse_gap();

CREATE VIEW catalog_ratespan AS
SELECT lane_id, card, id AS version_id,
       tstzrange(valid_from, lead(valid_from) OVER (PARTITION BY lane_id, card ORDER BY valid_from)) AS holds
FROM catalog_rateversion;
"""

DROP = """
DROP VIEW catalog_ratespan;
DROP TRIGGER rate_version_has_every_rate ON catalog_rateversion;
DROP FUNCTION catalog_refuse_gap();
CREATE OR REPLACE FUNCTION catalog_stamp_rate_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.made_in_transaction := pg_current_xact_id()::text::bigint;
    RETURN NEW;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("catalog", "0006_rate_drafts")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
    ]
