"""Which rows are one job: a keyed hash of the system text, the tools and the schema of the answer.

It is taken of what these texts say, not of how they are written, so the same template has the same key however it was
escaped. The texts themselves are kept nowhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from routing.domain.asks import decode_body

NO_JOB = 0
SYSTEM_ROLES = frozenset({"system", "developer"})
_KEY_BYTES = 8
_MESSAGES = b'"messages"'

RowLine = tuple[bytes, Collection[str] | None]
"""A row's line, and who speaks in it where it is known to hold messages of text and nothing else."""


def job_keys_of(rows: Iterable[RowLine], salt: bytes) -> list[int]:
    """Give the job of each of some rows, as a signed 64-bit number; 0 where a row has nothing in common with others."""
    reader = _Reader(salt=salt)
    return [reader.key_of(line, roles) for line, roles in rows]


def job_key(parts: tuple[bytes, ...], salt: bytes) -> int:
    """Give the key of a job's texts, each the JSON it was."""
    if not parts:
        return NO_JOB
    said = orjson.dumps([orjson.loads(part) for part in parts], option=orjson.OPT_SORT_KEYS)
    key = hashlib.blake2b(said, digest_size=_KEY_BYTES, key=salt[:64]).digest()
    return int.from_bytes(key, "little", signed=True) or 1


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Remembers each template, and the bytes by which the last line opened: rows of one job mostly open alike."""

    salt: bytes
    keys: dict[tuple[bytes, ...], int] = field(default_factory=dict)
    opening: bytes = b""
    opening_key: int = NO_JOB

    def key_of(self, line: bytes, roles: Collection[str] | None) -> int:
        if roles is not None and SYSTEM_ROLES.isdisjoint(roles):
            return NO_JOB
        opens_alone = roles is not None and sum(role in SYSTEM_ROLES for role in roles) == 1
        start = line.find(_MESSAGES) if opens_alone else -1
        if self.opening and start >= 0 and line.startswith(self.opening, start):
            return self.opening_key
        parts = _parts(decode_body(line))
        key = self.keys.get(parts)
        if key is None:
            key = self.keys[parts] = job_key(parts, self.salt)
        if start >= 0 and (place := line.find(parts[0], start)) >= 0:
            # Nothing else of a row of texts takes part, so what opens like this is of this job.
            self.opening, self.opening_key = line[start : place + len(parts[0])], key
        return key


def _parts(body: Mapping[str, Any]) -> tuple[bytes, ...]:
    texts: list[bytes] = [bytes(body["instructions"])] if _is_given(body, "instructions") else []
    turns = orjson.loads(bytes(body.get("messages") or body["input"]))
    if isinstance(turns, list) and turns and isinstance(turns[0], dict):
        texts.extend(orjson.dumps(turn.get("content")) for turn in turns if turn.get("role") in SYSTEM_ROLES)
    texts.extend(
        bytes(body[name]) for name in ("tools", "functions", "response_format", "text") if _is_given(body, name)
    )
    return tuple(texts)


def _is_given(body: Mapping[str, Any], name: str) -> bool:
    return name in body and bytes(body[name]) != b"null"
