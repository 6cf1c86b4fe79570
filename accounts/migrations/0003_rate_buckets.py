"""Three buckets for each organisation: calls, estimated input tokens, accepts."""

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

SQL = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
BACK = """
DROP FUNCTION accounts_take_tokens(bigint, bigint);
DROP FUNCTION accounts_take_call(bytea);
DROP FUNCTION accounts_span_of(bigint, bigint);
DROP TRIGGER organisation_has_its_buckets ON accounts_organisation;
DROP FUNCTION accounts_open_buckets();
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_kept_calls")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="RateBucket",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("requests", "requests"), ("tokens", "tokens"), ("accepts", "accepts")], max_length=10
                    ),
                ),
                ("full_at", models.DateTimeField()),
                (
                    "organisation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organisation", "kind"), name="bucket_is_one_per_organisation_and_kind"
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="organisation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("accepts_per_minute__gte", 1), ("calls_per_minute__gte", 1), ("input_tokens_per_minute__gte", 1)
                ),
                name="organisation_limits_allow_something",
            ),
        ),
        migrations.RunSQL(SQL, BACK),
    ]
