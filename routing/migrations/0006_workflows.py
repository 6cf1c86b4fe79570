"""Workflows and their versions, which are never edited."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

GUARD = """
CREATE TRIGGER workflow_version_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON routing_workflowversion
    FOR EACH STATEMENT EXECUTE FUNCTION routing_refuse_change();
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE UPDATE, DELETE, TRUNCATE ON routing_workflowversion FROM lanehouse_app;
    END IF;
END $$;
"""
UNGUARD = "DROP TRIGGER workflow_version_is_append_only ON routing_workflowversion"


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_organisations_users_and_keys"),
        ("routing", "0005_people_decide_unclear_jobs"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Workflow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("name", models.CharField(max_length=64)),
                ("version_number", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField()),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="workflows",
                        to="accounts.organisation",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WorkflowVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("penalty_micro_usd_per_minute", models.BigIntegerField()),
                ("penalty_micro_usd_per_percent", models.BigIntegerField()),
                ("fan_out", models.BooleanField()),
                ("webhook_mode", models.CharField(choices=[("gather", "gather"), ("each", "each")], max_length=10)),
                (
                    "regions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), blank=True, default=list, size=None
                    ),
                ),
                (
                    "providers_allowed",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), blank=True, default=list, size=None
                    ),
                ),
                (
                    "providers_denied",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), blank=True, default=list, size=None
                    ),
                ),
                ("max_input_rate_micro_usd_per_mtok", models.BigIntegerField(blank=True, null=True)),
                ("max_output_rate_micro_usd_per_mtok", models.BigIntegerField(blank=True, null=True)),
                ("finish_by_minutes", models.IntegerField(blank=True, null=True)),
                ("created_at", models.DateTimeField()),
                (
                    "api_key",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.apikey",
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="versions", to="routing.workflow"
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="workflow",
            constraint=models.UniqueConstraint(
                condition=models.Q(("archived_at__isnull", True)),
                fields=("organisation", "name"),
                name="workflow_name_is_unique_in_its_organisation",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflow",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("name__regex", "^[a-z0-9][a-z0-9-]*$"), models.Q(("name", "default"), _negated=True)
                ),
                name="workflow_name_is_a_word_of_its_own",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowversion",
            constraint=models.UniqueConstraint(
                fields=("workflow", "number"), name="workflow_version_has_a_number_of_its_own"
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowversion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("number__gte", 1),
                    ("penalty_micro_usd_per_minute__gte", 0),
                    ("penalty_micro_usd_per_percent__gte", 0),
                ),
                name="workflow_penalties_are_not_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="workflowversion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("finish_by_minutes__isnull", True), ("finish_by_minutes__range", (1, 1440)), _connector="OR"
                    ),
                    models.Q(
                        ("max_input_rate_micro_usd_per_mtok__isnull", True),
                        ("max_input_rate_micro_usd_per_mtok__gte", 0),
                        _connector="OR",
                    ),
                    models.Q(
                        ("max_output_rate_micro_usd_per_mtok__isnull", True),
                        ("max_output_rate_micro_usd_per_mtok__gte", 0),
                        _connector="OR",
                    ),
                ),
                name="workflow_constraints_are_within_bounds",
            ),
        ),
        migrations.RunSQL(GUARD, UNGUARD),
    ]
