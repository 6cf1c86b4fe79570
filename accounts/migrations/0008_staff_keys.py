"""Keys of our own people."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """One table."""

    dependencies = [
        ("accounts", "0007_people_may_switch_shortcuts_off"),
    ]

    operations = [
        migrations.CreateModel(
            name="StaffKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("name", models.CharField(max_length=80)),
                ("key_hash", models.BinaryField(max_length=32, unique=True)),
                ("prefix", models.CharField(max_length=60)),
                ("last_four", models.CharField(max_length=4)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None),
                ),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="staff_keys",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("scopes__contained_by", ["finance:read", "finance:write"]),
                            models.Q(("scopes", []), _negated=True),
                        ),
                        name="staff_key_scopes_are_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="staff_key_expires_after_it_was_made",
                    ),
                ],
            },
        ),
    ]
