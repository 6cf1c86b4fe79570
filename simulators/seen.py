"""Which row contents an account has sent before."""

from simulators.database import Database

_SCHEMA = "CREATE TABLE IF NOT EXISTS seen_rows (account TEXT, digest BLOB, PRIMARY KEY (account, digest))"


class SeenRows:
    """Digests by account, kept in the database."""

    def __init__(self, database: Database) -> None:
        """Take up what is stored in `database`."""
        self._database = database
        with database.transaction() as connection:
            connection.execute(_SCHEMA)

    def saw(self, account: str, digest: bytes) -> bool:
        """Whether `account` has sent a row with this content before."""
        rows = self._database.rows("SELECT 1 FROM seen_rows WHERE account = ? AND digest = ?", (account, digest))
        return bool(rows)

    def remember(self, account: str, digests: set[bytes]) -> None:
        """Remember row contents of `account`."""
        with self._database.transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO seen_rows (account, digest) VALUES (?, ?)",
                [(account, digest) for digest in digests],
            )
