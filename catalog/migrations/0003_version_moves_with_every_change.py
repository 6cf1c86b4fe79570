"""The catalog's version row, and the triggers that move it whoever changes the catalog."""

from django.db import migrations, models

TABLES = ("provider", "model", "modelname", "lane", "rateversion", "rateline")

CREATE = """
CREATE SEQUENCE catalog_version_numbers;
INSERT INTO catalog_catalogversion (id, catalog_version, sla_version)
    VALUES (1, nextval('catalog_version_numbers'), nextval('catalog_version_numbers'));

-- With its owner's rights: the application role reads the versions and moves them only by changing something.
CREATE FUNCTION catalog_move_version() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE catalog_catalogversion SET catalog_version = nextval('catalog_version_numbers') WHERE id = 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the row of catalog_catalogversion is missing';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION catalog_move_sla_version() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE catalog_catalogversion SET sla_version = nextval('catalog_version_numbers') WHERE id = 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the row of catalog_catalogversion is missing';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER sla_version_moves AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON catalog_slasample
    FOR EACH STATEMENT EXECUTE FUNCTION catalog_move_sla_version();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        REVOKE INSERT, UPDATE, DELETE ON catalog_catalogversion FROM lanehouse_app;
    END IF;
END $$;
"""

DROP = """
DROP TRIGGER sla_version_moves ON catalog_slasample;
DROP FUNCTION catalog_move_sla_version();
DROP FUNCTION catalog_move_version();
DROP SEQUENCE catalog_version_numbers;
"""

CREATE_TRIGGERS = "".join(
    f"CREATE TRIGGER catalog_version_moves AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON catalog_{table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION catalog_move_version();\n"
    for table in TABLES
)
DROP_TRIGGERS = "".join(f"DROP TRIGGER catalog_version_moves ON catalog_{table};\n" for table in TABLES)


class Migration(migrations.Migration):
    dependencies = [("catalog", "0002_sla_samples_by_month")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="CatalogVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("catalog_version", models.BigIntegerField()),
                ("sla_version", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="catalog_version_is_one_row")
                ],
            },
        ),
        migrations.RunSQL(CREATE, DROP),
        migrations.RunSQL(CREATE_TRIGGERS, DROP_TRIGGERS),
    ]
