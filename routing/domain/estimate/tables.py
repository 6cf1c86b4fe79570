"""Vocabularies: byte-pair weights, chat framing and bounds.

A weight stands for the tokens that end between two adjacent UTF-8 bytes on average, times ``WEIGHT_SCALE``. NUL marks
where a string begins, ends, or held an escape; two NULs weigh nothing. ``scripts/fit_weights.py`` makes the tables.
"""

from __future__ import annotations

import functools
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

WEIGHT_SCALE = 8_192
# two of them still fit 16 bits
LARGEST_WEIGHT = 2 * WEIGHT_SCALE - 1
PAIR_COUNT = 65_536
TABLE_PATH = Path(__file__).resolve().parent.parent / "data" / "pair-weights.i16.gz"
CLOSED = "closed"
CLAUDE_LEGACY = "claude_legacy"
TABLE_ORDER = ("o200k", "cl100k", "llama3", "qwen3", "deepseek3", "tekken", "gemma3", CLAUDE_LEGACY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """How one family of models counts.

    ``weights`` is indexed by first byte + 256 x second byte. ``ruled_tool_tokens`` is the published constant per
    function where a counting rule exists, None where tools count as their JSON. The band is in tokens per 1,000 bytes.
    """

    name: str
    weights: npt.NDArray[np.int16]
    message_tokens: int
    request_tokens: int
    ruled_tool_tokens: int | None
    band_low_per_mille: int
    band_high_per_mille: int


# tokens per message, tokens per request, tokens per function by the published rule, band in tokens per 1,000 bytes
_FACTS: dict[str, tuple[int, int, int | None, int, int]] = {
    "o200k": (4, 3, 7, 40, 800),
    "cl100k": (4, 3, 10, 40, 850),
    "llama3": (5, 5, None, 40, 850),
    "qwen3": (5, 3, None, 40, 1_000),
    "deepseek3": (1, 2, None, 40, 850),
    "tekken": (2, 1, None, 40, 1_000),
    "gemma3": (5, 4, None, 40, 1_000),
    CLAUDE_LEGACY: (4, 3, None, 40, 850),
    CLOSED: (5, 5, None, 40, 1_000),
}


def vocabulary_named(name: str) -> Vocabulary:
    """Give a vocabulary by the name the catalog uses; one that is not public counts by the mean of those that are."""
    short = name.removesuffix("_base").removesuffix("_harmony")
    return _load(short if short in _FACTS else CLOSED)


@functools.cache
def _load(name: str) -> Vocabulary:
    message_tokens, request_tokens, ruled_tool_tokens, low, high = _FACTS[name]
    return Vocabulary(
        name=name,
        weights=_weights(name),
        message_tokens=message_tokens,
        request_tokens=request_tokens,
        ruled_tool_tokens=ruled_tool_tokens,
        band_low_per_mille=low,
        band_high_per_mille=high,
    )


def _weights(name: str) -> npt.NDArray[np.int16]:
    tables = _all_tables()
    if name == CLOSED:
        mean: npt.NDArray[np.int32] = tables.sum(axis=0, dtype=np.int32) // len(TABLE_ORDER)
        return mean.astype(np.int16)
    return np.ascontiguousarray(tables[TABLE_ORDER.index(name)])


@functools.cache
def _all_tables() -> npt.NDArray[np.int16]:
    packed = gzip.decompress(TABLE_PATH.read_bytes())
    return np.frombuffer(packed, dtype="<i2").astype(np.int16).reshape(len(TABLE_ORDER), PAIR_COUNT)
