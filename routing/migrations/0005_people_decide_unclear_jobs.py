"""A job says since when people are asked whether it was sent; what they decide is kept for good."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

GUARD = """
CREATE FUNCTION routing_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER unclear_decision_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON routing_uncleardecision
    FOR EACH STATEMENT EXECUTE FUNCTION routing_refuse_change();
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE UPDATE, DELETE, TRUNCATE ON routing_uncleardecision FROM lanehouse_app;
    END IF;
END $$;
"""
UNGUARD = """
DROP TRIGGER unclear_decision_is_append_only ON routing_uncleardecision;
DROP FUNCTION routing_refuse_change();
"""
CHOICES = [
    ("send_again", "Send it again"),
    ("adopt", "It is this job of the provider"),
    ("give_up", "Give it up"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("routing", "0004_adopted_jobs_are_proven"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="providerjob", name="unclear_since", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(model_name="providerjob", name="candidates", field=models.JSONField(default=list)),
        migrations.AddConstraint(
            model_name="providerjob",
            constraint=models.CheckConstraint(
                condition=Q(unclear_since=None) | Q(state="unknown"), name="job_that_is_unclear_is_unknown"
            ),
        ),
        migrations.AddIndex(
            model_name="providerjob",
            index=models.Index(fields=["unclear_since"], condition=Q(unclear_since__isnull=False), name="job_unclear"),
        ),
        migrations.CreateModel(
            name="UnclearDecision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("choice", models.CharField(choices=CHOICES, max_length=10)),
                ("batch_ref", models.CharField(blank=True, default="", max_length=200)),
                ("reason", models.CharField(max_length=200)),
                ("decided_at", models.DateTimeField()),
                (
                    "decided_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="routing.providerjob",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(choice__in=["send_again", "adopt", "give_up"]), name="unclear_choice_is_known"
                    ),
                    models.CheckConstraint(
                        condition=Q(choice="adopt") ^ Q(batch_ref=""), name="unclear_choice_names_what_it_adopts"
                    ),
                ],
            },
        ),
        migrations.RunSQL(GUARD, UNGUARD),
    ]
