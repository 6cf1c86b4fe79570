"""The one error of the embedded server."""

from __future__ import annotations


class PostgresProblem(RuntimeError):  # noqa: N818 -- it is said to a person, who reads a sentence
    """The embedded PostgreSQL cannot run; the message is one sentence for the person at the terminal."""
