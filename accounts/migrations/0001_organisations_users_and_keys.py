import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [("ground", "0001_database_time_and_grants")]

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                ("email", models.EmailField(max_length=254, unique=True)),
                ("name", models.CharField(max_length=120)),
                (
                    "staff_role",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "None"),
                            ("operator", "Operator"),
                            ("finance", "Finance"),
                            ("support", "Support"),
                            ("superadmin", "Superadmin"),
                        ],
                        default="",
                        max_length=12,
                    ),
                ),
                ("is_active", models.BooleanField(default=True)),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Organisation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("slug", models.CharField(max_length=32)),
                ("name", models.CharField(max_length=120)),
                (
                    "kind",
                    models.CharField(
                        choices=[("customer", "Customer"), ("test", "Test")], default="customer", max_length=10
                    ),
                ),
                ("reporting_zone", models.CharField(default="UTC", max_length=64)),
                ("billing_blocked_at", models.DateTimeField(blank=True, null=True)),
                ("calls_per_minute", models.PositiveIntegerField(default=600)),
                ("input_tokens_per_minute", models.PositiveBigIntegerField(default=50000000)),
                ("accepts_per_minute", models.PositiveIntegerField(default=60)),
                ("created_at", models.DateTimeField()),
                (
                    "twin_of",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="test_twin",
                        to="accounts.organisation",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("admin", "Admin"),
                            ("developer", "Developer"),
                            ("billing", "Billing"),
                            ("viewer", "Viewer"),
                        ],
                        max_length=10,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="accounts.organisation",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("name", models.CharField(max_length=80)),
                ("key_hash", models.BinaryField(max_length=32, unique=True)),
                ("prefix", models.CharField(max_length=60)),
                ("last_four", models.CharField(max_length=4)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), blank=True, default=list, size=None
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="api_keys", to="accounts.organisation"
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="organisation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "customer")),
                fields=("slug",),
                name="organisation_slug_is_unique_among_customers",
            ),
        ),
        migrations.AddConstraint(
            model_name="organisation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "customer"), ("twin_of__isnull", True)),
                    models.Q(("kind", "test"), ("twin_of__isnull", False)),
                    _connector="OR",
                ),
                name="organisation_is_a_customer_or_a_twin",
            ),
        ),
        migrations.AddConstraint(
            model_name="organisation",
            constraint=models.CheckConstraint(
                condition=models.Q(("slug__regex", "^[a-z0-9]+$"), models.Q(("slug", "test"), _negated=True)),
                name="organisation_slug_is_a_key_namespace",
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(
                fields=("organisation", "user"), name="membership_is_one_per_user_and_organisation"
            ),
        ),
        migrations.AddConstraint(
            model_name="apikey",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expires_at__isnull", True), ("expires_at__gt", models.F("created_at")), _connector="OR"
                ),
                name="api_key_expires_after_it_was_made",
            ),
        ),
    ]
