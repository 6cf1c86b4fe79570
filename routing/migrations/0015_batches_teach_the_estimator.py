"""What settled batches teach: lessons, states and their history, decisions, the accuracy of quotes, and versions."""

from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

SQL = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
BACK = Path(__file__).with_suffix(".reverse.sql").read_text(encoding="utf-8")


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_sign_in_buckets"),
        ("routing", "0014_files_of_a_batch_are_deleted"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="LearnedStateVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model_slug", models.CharField(max_length=120)),
                ("organisation_id", models.BigIntegerField(null=True)),
                ("scope", models.CharField(max_length=10)),
                ("name", models.CharField(max_length=80)),
                ("version", models.BigIntegerField()),
                ("learned_at", models.DateTimeField()),
                ("state", models.BinaryField()),
                ("house_ratio_ppm", models.IntegerField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["model_slug", "organisation_id", "scope", "name", "-version"], name="learned_history"
                    ),
                    models.Index(fields=["learned_at"], name="learned_history_by_age"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BatchLesson",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                (
                    "state",
                    models.CharField(
                        choices=[("pending", "Pending"), ("learned", "Learned"), ("skipped", "Skipped")],
                        default="pending",
                        max_length=10,
                    ),
                ),
                ("reason", models.CharField(blank=True, default="", max_length=200)),
                ("settled_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("version", models.BigIntegerField(blank=True, null=True)),
                (
                    "batch",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="lesson", to="routing.batch"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="batch_lesson_due"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at__isnull", True), ("state", "pending")),
                            models.Q(models.Q(("state", "pending"), _negated=True), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="batch_lesson_ends_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="GroupAccuracy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group_index", models.PositiveSmallIntegerField()),
                ("model_slug", models.CharField(max_length=120)),
                ("settled_at", models.DateTimeField()),
                ("row_count", models.PositiveIntegerField()),
                ("quoted_input_tokens", models.PositiveBigIntegerField()),
                ("settled_input_tokens", models.PositiveBigIntegerField()),
                ("quoted_output_tokens", models.PositiveBigIntegerField()),
                ("settled_output_tokens", models.PositiveBigIntegerField()),
                ("seen_row_count", models.PositiveIntegerField()),
                ("set_aside_row_count", models.PositiveIntegerField()),
                ("input_absolute_error_ppm_sum", models.PositiveBigIntegerField()),
                ("output_absolute_error_ppm_sum", models.PositiveBigIntegerField()),
                (
                    "input_error_counts",
                    django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), size=None),
                ),
                (
                    "output_error_counts",
                    django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), size=None),
                ),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="accuracies", to="routing.batch"
                    ),
                ),
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
            options={
                "indexes": [
                    models.Index(fields=["settled_at"], name="accuracy_by_time"),
                    models.Index(fields=["organisation", "settled_at"], name="accuracy_of_organisation"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("batch", "group_index"), name="accuracy_is_one_per_batch_and_group")
                ],
            },
        ),
        migrations.CreateModel(
            name="LearnedState",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model_slug", models.CharField(max_length=120)),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("house", "House"),
                            ("customer", "Customer"),
                            ("workflow", "Workflow"),
                            ("job", "Job"),
                        ],
                        max_length=10,
                    ),
                ),
                ("name", models.CharField(blank=True, default="", max_length=80)),
                ("version", models.BigIntegerField()),
                ("learned_at", models.DateTimeField()),
                ("state", models.BinaryField()),
                ("is_on", models.BooleanField(default=True)),
                ("house_ratio_ppm", models.IntegerField(default=1000000)),
                (
                    "organisation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["organisation", "-version"], name="learned_newest"),
                    models.Index(fields=["model_slug", "scope"], name="learned_of_model"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("model_slug", "organisation", "scope", "name"),
                        name="learned_state_is_one_per_key",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scope__in", ["house", "customer", "workflow", "job"])),
                        name="learned_scope_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("organisation__isnull", True), ("scope", "house")),
                            models.Q(models.Q(("scope", "house"), _negated=True), ("organisation__isnull", False)),
                            _connector="OR",
                        ),
                        name="learned_state_has_a_customer_or_is_the_houses",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("house_ratio_ppm__gte", 800000), ("house_ratio_ppm__lte", 1250000)),
                        name="learned_house_ratio_stays_in_its_bounds",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LearningDecision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model_slug", models.CharField(max_length=120)),
                (
                    "choice",
                    models.CharField(
                        choices=[
                            ("off", "Stop learning, quote by the formula"),
                            ("on", "Learn and use what was learned"),
                            ("back", "Go back to an earlier version"),
                        ],
                        max_length=5,
                    ),
                ),
                ("to_version", models.BigIntegerField(blank=True, null=True)),
                ("version", models.BigIntegerField()),
                ("reason", models.CharField(max_length=200)),
                ("decided_at", models.DateTimeField()),
                (
                    "decided_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["model_slug", "-decided_at"], name="learning_decision_of_model")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("choice__in", ["off", "on", "back"])), name="learning_choice_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("choice", "back"), ("to_version__isnull", True), _connector="XOR"),
                        name="learning_goes_back_to_a_version",
                    ),
                ],
            },
        ),
        migrations.RunSQL(SQL, BACK),
    ]
