"""What a start refuses, because it would lose files later."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.core.checks import CheckMessage, Error

_OWN_HOSTS: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})


def files_are_where_every_host_finds_them(**_: object) -> list[CheckMessage]:
    """Refuse a disk of one host for the files of several: a database elsewhere is there to be shared."""
    host = str(settings.DATABASES["default"].get("HOST") or "")
    if settings.S3_BUCKET or settings.STATE_DIR_IS_SHARED or host in _OWN_HOSTS or host.startswith("/"):
        return []
    return [
        Error(
            f"The database is at {host}, but files would lie on this host's disk, where no other host finds them.",
            hint=(
                "Name a bucket (LANEHOUSE_S3_BUCKET). Where this is the only host, or its state directory lies on a"
                " disk that all share, say so: LANEHOUSE_STATE_DIR_IS_SHARED=yes."
            ),
            id="lanehouse.E001",
        )
    ]
