"""One row for each part of the running product: when it was last heard of."""

from typing import ClassVar

from django.db import migrations

CREATE = """
CREATE TABLE ground_heartbeat (
    part text PRIMARY KEY,
    heard_at timestamptz NOT NULL
);
"""


class Migration(migrations.Migration):
    """Read by /readyz."""

    dependencies: ClassVar = [("ground", "0003_broker")]
    operations: ClassVar = [migrations.RunSQL(CREATE, "DROP TABLE ground_heartbeat")]
