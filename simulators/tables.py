"""SQLite tables whose columns are the fields of a record."""

from dataclasses import fields


def table_schema(name: str, record: type) -> str:
    """The statement that makes table `name` for `record` (with a field `id`), numbered in the order of inserts."""
    columns = ", ".join(each.name for each in fields(record) if each.name != "id")
    return f"CREATE TABLE IF NOT EXISTS {name} (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, {columns})"


def upsert_statement(name: str, record: type) -> str:
    """The statement that inserts or replaces a `record` in table `name`, its fields as arguments in their order."""
    names = [each.name for each in fields(record)]
    changes = ", ".join(f"{each} = excluded.{each}" for each in names if each != "id")
    places = ", ".join("?" for _ in names)
    return (
        f"INSERT INTO {name} ({', '.join(names)}) VALUES ({places}) "  # noqa: S608  # names are of our own records
        f"ON CONFLICT (id) DO UPDATE SET {changes}"
    )
