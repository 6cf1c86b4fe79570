"""What may stand in a log line: no key, and of an address no more than 200 characters."""

from __future__ import annotations

import logging
import re
from typing import Final

from django.core.exceptions import PermissionDenied

_LONGEST_CHARACTERS: Final = 200
_KEY: Final = re.compile(r"sk-lh-[A-Za-z0-9-]*")


class Masks(logging.Filter):
    """Takes keys out of what a line is made of, and shortens its texts; a client chose every address and name."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record and let it pass; a page that refused somebody is no fault whose stack anybody needs."""
        if record.exc_info and isinstance(record.exc_info[1], PermissionDenied):
            record.exc_info = None
        if isinstance(record.msg, str):
            record.msg = _KEY.sub("[key]", record.msg)
        if isinstance(record.args, tuple):
            record.args = tuple(map(_masked, record.args))
        return True


def _masked(value: object) -> object:
    if not isinstance(value, str):
        return value
    # First the key: cut in two, it would no longer be known.
    text = _KEY.sub("[key]", value)
    return text if len(text) <= _LONGEST_CHARACTERS else f"{text[: _LONGEST_CHARACTERS - 1]}…"
