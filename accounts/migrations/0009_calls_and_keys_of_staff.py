"""Calls of our own people are kept as customers' are, each person's apart; and their keys say when they were used."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# As before, for one of two owners; equal means equal for the one that is not there too.
CLAIM = """
DROP FUNCTION accounts_claim_call(bigint, text, text, bytea);
CREATE FUNCTION accounts_claim_call(of_organisation bigint, of_user bigint, of_route text, with_key text, hash bytea)
    RETURNS TABLE (call_id bigint, number integer, is_claimed boolean, is_same boolean, code smallint, body bytea,
                   led_to text)
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        INSERT INTO accounts_keptcall AS kept
            (organisation_id, user_id, route, key, body_hash, claim_number, claimed_at, location)
        VALUES (of_organisation, of_user, of_route, with_key, hash, 1, lanehouse_now(), '')
        ON CONFLICT (organisation_id, user_id, route, key) DO UPDATE
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
            WHERE kept.organisation_id IS NOT DISTINCT FROM of_organisation
              AND kept.user_id IS NOT DISTINCT FROM of_user AND kept.route = of_route AND kept.key = with_key;
    END IF;
END $$;
"""
CLAIM_OF_ORGANISATIONS = """
DROP FUNCTION accounts_claim_call(bigint, bigint, text, text, bytea);
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


class Migration(migrations.Migration):
    """Two columns, the constraints that follow, and the function that claims."""

    dependencies = [("accounts", "0008_staff_keys")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField("staffkey", "last_used_at", models.DateTimeField(blank=True, null=True)),
        # What staff's calls were answered goes with a step back: it is kept for a day at most.
        migrations.RunSQL(migrations.RunSQL.noop, "DELETE FROM accounts_keptcall WHERE organisation_id IS NULL"),
        migrations.AlterField(
            "keptcall",
            "organisation",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="accounts.organisation",
            ),
        ),
        migrations.AddField(
            "keptcall",
            "user",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunSQL(migrations.RunSQL.noop, CLAIM_OF_ORGANISATIONS),
        migrations.RemoveConstraint("keptcall", "kept_call_is_one_per_organisation_route_and_key"),
        migrations.AddConstraint(
            "keptcall",
            models.UniqueConstraint(
                fields=("organisation", "user", "route", "key"),
                name="kept_call_is_one_per_caller_route_and_key",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            "keptcall",
            models.CheckConstraint(
                condition=models.Q(("organisation__isnull", False), ("user", None))
                | models.Q(("organisation", None), ("user__isnull", False)),
                name="kept_call_is_an_organisations_or_a_persons",
            ),
        ),
        migrations.RunSQL(CLAIM, migrations.RunSQL.noop),
    ]
