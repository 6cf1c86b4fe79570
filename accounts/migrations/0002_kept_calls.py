"""Calls with an Idempotency-Key: claimed once, their answer kept for a day and never changed."""

import django.db.models.deletion
from django.db import migrations, models

# One round trip, and the second statement sees what was committed while the first one waited for the row.
CLAIM = """
CREATE FUNCTION accounts_claim_call(of_organisation bigint, of_route text, with_key text, hash bytea)
    RETURNS TABLE (call_id bigint, number integer, is_claimed boolean, is_same boolean, code smallint, body bytea,
                   led_to text)
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        INSERT INTO accounts_keptcall AS kept
            (organisation_id, route, key, body_hash, claim_number, claimed_at, location)
        VALUES (of_organisation, of_route, with_key, hash, 1, lanehouse_now(), '')
        ON CONFLICT (organisation_id, route, key) DO UPDATE
            SET body_hash = excluded.body_hash, claim_number = kept.claim_number + 1, claimed_at = excluded.claimed_at,
                status_code = NULL, content = NULL, location = '', answered_at = NULL
            WHERE kept.claimed_at <= lanehouse_now() - CASE
                WHEN kept.status_code IS NULL THEN interval '60 seconds' ELSE interval '24 hours' END
        RETURNING kept.id, kept.claim_number, true, true, NULL::smallint, NULL::bytea, '';
    IF NOT FOUND THEN
        RETURN QUERY
            SELECT kept.id, kept.claim_number, false, kept.body_hash = hash, kept.status_code, kept.content,
                   kept.location::text
            FROM accounts_keptcall AS kept
            WHERE kept.organisation_id = of_organisation AND kept.route = of_route AND kept.key = with_key;
    END IF;
END $$;
"""

GUARD = """
CREATE FUNCTION accounts_guard_kept_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.claim_number NOT IN (OLD.claim_number, OLD.claim_number + 1) THEN
        RAISE EXCEPTION 'a claim counts up by one' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.claim_number = OLD.claim_number AND (OLD.status_code IS NOT NULL OR NEW.body_hash <> OLD.body_hash) THEN
        RAISE EXCEPTION 'a kept answer is never changed' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER kept_call_is_answered_once BEFORE UPDATE ON accounts_keptcall
    FOR EACH ROW EXECUTE FUNCTION accounts_guard_kept_call();
"""
UNGUARD = """
DROP TRIGGER kept_call_is_answered_once ON accounts_keptcall;
DROP FUNCTION accounts_guard_kept_call();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_organisations_users_and_keys"),
        ("ground", "0001_database_time_and_grants"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="KeptCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("route", models.CharField(max_length=120)),
                ("key", models.CharField(max_length=255)),
                ("body_hash", models.BinaryField(max_length=32)),
                ("claim_number", models.PositiveIntegerField()),
                ("claimed_at", models.DateTimeField(db_index=True)),
                ("status_code", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("content", models.BinaryField(blank=True, null=True)),
                ("location", models.CharField(blank=True, default="", max_length=200)),
                ("answered_at", models.DateTimeField(blank=True, null=True)),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.organisation"
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="keptcall",
            constraint=models.UniqueConstraint(
                fields=("organisation", "route", "key"), name="kept_call_is_one_per_organisation_route_and_key"
            ),
        ),
        migrations.AddConstraint(
            model_name="keptcall",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("answered_at", None), ("content", None), ("status_code", None)),
                    models.Q(
                        ("answered_at__isnull", False), ("content__isnull", False), ("status_code__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="kept_call_has_its_whole_answer_or_none",
            ),
        ),
        migrations.AddConstraint(
            model_name="keptcall",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("status_code", None),
                    models.Q(
                        models.Q(("status_code__in", [409, 429]), _negated=True),
                        ("status_code__gte", 200),
                        ("status_code__lt", 500),
                    ),
                    _connector="OR",
                ),
                name="kept_call_keeps_no_answer_that_will_pass",
            ),
        ),
        migrations.RunSQL(GUARD, UNGUARD),
        migrations.RunSQL(CLAIM, "DROP FUNCTION accounts_claim_call(bigint, text, text, bytea)"),
    ]
