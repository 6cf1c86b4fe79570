"""Quotes of uploaded files, priced in the background; and how long the bytes of a quote are kept."""

import django.db.models.deletion
from django.db import migrations, models

COLUMNS = """
ALTER TABLE routing_quote ADD COLUMN input_file_id varchar(40) NOT NULL DEFAULT '';
ALTER TABLE routing_quote ADD COLUMN payload_kept_until timestamptz;
CREATE INDEX quote_payload_ends ON routing_quote (payload_kept_until) WHERE payload_kept_until IS NOT NULL;
"""
DROP_COLUMNS = """
ALTER TABLE routing_quote DROP COLUMN payload_kept_until;
ALTER TABLE routing_quote DROP COLUMN input_file_id;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_organisations_users_and_keys"),
        ("routing", "0007_files_are_uploaded_and_deleted"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(COLUMNS, DROP_COLUMNS),
        # The table is not Django's to change: this is what its model knows of the columns above.
        migrations.AddField(
            model_name="quote", name="input_file_id", field=models.CharField(blank=True, default="", max_length=40)
        ),
        migrations.AddField(
            model_name="quote", name="payload_kept_until", field=models.DateTimeField(blank=True, null=True)
        ),
        migrations.CreateModel(
            name="FilePricing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("quote_id", models.CharField(max_length=40, unique=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("pending", "Pending"), ("ended", "Ended")], default="pending", max_length=10
                    ),
                ),
                ("endpoint", models.CharField(blank=True, default="", max_length=40)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("read_bytes", models.PositiveBigIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.organisation"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="file_pricing_due"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("read_bytes__lte", models.F("size_bytes"))),
                        name="file_pricing_reads_no_more_than_there_is",
                    )
                ],
            },
        ),
    ]
