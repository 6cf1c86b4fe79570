"""SLA samples, partitioned by month: Django's state on one side, the table it cannot describe on the other."""

import django.db.models.deletion
from django.db import migrations, models

CREATE = """
CREATE TABLE catalog_slasample (
    lane_id bigint NOT NULL REFERENCES catalog_lane (id),
    taken_at timestamptz NOT NULL,
    source varchar(8) NOT NULL,
    error_ppm integer NOT NULL CHECK (error_ppm >= 0),
    p95_dispatch_ms integer NOT NULL CHECK (p95_dispatch_ms >= 0),
    p50_completion_minutes integer NOT NULL CHECK (p50_completion_minutes >= 0),
    p95_completion_minutes integer NOT NULL,
    sample_count bigint NOT NULL CHECK (sample_count >= 0),
    enqueued_tokens bigint NOT NULL CHECK (enqueued_tokens >= 0),
    CONSTRAINT sla_sample_is_one_per_lane_and_instant PRIMARY KEY (lane_id, taken_at),
    CONSTRAINT sla_sample_source_is_known CHECK (source IN ('measured', 'seed')),
    CONSTRAINT sla_sample_error_rate_is_at_most_one CHECK (error_ppm <= 1000000),
    CONSTRAINT sla_sample_median_is_at_most_p95 CHECK (p50_completion_minutes <= p95_completion_minutes)
) PARTITION BY RANGE (taken_at);
SELECT lanehouse_ensure_month_partitions('catalog_slasample', lanehouse_now());
"""


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0001_models_lanes_and_rates"),
        ("ground", "0002_month_partitions"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(CREATE, "DROP TABLE catalog_slasample")],
            state_operations=[
                migrations.CreateModel(
                    name="SlaSample",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "lane_id", "taken_at", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("taken_at", models.DateTimeField()),
                        (
                            "source",
                            models.CharField(choices=[("measured", "Measured"), ("seed", "Seed")], max_length=8),
                        ),
                        ("error_ppm", models.PositiveIntegerField()),
                        ("p95_dispatch_ms", models.PositiveIntegerField()),
                        ("p50_completion_minutes", models.PositiveIntegerField()),
                        ("p95_completion_minutes", models.PositiveIntegerField()),
                        ("sample_count", models.PositiveBigIntegerField()),
                        ("enqueued_tokens", models.PositiveBigIntegerField()),
                        (
                            "lane",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.PROTECT,
                                related_name="sla_samples",
                                to="catalog.lane",
                            ),
                        ),
                    ],
                ),
                migrations.AddConstraint(
                    model_name="slasample",
                    constraint=models.CheckConstraint(
                        condition=models.Q(("error_ppm__lte", 1000000)), name="sla_sample_error_rate_is_at_most_one"
                    ),
                ),
                migrations.AddConstraint(
                    model_name="slasample",
                    constraint=models.CheckConstraint(
                        condition=models.Q(("p50_completion_minutes__lte", models.F("p95_completion_minutes"))),
                        name="sla_sample_median_is_at_most_p95",
                    ),
                ),
            ],
        ),
    ]
