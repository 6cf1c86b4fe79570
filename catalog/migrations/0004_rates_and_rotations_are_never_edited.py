"""Guards: rate versions and the rotation log take no change, and what a receipt names keeps its meaning."""

from django.db import migrations

APPEND_ONLY = ("rateversion", "rateline", "lanerotation")

CREATE = """
CREATE FUNCTION catalog_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% takes no %: make a new version instead', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;

-- The top-level transaction: a savepoint inside it is still the same hand at work.
CREATE FUNCTION catalog_stamp_rate_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.made_in_transaction := pg_current_xact_id()::text::bigint;
    RETURN NEW;
END $$;

CREATE FUNCTION catalog_refuse_late_rate_line() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM catalog_rateversion
        WHERE id = NEW.version_id AND made_in_transaction = pg_current_xact_id()::text::bigint
    ) THEN
        RAISE EXCEPTION 'rate version % is made: it takes no further line', NEW.version_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION catalog_refuse_new_identity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% % keeps what it stands for: add another and retire this one', TG_TABLE_NAME, OLD.id
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER rate_version_is_stamped BEFORE INSERT ON catalog_rateversion
    FOR EACH ROW EXECUTE FUNCTION catalog_stamp_rate_version();
CREATE TRIGGER rate_line_comes_with_its_version BEFORE INSERT ON catalog_rateline
    FOR EACH ROW EXECUTE FUNCTION catalog_refuse_late_rate_line();
CREATE TRIGGER model_keeps_its_snapshot BEFORE UPDATE ON catalog_model FOR EACH ROW
    WHEN ((OLD.slug, OLD.model_snapshot) IS DISTINCT FROM (NEW.slug, NEW.model_snapshot))
    EXECUTE FUNCTION catalog_refuse_new_identity();
CREATE TRIGGER lane_keeps_its_route BEFORE UPDATE ON catalog_lane FOR EACH ROW
    WHEN ((OLD.model_id, OLD.lane_id, OLD.provider_id, OLD.region, OLD.provider_model_id)
          IS DISTINCT FROM (NEW.model_id, NEW.lane_id, NEW.provider_id, NEW.region, NEW.provider_model_id))
    EXECUTE FUNCTION catalog_refuse_new_identity();
"""

DROP = """
DROP TRIGGER lane_keeps_its_route ON catalog_lane;
DROP TRIGGER model_keeps_its_snapshot ON catalog_model;
DROP TRIGGER rate_line_comes_with_its_version ON catalog_rateline;
DROP TRIGGER rate_version_is_stamped ON catalog_rateversion;
DROP FUNCTION catalog_refuse_new_identity();
DROP FUNCTION catalog_refuse_late_rate_line();
DROP FUNCTION catalog_stamp_rate_version();
DROP FUNCTION catalog_refuse_change();
"""

CREATE_GUARDS = "".join(
    f"CREATE TRIGGER {table}_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON catalog_{table} "
    "FOR EACH STATEMENT EXECUTE FUNCTION catalog_refuse_change();\n"
    for table in APPEND_ONLY
)
DROP_GUARDS = "".join(f"DROP TRIGGER {table}_is_append_only ON catalog_{table};\n" for table in APPEND_ONLY)


def _on_app_role(statement: str) -> str:
    return f"""
    DO $$
    BEGIN
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
            {statement};
        END IF;
    END $$;
    """


TABLE_LIST = ", ".join(f"catalog_{table}" for table in (*APPEND_ONLY, "slasample"))


class Migration(migrations.Migration):
    dependencies = [("catalog", "0003_version_moves_with_every_change")]

    operations = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(CREATE, DROP),
        migrations.RunSQL(CREATE_GUARDS, DROP_GUARDS),
        migrations.RunSQL(
            _on_app_role(f"REVOKE UPDATE, DELETE ON {TABLE_LIST} FROM lanehouse_app"),
            _on_app_role(f"GRANT UPDATE, DELETE ON {TABLE_LIST} TO lanehouse_app"),
        ),
    ]
