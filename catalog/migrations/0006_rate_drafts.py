"""Drafts of rates: decided once, by another person than drafted them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

GUARDS = """
CREATE FUNCTION catalog_guard_draft() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'draft' OR NEW.state = 'draft'
        OR to_jsonb(NEW) - '{state,decided_by_id,decided_at,decision_reason,is_confirmed,version_id}'::text[]
        IS DISTINCT FROM
           to_jsonb(OLD) - '{state,decided_by_id,decided_at,decision_reason,is_confirmed,version_id}'::text[]
    THEN
        RAISE EXCEPTION 'rate draft % is %; it is decided once and changes in nothing else', OLD.public_id, OLD.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'rate_draft_is_decided_once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER rate_draft_is_decided_once BEFORE UPDATE ON catalog_ratedraft
    FOR EACH ROW EXECUTE FUNCTION catalog_guard_draft();
CREATE TRIGGER rate_draft_is_never_removed BEFORE DELETE OR TRUNCATE ON catalog_ratedraft
    FOR EACH STATEMENT EXECUTE FUNCTION catalog_refuse_change();
"""
NO_GUARDS = """
DROP TRIGGER rate_draft_is_never_removed ON catalog_ratedraft;
DROP TRIGGER rate_draft_is_decided_once ON catalog_ratedraft;
DROP FUNCTION catalog_guard_draft();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0005_lanes_may_be_beyond_their_adapter"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="RateDraft",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("card", models.CharField(max_length=14)),
                ("published", models.JSONField()),
                ("discount_basis_points", models.PositiveIntegerField(default=0)),
                ("valid_from", models.DateTimeField()),
                ("reason", models.CharField(max_length=200)),
                ("is_extraordinary", models.BooleanField()),
                ("is_confirmed", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[("draft", "Waits for approval"), ("approved", "Approved"), ("rejected", "Rejected")],
                        max_length=10,
                    ),
                ),
                ("drafted_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                ("decision_reason", models.CharField(default="", max_length=200)),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "drafted_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "lane",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="rate_drafts", to="catalog.lane"
                    ),
                ),
                (
                    "version",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="draft",
                        to="catalog.rateversion",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("state", "draft")), fields=["-id"], name="rate_draft_that_waits")
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("card__in", ("sell", "provider_batch", "list"))),
                        name="rate_draft_card_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("decided_by", None),
                            models.Q(("decided_by", models.F("drafted_by")), _negated=True),
                            _connector="OR",
                        ),
                        name="rates_are_approved_by_another_person",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decided_at", None), ("decided_by", None), ("state", "draft"), ("version", None)),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                ("state", "rejected"),
                                ("version", None),
                            ),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("decided_by__isnull", False),
                                ("state", "approved"),
                                ("version__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="rate_draft_has_a_version_when_it_is_approved",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("is_confirmed", False), ("is_extraordinary", True), ("state", "approved"), _negated=True
                        ),
                        name="extraordinary_rates_are_confirmed",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "rejected"), _negated=True),
                        fields=("lane", "card", "valid_from"),
                        name="rate_draft_is_one_per_start",
                    ),
                ],
            },
        ),
        migrations.RunSQL(GUARDS, NO_GUARDS),
    ]
