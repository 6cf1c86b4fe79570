"""What is wrong with one row, raised where it is found."""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

Json: TypeAlias = Any
"""A decoded JSON value of any type."""

SHOWN_NAME_CHARACTERS = 40


class RowFault(Exception):
    """One fault of one row: stable code, a message without content, and the field at fault."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class DuplicateNames(dict[str, Any]):
    """A decoded object in which a name stood twice; ``first_duplicate`` is one of those names."""

    first_duplicate: str


def fail(code: str, message: str, param: str | None = None) -> NoReturn:
    """Raise a fault."""
    raise RowFault(code, message, param)


def duplicate_name(found: DuplicateNames, param: str | None) -> NoReturn:
    """Raise ``duplicate_key`` for an object with a name that stands twice; the name itself is the customer's text."""
    known = (
        found.first_duplicate
        if found.first_duplicate.isidentifier() and len(found.first_duplicate) <= SHOWN_NAME_CHARACTERS
        else None
    )
    where = param or "the row"
    named = f"the name {known} twice" if known else "a name twice"
    fail("duplicate_key", f"{where} holds {named}; which one counts would be a guess.", param)


def require_type(value: Json, kind: type, param: str, wanted: str) -> None:
    """Raise ``invalid_type`` unless the value is of the kind; true and false are not numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        fail("invalid_type", f"{param} must be {wanted}.", param)
