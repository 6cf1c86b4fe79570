"""Our roles and our database on a fresh server."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import sql

from config.postgres.secrets import BROKER, OWNER, ROLES

DATABASE: Final = "lanehouse"


def make_roles_and_database(superuser_dsn: str, passwords: dict[str, str]) -> None:
    """Make what is missing; running again changes nothing."""
    with psycopg.connect(superuser_dsn, autocommit=True, connect_timeout=10) as connection:
        found = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        for role in ROLES:
            if role not in found:
                statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
                connection.execute(statement.format(sql.Identifier(role), sql.Literal(passwords[role])))
        # The owner migrates, and makes the broker's objects in the broker's name.
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(BROKER), sql.Identifier(OWNER)))
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
            statement = sql.SQL("CREATE DATABASE {} OWNER {}")
            connection.execute(statement.format(sql.Identifier(DATABASE), sql.Identifier(OWNER)))
