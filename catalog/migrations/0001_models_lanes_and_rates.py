"""Providers, models and their names, lanes and their rotations, rate versions and their lines."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.lookups
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("ground", "0001_database_time_and_grants"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="Provider",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.CharField(max_length=32, unique=True)),
                ("name", models.CharField(max_length=80)),
                ("has_adapter", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="Model",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.CharField(max_length=120, unique=True)),
                ("maker", models.CharField(max_length=40)),
                ("model_snapshot", models.CharField(max_length=120)),
                (
                    "endpoints",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None),
                ),
                ("vocabulary", models.CharField(max_length=32)),
                ("vocabulary_is_public", models.BooleanField()),
                ("max_input_tokens", models.PositiveIntegerField()),
                ("max_output_tokens", models.PositiveIntegerField()),
                ("retires_at", models.DateTimeField(blank=True, null=True)),
                ("added_at", models.DateTimeField()),
                (
                    "successor",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="catalog.model",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ModelName",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=160)),
                (
                    "kind",
                    models.CharField(choices=[("slug", "Slug"), ("alias", "Alias"), ("dated", "Dated")], max_length=5),
                ),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="names", to="catalog.model"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Lane",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("lane_id", models.CharField(max_length=80)),
                ("region", models.CharField(max_length=32)),
                ("provider_model_id", models.CharField(max_length=160)),
                (
                    "rotation",
                    models.CharField(choices=[("in", "IN"), ("drain", "DRAIN"), ("out", "OUT")], max_length=5),
                ),
                ("rotation_reason", models.CharField(blank=True, max_length=200)),
                ("rotation_changed_at", models.DateTimeField()),
                ("retires_at", models.DateTimeField(blank=True, null=True)),
                ("enqueued_tokens_limit", models.PositiveBigIntegerField()),
                ("minimum_rows", models.PositiveIntegerField(default=1)),
                ("maximum_rows_per_job", models.PositiveIntegerField()),
                ("maximum_bytes_per_job", models.PositiveBigIntegerField()),
                (
                    "rotation_changed_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="lanes", to="catalog.model"
                    ),
                ),
                (
                    "provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="lanes", to="catalog.provider"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RateVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "card",
                    models.CharField(
                        choices=[("sell", "Sell"), ("provider_batch", "Provider Batch"), ("list", "List")],
                        max_length=14,
                    ),
                ),
                (
                    "origin",
                    models.CharField(choices=[("document", "Document"), ("operator", "Operator")], max_length=8),
                ),
                ("valid_from", models.DateTimeField()),
                ("made_at", models.DateTimeField()),
                ("made_in_transaction", models.BigIntegerField(default=0, editable=False)),
                (
                    "lane",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="rate_versions", to="catalog.lane"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RateLine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("input", "INPUT"),
                            ("cached_input", "CACHED_INPUT"),
                            ("cache_write_5m", "CACHE_WRITE_5M"),
                            ("cache_write_1h", "CACHE_WRITE_1H"),
                            ("output", "OUTPUT"),
                        ],
                        max_length=14,
                    ),
                ),
                ("context_from_tokens", models.PositiveIntegerField(default=0)),
                ("published_rate_micro_usd_per_mtok", models.PositiveBigIntegerField()),
                ("discount_basis_points", models.PositiveIntegerField(default=0)),
                ("rate_micro_usd_per_mtok", models.PositiveBigIntegerField()),
                ("is_derived", models.BooleanField(default=False)),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="lines", to="catalog.rateversion"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LaneRotation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "from_rotation",
                    models.CharField(choices=[("in", "IN"), ("drain", "DRAIN"), ("out", "OUT")], max_length=5),
                ),
                (
                    "to_rotation",
                    models.CharField(choices=[("in", "IN"), ("drain", "DRAIN"), ("out", "OUT")], max_length=5),
                ),
                ("reason", models.CharField(max_length=200)),
                ("changed_at", models.DateTimeField()),
                (
                    "changed_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "lane",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="rotations", to="catalog.lane"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["lane", "-changed_at"], name="lane_rotation_by_lane")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("from_rotation", models.F("to_rotation")), _negated=True),
                        name="lane_rotation_changes_something",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("reason", ""), _negated=True), name="lane_rotation_has_a_reason"
                    ),
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="model",
            constraint=models.UniqueConstraint(fields=("model_snapshot",), name="model_is_one_per_snapshot"),
        ),
        migrations.AddConstraint(
            model_name="model",
            constraint=models.CheckConstraint(
                condition=models.Q(("successor", models.F("id")), _negated=True), name="model_does_not_succeed_itself"
            ),
        ),
        migrations.AddConstraint(
            model_name="modelname",
            constraint=models.UniqueConstraint(fields=("name",), name="model_name_means_one_model"),
        ),
        migrations.AddConstraint(
            model_name="modelname",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "slug")), fields=("model",), name="model_has_one_slug_among_its_names"
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.UniqueConstraint(fields=("model", "lane_id"), name="lane_id_is_unique_within_its_model"),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.UniqueConstraint(
                fields=("provider", "region", "provider_model_id"), name="lane_is_one_per_provider_region_and_model_id"
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.CheckConstraint(
                condition=models.Q(("rotation__in", ["in", "drain", "out"])), name="lane_rotation_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("rotation", "in"), models.Q(("rotation_reason", ""), _negated=True), _connector="OR"
                ),
                name="lane_out_of_rotation_has_a_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="lane",
            constraint=models.CheckConstraint(
                condition=models.Q(("minimum_rows__gte", 1), ("minimum_rows__lte", models.F("maximum_rows_per_job"))),
                name="lane_takes_at_least_its_minimum_rows",
            ),
        ),
        migrations.AddConstraint(
            model_name="rateversion",
            constraint=models.UniqueConstraint(
                fields=("lane", "card", "valid_from"), name="rate_version_is_one_per_start"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateversion",
            constraint=models.CheckConstraint(
                condition=models.Q(("card__in", ["sell", "provider_batch", "list"])), name="rate_version_card_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateversion",
            constraint=models.CheckConstraint(
                condition=models.Q(("valid_from__gte", models.F("made_at"))), name="rate_version_is_not_backdated"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.UniqueConstraint(
                fields=("version", "kind", "context_from_tokens"), name="rate_line_is_one_per_kind_and_tier"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind__in", ["input", "cached_input", "cache_write_5m", "cache_write_1h", "output"])
                ),
                name="rate_line_kind_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.CheckConstraint(
                condition=models.Q(("discount_basis_points__lte", 10000)), name="rate_line_discount_is_at_most_all"
            ),
        ),
        migrations.AddConstraint(
            model_name="rateline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    django.db.models.lookups.GreaterThanOrEqual(
                        django.db.models.expressions.CombinedExpression(
                            models.F("rate_micro_usd_per_mtok"), "*", models.Value(10000)
                        ),
                        django.db.models.expressions.CombinedExpression(
                            django.db.models.expressions.CombinedExpression(
                                models.F("published_rate_micro_usd_per_mtok"),
                                "*",
                                django.db.models.expressions.CombinedExpression(
                                    models.Value(10000), "-", models.F("discount_basis_points")
                                ),
                            ),
                            "-",
                            models.Value(5000),
                        ),
                    ),
                    django.db.models.lookups.LessThanOrEqual(
                        django.db.models.expressions.CombinedExpression(
                            models.F("rate_micro_usd_per_mtok"), "*", models.Value(10000)
                        ),
                        django.db.models.expressions.CombinedExpression(
                            django.db.models.expressions.CombinedExpression(
                                models.F("published_rate_micro_usd_per_mtok"),
                                "*",
                                django.db.models.expressions.CombinedExpression(
                                    models.Value(10000), "-", models.F("discount_basis_points")
                                ),
                            ),
                            "+",
                            models.Value(5000),
                        ),
                    ),
                ),
                name="rate_line_is_published_less_its_discount",
            ),
        ),
    ]
