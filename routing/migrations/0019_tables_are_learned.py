"""Tables that settled rows taught, and those in the making."""

from django.db import migrations, models

GUARD = """
CREATE TRIGGER learned_table_is_never_changed BEFORE UPDATE OR DELETE ON routing_learnedtable
    FOR EACH ROW EXECUTE FUNCTION routing_refuse_learned_change();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("routing", "0018_turns_between_organisations"),
    ]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="TableInTheMaking",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model_slug", models.CharField(max_length=120, unique=True)),
                ("row_count", models.PositiveIntegerField()),
                ("state", models.BinaryField()),
                ("learned_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="LearnedTable",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model_slug", models.CharField(max_length=120)),
                ("version", models.BigIntegerField()),
                ("row_count", models.PositiveIntegerField()),
                ("used_error_ppm", models.PositiveBigIntegerField()),
                ("own_error_ppm", models.PositiveBigIntegerField()),
                ("fit", models.BinaryField()),
                ("made_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("model_slug", "version"), name="learned_table_is_one_per_version")
                ],
            },
        ),
        migrations.RunSQL(GUARD, "DROP TRIGGER learned_table_is_never_changed ON routing_learnedtable"),
    ]
