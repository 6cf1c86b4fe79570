"""Cutting a body into lines at LF."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
JSON_BLANKS = b" \t\r"
OPENING_BRACE = 0x7B


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """The lines that are not blank: their bytes without line end, where they stand, and their number from 1."""

    texts: list[bytes]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]


def split_lines(body: bytes) -> Lines:
    """Cut at LF alone, drop a CR before it, skip lines of JSON white space and a byte-order mark at the start."""
    texts = body.split(b"\n")
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    offsets = np.cumsum(lengths + 1) - (lengths + 1)
    if texts[0].startswith(BYTE_ORDER_MARK):
        texts[0] = texts[0][3:]
        offsets[0], lengths[0] = 3, lengths[0] - 3
    if b"\r" in body:
        texts = [text[:-1] if text.endswith(b"\r") else text for text in texts]
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    numbers = np.arange(1, len(texts) + 1)
    opening = np.frombuffer(body + b" ", dtype=np.uint8)[offsets] == OPENING_BRACE
    if not opening.all():
        for index in np.flatnonzero(~opening).tolist():
            opening[index] = bool(texts[index].strip(JSON_BLANKS))
        texts = list(compress(texts, opening.tolist()))
        offsets, lengths, numbers = offsets[opening], lengths[opening], numbers[opening]
    return Lines(texts=texts, offsets=offsets, lengths=lengths, numbers=numbers)
