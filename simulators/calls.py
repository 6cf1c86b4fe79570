"""Counters of calls by account, operation and status."""

import hashlib

from simulators.database import Database

_SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    account TEXT NOT NULL, operation TEXT NOT NULL, status TEXT NOT NULL, call_count INTEGER NOT NULL,
    PRIMARY KEY (account, operation, status)
)
"""
_COUNT = """
INSERT INTO calls (account, operation, status, call_count) VALUES (?, ?, ?, 1)
ON CONFLICT (account, operation, status) DO UPDATE SET call_count = call_count + 1
"""


def account_of_key(key: str) -> str:
    """The account that a bearer key stands for; the key itself is never stored."""
    return "acct-" + hashlib.sha256(key.encode()).hexdigest()[:16]


class CallCounters:
    """How often each operation was called, by whom, and how it ended."""

    def __init__(self, database: Database) -> None:
        """Take up the counters stored in `database`."""
        self._database = database
        with database.transaction() as connection:
            connection.execute(_SCHEMA)

    def count(self, account: str, operation: str, status: str) -> None:
        """Count one call; `status` is the HTTP status or how the connection was cut."""
        with self._database.transaction() as connection:
            connection.execute(_COUNT, (account, operation, status))

    def describe(self) -> dict[str, object]:
        """The counters as JSON: totals by operation, by account, and by status."""
        totals: dict[str, int] = {}
        by_account: dict[str, dict[str, int]] = {}
        by_status: dict[str, dict[str, int]] = {}
        for row in self._database.rows("SELECT account, operation, status, call_count FROM calls"):
            account, operation, status, call_count = row
            totals[operation] = totals.get(operation, 0) + call_count
            of_account = by_account.setdefault(account, {})
            of_account[operation] = of_account.get(operation, 0) + call_count
            of_status = by_status.setdefault(operation, {})
            of_status[status] = of_status.get(status, 0) + call_count
        return {"total": totals, "by_account": by_account, "by_status": by_status}
