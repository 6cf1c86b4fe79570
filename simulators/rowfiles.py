"""The files of a running batch: its rows behind offsets, the order they are answered in, and results that grow."""

import random
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=8)
def answer_order(content_seed: int, row_count: int, *, shuffled: bool) -> Sequence[int]:
    """The order in which rows are answered, the same for the same input."""
    order = list(range(row_count))
    if shuffled:
        random.Random(content_seed).shuffle(order)  # noqa: S311  # an order that can be repeated, not a secret
    return order


def append_at(path: Path, position_bytes: int, addition: bytes | bytearray) -> int:
    """Write behind what is known to be good, cutting off the rest; gives the new size in bytes."""
    with path.open("r+b" if path.exists() else "w+b") as target:
        target.truncate(position_bytes)
        target.seek(position_bytes)
        target.write(addition)
    return position_bytes + len(addition)


def read_pieces(path: Path, offsets_path: Path, numbers: Sequence[int]) -> Iterator[bytes]:
    """The pieces of `path` with these numbers; `offsets_path` holds where each starts and, last, where all end."""
    offsets = array("Q")
    offsets.frombytes(offsets_path.read_bytes())
    with path.open("rb") as source:
        for number in numbers:
            source.seek(offsets[number])
            yield source.read(offsets[number + 1] - offsets[number])
