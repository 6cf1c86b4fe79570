"""The log of attempts, partitioned by month: Django's state on one side, the table it cannot describe on the other."""

import django.db.models.deletion
from django.db import migrations, models

CREATE = """
CREATE TABLE webhooks_deliveryattempt (
    delivery_id bigint NOT NULL REFERENCES webhooks_delivery (id),
    number integer NOT NULL,
    started_at timestamptz NOT NULL,
    trigger varchar(6) NOT NULL,
    requested_by varchar(120) NOT NULL,
    outcome varchar(12) NOT NULL,
    detail varchar(200) NOT NULL,
    duration_ms integer NOT NULL CHECK (duration_ms >= 0),
    status_code integer,
    response_headers text NOT NULL,
    response_body text NOT NULL,
    address varchar(64) NOT NULL,
    secret_generation integer NOT NULL CHECK (secret_generation >= 0),
    CONSTRAINT delivery_attempt_is_one_per_number_and_start PRIMARY KEY (delivery_id, number, started_at),
    CONSTRAINT delivery_attempt_outcome_is_known CHECK (outcome IN (
        'delivered', 'http_3xx', 'http_4xx', 'http_429', 'http_5xx', 'timeout', 'dns', 'connect', 'tls', 'protocol',
        'blocked', 'unknown')),
    CONSTRAINT delivery_attempt_trigger_is_known CHECK (trigger IN ('auto', 'manual', 'test')),
    CONSTRAINT delivery_attempt_is_numbered_from_one CHECK (number >= 1)
) PARTITION BY RANGE (started_at);

-- For each row, because PostgreSQL carries row triggers, not statement triggers, over to partitions named directly.
CREATE TRIGGER delivery_attempt_is_append_only BEFORE UPDATE OR DELETE ON webhooks_deliveryattempt
    FOR EACH ROW EXECUTE FUNCTION webhooks_refuse_change();
SELECT lanehouse_ensure_month_partitions('webhooks_deliveryattempt', lanehouse_now());
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE UPDATE, DELETE, TRUNCATE ON webhooks_deliveryattempt FROM lanehouse_app;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("webhooks", "0001_endpoints_events_and_deliveries")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(CREATE, "DROP TABLE webhooks_deliveryattempt")],
            state_operations=[
                migrations.CreateModel(
                    name="DeliveryAttempt",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "delivery_id",
                                "number",
                                "started_at",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("number", models.PositiveIntegerField()),
                        ("started_at", models.DateTimeField()),
                        (
                            "trigger",
                            models.CharField(
                                choices=[("auto", "AUTO"), ("manual", "MANUAL"), ("test", "TEST")], max_length=6
                            ),
                        ),
                        ("requested_by", models.CharField(blank=True, max_length=120)),
                        (
                            "outcome",
                            models.CharField(
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
                        ("detail", models.CharField(blank=True, max_length=200)),
                        ("duration_ms", models.PositiveIntegerField()),
                        ("status_code", models.PositiveIntegerField(blank=True, null=True)),
                        ("response_headers", models.TextField(blank=True)),
                        ("response_body", models.TextField(blank=True)),
                        ("address", models.CharField(blank=True, max_length=64)),
                        ("secret_generation", models.PositiveIntegerField()),
                        (
                            "delivery",
                            models.ForeignKey(
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="attempts",
                                to="webhooks.delivery",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.CheckConstraint(
                                condition=models.Q(
                                    (
                                        "outcome__in",
                                        [
                                            "delivered",
                                            "http_3xx",
                                            "http_4xx",
                                            "http_429",
                                            "http_5xx",
                                            "timeout",
                                            "dns",
                                            "connect",
                                            "tls",
                                            "protocol",
                                            "blocked",
                                            "unknown",
                                        ],
                                    )
                                ),
                                name="delivery_attempt_outcome_is_known",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("trigger__in", ["auto", "manual", "test"])),
                                name="delivery_attempt_trigger_is_known",
                            ),
                            models.CheckConstraint(
                                condition=models.Q(("number__gte", 1)), name="delivery_attempt_is_numbered_from_one"
                            ),
                        ],
                    },
                ),
            ],
        ),
    ]
