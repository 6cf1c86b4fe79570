"""One row for each scheduled task: when it last ran, how long it took, and how it last failed."""

from typing import ClassVar

from django.db import migrations

CREATE = """
CREATE TABLE ground_task_run (
    name text PRIMARY KEY,
    ran_at timestamptz NOT NULL,
    took_ms bigint NOT NULL CHECK (took_ms >= 0),
    failed_at timestamptz,
    failure text NOT NULL,
    CONSTRAINT failure_has_its_time CHECK ((failed_at IS NULL) = (failure = ''))
) WITH (fillfactor = 50);
"""


class Migration(migrations.Migration):
    """Read by the page of the engine's jobs."""

    dependencies: ClassVar = [("ground", "0004_heartbeat")]
    operations: ClassVar = [migrations.RunSQL(CREATE, "DROP TABLE ground_task_run")]
