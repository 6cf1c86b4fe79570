"""Endpoints, events that are never edited, and deliveries."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
import django.db.models.lookups
from django.db import migrations, models

FREEZE = """
CREATE FUNCTION webhooks_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% takes no %: what was sent stays as it was', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER event_is_frozen BEFORE UPDATE ON webhooks_event
    FOR EACH ROW EXECUTE FUNCTION webhooks_refuse_change();
"""

THAW = """
DROP TRIGGER event_is_frozen ON webhooks_event;
DROP FUNCTION webhooks_refuse_change();
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_organisations_users_and_keys"),
        ("ground", "0002_month_partitions"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("url", models.CharField(max_length=2048)),
                ("name", models.CharField(blank=True, max_length=200)),
                (
                    "event_types",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=80), blank=True, default=list, size=None
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("enabled", "Enabled"), ("disabled", "Disabled"), ("deleted", "Deleted")],
                        default="enabled",
                        max_length=8,
                    ),
                ),
                ("state_reason", models.CharField(blank=True, max_length=200)),
                ("state_changed_at", models.DateTimeField()),
                ("secret", models.BinaryField()),
                ("secret_last_four", models.CharField(max_length=4)),
                ("secret_generation", models.PositiveIntegerField(default=1)),
                ("secret_made_at", models.DateTimeField()),
                ("previous_secret", models.BinaryField(blank=True, null=True)),
                ("previous_secret_until", models.DateTimeField(blank=True, null=True)),
                ("failure_streak_count", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("served_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="webhook_endpoints",
                        to="accounts.organisation",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("type", models.CharField(max_length=80)),
                ("payload", models.BinaryField()),
                ("business_key", models.CharField(max_length=200)),
                ("happened_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("is_test", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("delivered", "Delivered"),
                            ("failed", "Failed"),
                            ("ended", "Ended"),
                        ],
                        default="pending",
                        max_length=9,
                    ),
                ),
                ("state_reason", models.CharField(blank=True, max_length=40)),
                ("state_changed_at", models.DateTimeField()),
                ("attempt_count", models.PositiveIntegerField(default=0)),
                ("failure_count", models.PositiveIntegerField(default=0)),
                ("interruption_count", models.PositiveIntegerField(default=0)),
                (
                    "last_outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("delivered", "DELIVERED"),
                            ("http_3xx", "HTTP_3XX"),
                            ("http_4xx", "HTTP_4XX"),
                            ("http_429", "HTTP_429"),
                            ("http_5xx", "HTTP_5XX"),
                            ("timeout", "TIMEOUT"),
                            ("dns", "DNS"),
                            ("connect", "CONNECT"),
                            ("tls", "TLS"),
                            ("protocol", "PROTOCOL"),
                            ("blocked", "BLOCKED"),
                            ("unknown", "UNKNOWN"),
                        ],
                        max_length=12,
                    ),
                ),
                ("last_status_code", models.PositiveIntegerField(blank=True, null=True)),
                ("last_attempt_at", models.DateTimeField(blank=True, null=True)),
                ("resend_requested_at", models.DateTimeField(blank=True, null=True)),
                ("resend_requested_by", models.CharField(blank=True, max_length=120)),
                ("resumes_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
                (
                    "endpoint",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="webhooks.endpoint",
                    ),
                ),
                (
                    "event",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="webhooks.event",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="endpoint",
            index=models.Index(fields=["organisation", "-id"], name="endpoint_by_organisation"),
        ),
        migrations.AddIndex(
            model_name="endpoint",
            index=models.Index(
                models.OrderBy(models.F("served_at"), nulls_first=True),
                condition=models.Q(("state", "enabled")),
                name="endpoint_by_turn",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["enabled", "disabled", "deleted"])), name="endpoint_state_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "disabled"), _negated=True),
                    models.Q(("state_reason", ""), _negated=True),
                    _connector="OR",
                ),
                name="endpoint_disabled_has_a_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("previous_secret__isnull", True), ("previous_secret_until__isnull", True)),
                    models.Q(("previous_secret__isnull", False), ("previous_secret_until__isnull", False)),
                    _connector="OR",
                ),
                name="endpoint_previous_secret_has_an_end",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("failing_since__isnull", True), ("failure_streak_count", 0)),
                    models.Q(("failing_since__isnull", False), ("failure_streak_count__gte", 1)),
                    _connector="OR",
                ),
                name="endpoint_failing_has_a_beginning",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["organisation", "-id"], name="event_by_organisation"),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(fields=("organisation", "business_key"), name="event_is_one_per_fact"),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.LessThanOrEqual(django.db.models.functions.text.Length("payload"), 20000)
                ),
                name="event_payload_fits_a_receiver",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("due_at__isnull", False)), fields=["endpoint", "due_at"], name="delivery_by_due"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("lease_until__isnull", False)),
                fields=["endpoint", "lease_until"],
                name="delivery_in_flight",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("lease_until__isnull", False)),
                fields=["organisation", "lease_until"],
                name="delivery_in_flight_of_all",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["organisation", "-id"], name="delivery_by_organisation"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["organisation", "state", "-id"], name="delivery_by_state"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["endpoint", "-id"], name="delivery_by_endpoint"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                fields=("event", "endpoint"), name="delivery_is_one_per_event_and_endpoint"
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "delivered", "failed", "ended"])),
                name="delivery_state_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("due_at__isnull", False),
                        models.Q(("state", "pending"), ("resend_requested_at__isnull", False), _connector="OR"),
                    ),
                    models.Q(
                        ("due_at__isnull", True),
                        ("resend_requested_at__isnull", True),
                        models.Q(("state", "pending"), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="delivery_is_due_while_pending_or_asked_for_again",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("resumes_at__isnull", True), ("resend_requested_at__isnull", False), _connector="OR"
                ),
                name="delivery_resumes_after_a_resend",
            ),
        ),
        migrations.RunSQL(FREEZE, THAW),
    ]
