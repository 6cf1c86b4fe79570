"""One row a kind and day: what the retention sweeps removed, and when they last ran."""

from typing import ClassVar

from django.db import migrations

CREATE = """
CREATE TABLE ground_retention_day (
    kind text NOT NULL,
    day date NOT NULL,
    removed_count bigint NOT NULL CHECK (removed_count >= 0),
    -- Null: nobody counts the bytes of this kind.
    removed_bytes bigint CHECK (removed_bytes >= 0),
    ran_at timestamptz NOT NULL,
    PRIMARY KEY (kind, day)
) WITH (fillfactor = 50);
"""


class Migration(migrations.Migration):
    """Read by the page of the retention clock."""

    dependencies: ClassVar = [("ground", "0005_task_runs")]
    operations: ClassVar = [migrations.RunSQL(CREATE, "DROP TABLE ground_retention_day")]
