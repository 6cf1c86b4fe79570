"""Database time, and what the application role may do by default.

The ``owner`` role runs migrations; ``lanehouse_app`` runs the product. Later migrations take rights away from it where
a table is append-only. On a database without that role (an address of your own) the grants are left out.
"""

from typing import ClassVar

from django.db import migrations

NOW = """
CREATE FUNCTION lanehouse_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT statement_timestamp() $$;
"""

GRANTS = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        GRANT USAGE ON SCHEMA public TO lanehouse_app;
        ALTER DEFAULT PRIVILEGES IN SCHEMA public
            GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO lanehouse_app;
        ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO lanehouse_app;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO lanehouse_app;
        GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO lanehouse_app;
    END IF;
END $$;
"""

REVOKES = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'lanehouse_app') THEN
        ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM lanehouse_app;
        ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON SEQUENCES FROM lanehouse_app;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    """First of all: every other app's first migration depends on this one."""

    initial = True
    dependencies: ClassVar = []
    operations: ClassVar = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunSQL(GRANTS, REVOKES),
        migrations.RunSQL(NOW, "DROP FUNCTION lanehouse_now()"),
    ]
