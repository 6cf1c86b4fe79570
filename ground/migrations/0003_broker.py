"""The broker on our own PostgreSQL: the pinned pgmq functions and the queues, made here and nowhere else.

They belong to the role ``lanehouse_broker`` where it exists (the address in ``CELERY_BROKER_URL`` uses it), so that a
consumer may switch notifications on; on a database of your own without that role they belong to the migrating role.
"""

from typing import ClassVar

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from pgmq.install import get_embedded_install_sql

BROKER = "lanehouse_broker"
QUEUES = ("engine", "deliveries")


def make_broker(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Apply pgmq's SQL as the broker's role, and make the queues."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(current_database()), EXISTS (SELECT FROM pg_roles WHERE rolname = %s)", [BROKER]
        )
        (database, has_role) = cursor.fetchone()
        if has_role:
            # pgmq's script begins with CREATE SCHEMA IF NOT EXISTS, which asks for this right even when it exists.
            cursor.execute(f"GRANT CREATE ON DATABASE {database} TO {BROKER}")
            cursor.execute(f"SET LOCAL ROLE {BROKER}")
        cursor.execute(get_embedded_install_sql())
        for queue in QUEUES:
            cursor.execute("SELECT pgmq.create(%s)", [queue])
            # Unthrottled: a throttle swallows the notification of a wake-up that follows another.
            cursor.execute("SELECT pgmq.enable_notify_insert(%s, 0)", [queue])
        if has_role:
            cursor.execute("RESET ROLE")
            cursor.execute(f"REVOKE CREATE ON DATABASE {database} FROM {BROKER}")


def drop_broker(_apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Drop the queues with the messages in them; nothing is lost but time."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA pgmq CASCADE")


class Migration(migrations.Migration):
    """The product works without it; only wake-ups need it."""

    dependencies: ClassVar = [("ground", "0002_month_partitions")]
    operations: ClassVar = [
        migrations.RunSQL("SET LOCAL lock_timeout = '5s'", migrations.RunSQL.noop),
        migrations.RunPython(make_broker, drop_broker),
    ]
