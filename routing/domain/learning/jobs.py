"""Which rows are one job: a keyed hash of the system text, the tools and the schema of the answer.

It is taken of what these texts say, not of how they are written, so the same template has the same key however it was
escaped. The texts themselves are kept nowhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from routing.domain.asks import decode_body

NO_JOB = 0
SYSTEM_ROLES = frozenset({"system", "developer"})
_KEY_BYTES = 8

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


def keys_of_system_texts(file: bytes, starts: Sequence[int], stops: Sequence[int], salt: bytes) -> list[int]:
    """Give the jobs of rows that have one system text and nothing else in common, by where it stands in the file.

    Looked up as it is written: a row costs a slice and a hash, and only a template's first spelling a decode.
    """
    keys = _SystemKeys(salt)
    return [keys[file[start:stop]] for start, stop in zip(starts, stops, strict=True)]


class _SystemKeys(dict[bytes, int]):
    """Keys by the inside of a JSON string literal, made when they are first asked for."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def __missing__(self, inside: bytes) -> int:
        key = self[inside] = job_key((b'"' + inside + b'"',), self._salt)
        return key


def opens_by_system_alone(roles: Sequence[str]) -> bool:
    """Say whether the first message is a system's, and no other one is."""
    return bool(roles) and roles[0] in SYSTEM_ROLES and SYSTEM_ROLES.isdisjoint(roles[1:])


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Remembers each template."""

    salt: bytes
    keys: dict[tuple[bytes, ...], int] = field(default_factory=dict)

    def key_of(self, line: bytes, roles: Collection[str] | None) -> int:
        if roles is not None and SYSTEM_ROLES.isdisjoint(roles):
            return NO_JOB
        parts = _parts(decode_body(line))
        key = self.keys.get(parts)
        if key is None:
            key = self.keys[parts] = job_key(parts, self.salt)
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
