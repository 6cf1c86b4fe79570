"""What a key may do: a small closed set."""

from __future__ import annotations

import enum
from collections.abc import Collection


class Scope(enum.StrEnum):
    """A part of the API. Each lets a key act on its part and read it; ``read`` reads everything and acts on nothing."""

    QUOTES = "quotes"
    BATCHES = "batches"
    FILES = "files"
    WEBHOOKS = "webhooks"
    READ = "read"


SAID = {
    Scope.QUOTES: "Price files, keep workflows",
    Scope.BATCHES: "Accept quotes, cancel batches",
    Scope.FILES: "Upload and delete files",
    Scope.WEBHOOKS: "Keep webhook endpoints, resend deliveries",
    Scope.READ: "Read everything, money too",
}


def allows(granted: Collection[str], needed: Collection[Scope]) -> bool:
    """Say whether a key that was granted these scopes may make a call that needs one of ``needed``.

    A key without any was made before there were scopes and has them all; a call that needs none is for every key.
    """
    return not granted or not needed or any(scope.value in granted for scope in needed)
