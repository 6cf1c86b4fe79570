"""Billing's own errors; what the public sees of them is in ``ground.errors``."""

from __future__ import annotations

from ground.errors import InvalidRequest


class PostingConflict(InvalidRequest):
    """The business key was used before with another body; nothing was written."""

    code = "idempotency_conflict"
