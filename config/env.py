"""Readers of the environment; an unusable value names its variable and stops the start."""

from __future__ import annotations

import os
from pathlib import Path


class EnvironmentInvalid(RuntimeError):
    """A variable of the environment has a value that cannot be used."""


def text(name: str, default: str = "") -> str:
    """Read a string."""
    return os.environ.get(name, default)


def integer(name: str, default: int) -> int:
    """Read an integer."""
    raw = os.environ.get(name, "")
    if not raw:
        return default
    try:
        return int(raw)
    except ValueError:
        raise EnvironmentInvalid(f"{name} must be an integer, not {raw!r}") from None


def flag(name: str, *, default: bool) -> bool:
    """Read a yes or no (``1``/``0``, ``true``/``false``, ``yes``/``no``)."""
    raw = os.environ.get(name, "").lower()
    if not raw:
        return default
    if raw in {"1", "true", "yes", "on"}:
        return True
    if raw in {"0", "false", "no", "off"}:
        return False
    raise EnvironmentInvalid(f"{name} must be yes or no, not {raw!r}")


def words(name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Read a list separated by commas."""
    raw = os.environ.get(name)
    if raw is None:
        return default
    return tuple(word.strip() for word in raw.split(",") if word.strip())


def path(name: str, default: Path) -> Path:
    """Read a path, made absolute."""
    raw = os.environ.get(name, "")
    return Path(raw).resolve() if raw else default
