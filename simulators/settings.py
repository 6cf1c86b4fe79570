"""Settings that can be turned while a simulator runs: what each may be, and the box that holds them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")
Check = Callable[[object], bool]


class SettingsBox(Generic[S]):
    """Holds the settings of the moment."""

    def __init__(self, settings: S) -> None:
        """Start with `settings`."""
        self.current = settings


def changed(settings: S, wanted: Mapping[str, object], checks: Mapping[str, Check]) -> S:
    """The settings with the fields of `wanted` changed.

    Raises:
        ValueError: a field is unknown or of the wrong type.
    """
    unknown = sorted(wanted.keys() - checks.keys())
    if unknown:
        message = f"unknown settings: {', '.join(unknown)}; known: {', '.join(checks)}"
        raise ValueError(message)
    for name, value in wanted.items():
        if not checks[name](value):
            message = f"{name} cannot be {value!r}"
            raise ValueError(message)
    fitting = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}
    return replace(settings, **fitting)


def is_number(value: object) -> bool:
    """A number that is not negative."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def is_speed(value: object) -> bool:
    """A speed; None is without limit."""
    return value is None or is_number(value)


def is_switch(value: object) -> bool:
    """Yes or no."""
    return isinstance(value, bool)


def is_count(value: object) -> bool:
    """A whole number above zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_names(value: object) -> bool:
    """A list of texts."""
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def is_counts(value: object) -> bool:
    """A whole number for each name."""
    return isinstance(value, dict) and all(isinstance(each, int) for each in value.values())


def is_renaming(value: object) -> bool:
    """A text for each name."""
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def is_text(value: object) -> bool:
    """A text."""
    return isinstance(value, str)
