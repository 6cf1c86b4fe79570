"""What of a prompt is read from the prompt cache, and what is written to it."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from simulators.claude.tokens import Segment, segments

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """Tokens read from and written to the cache; `digests` are the prefixes that are in it from now on."""

    read_tokens: int = 0
    written_5m_tokens: int = 0
    written_1h_tokens: int = 0
    digests: frozenset[bytes] = frozenset()


def cache_use(params: Json, min_tokens: int, is_cached: Callable[[bytes], bool]) -> CacheUse:
    """How a request uses the cache: the longest cached prefix is read, the rest up to the last breakpoint is written.

    `is_cached` tells whether a prefix (by its digest) is in the cache. Prefixes under `min_tokens` are not cached.
    """
    pieces = list(segments(params))
    breakpoints = _breakpoints(params, pieces)
    digest = hashlib.sha256()
    prefix_tokens = read_tokens = 0
    written_tokens = {"5m": 0, "1h": 0}
    digests: set[bytes] = set()
    for number, piece in enumerate(pieces):
        digest.update(orjson.dumps(piece.content) + b"\n")
        prefix_tokens += piece.token_count
        if number not in breakpoints or prefix_tokens < min_tokens:
            continue
        name = digest.digest()
        if is_cached(name):
            read_tokens, written_tokens = prefix_tokens, {"5m": 0, "1h": 0}
        else:
            written_tokens[breakpoints[number]] += prefix_tokens - read_tokens - sum(written_tokens.values())
            digests.add(name)
    return CacheUse(
        read_tokens=read_tokens,
        written_5m_tokens=written_tokens["5m"],
        written_1h_tokens=written_tokens["1h"],
        digests=frozenset(digests),
    )


def _breakpoints(params: Json, pieces: list[Segment]) -> dict[int, str]:
    found = {number: piece.cached_for for number, piece in enumerate(pieces) if piece.cached_for is not None}
    control = params.get("cache_control")
    if isinstance(control, dict) and pieces:
        found[len(pieces) - 1] = str(control.get("ttl", "5m"))
    return found
