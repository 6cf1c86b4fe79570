"""The one error of the embedded server."""

from __future__ import annotations


class PostgresProblem(RuntimeError):
    """The embedded PostgreSQL cannot run; the message is one sentence for the person at the terminal."""
