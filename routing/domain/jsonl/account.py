"""Proving by quotes that a typed decode kept everything.

A typed decode skips names that it does not know and takes the last of two equal ones. What it did keep explains a
number of quotes: two for each name and each decoded string, and those within raw texts. Every row holds at least as
many. So where the whole body holds just as many, no row holds anything else. That is one count of a byte, 40 us a
megabyte, in place of looking at each name; only if it does not come out are rows compared one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from msgspec import UNSET, Raw

from routing.domain.estimate.spelling import count_bytes
from routing.domain.estimate.weights import RowLiterals
from routing.domain.jsonl.faults import Json
from routing.domain.jsonl.lines import QUOTE, Lines, count_quotes
from routing.domain.jsonl.typed import ROW_STRINGS, Contents

CONTENTS_AT_ONCE = 512
QUOTE_TEXT = b'"'
# by its byte: whether a string that begins with a character is surely no blank one; an escape may stand for a space
_BEGINS_TEXT = np.arange(256) > ord(" ")
_BEGINS_TEXT[[QUOTE, ord("\\")]] = False
# the one other way to write a quote, which would upset the count
QUOTE_ESCAPED = b"\\u0022"


@dataclass(slots=True, kw_only=True)
class Account:
    """A file, its contents, and each row's value of the common names.

    ``are_strings`` and ``are_texts`` have one entry a content; a text is a string that by its beginning is not blank.
    """

    lines: Lines
    common: Mapping[str, Sequence[Any]]
    contents: Contents
    literals: RowLiterals
    are_strings: npt.NDArray[np.bool_] = field(init=False)
    are_texts: npt.NDArray[np.bool_] = field(init=False)
    unexplained_quotes: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the quotes of the file that neither contents nor common names explain."""
        string_count = ROW_STRINGS * len(self.lines) + int(self.contents.message_strings.sum())
        string_count += sum(len(values) - values.count(UNSET) for values in self.common.values())
        body_codes = np.frombuffer(self.lines.body, dtype=np.uint8)
        self.unexplained_quotes = count_bytes(body_codes, QUOTE) - 2 * string_count
        self.are_strings = np.empty(len(self.literals.flat), dtype=bool)
        self.are_texts = np.empty(len(self.literals.flat), dtype=bool)
        # joined anew for this, a few at a time: a count over the whole takes longer than joining in the cache
        for first in range(0, len(self.literals.flat), CONTENTS_AT_ONCE):
            piece = slice(first, first + CONTENTS_AT_ONCE)
            codes = np.frombuffer(b"".join(self.literals.flat[piece]), dtype=np.uint8)
            lengths = self.literals.lengths[piece]
            begins = np.cumsum(lengths) - lengths
            self.are_strings[piece] = codes[begins] == QUOTE
            self.are_texts[piece] = self.are_strings[piece] & _BEGINS_TEXT[codes.take(begins + 1, mode="clip")]
            self.unexplained_quotes -= count_bytes(codes, QUOTE)

    def is_plain(self) -> bool:
        """Say whether the contents are strings and the common names are all that rows hold."""
        return not self.unexplained_quotes and bool(self.are_strings.all())

    def unexplained_in(self, rows: Collection[int]) -> int:
        """Count those of some rows."""
        if not rows:
            return 0
        ends, counts = np.cumsum(self.contents.counts).tolist(), self.contents.counts.tolist()
        return sum(self._unexplained_in(row, self.contents.flat[ends[row] - counts[row] : ends[row]]) for row in rows)

    def _unexplained_in(self, row: int, held: Sequence[Raw]) -> int:
        string_count = ROW_STRINGS + int(self.contents.message_strings[row])
        string_count += sum(values[row] is not UNSET for values in self.common.values())
        explained = 2 * string_count + sum(bytes(raw).count(QUOTE_TEXT) for raw in held)
        return self.lines.text(row).count(QUOTE_TEXT) - explained

    def unexplained_rows(self, explained: npt.NDArray[np.int64]) -> list[int]:
        """Give the rows that hold more quotes than ``explained`` by rarer names, by contents and by common names."""
        explained = explained + 2 * (ROW_STRINGS + self.contents.message_strings) + self._quotes_of_contents()
        for values in self.common.values():
            explained += [2 * (value is not UNSET) for value in values]
        return np.flatnonzero(explained != count_quotes(self.lines)).tolist()

    def _quotes_of_contents(self) -> npt.NDArray[np.int64]:
        quotes = [bytes(raw).count(QUOTE_TEXT) for raw in self.literals.flat]
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(quotes, dtype=np.int64)))
        last = np.cumsum(self.contents.counts)
        by_row: npt.NDArray[np.int64] = before[last] - before[last - self.contents.counts]
        return by_row


def is_whole(decoded: Json, line: bytes) -> bool:
    """Say whether a decode kept every string on the line: then no name stood twice."""
    return (
        isinstance(decoded, dict)
        and QUOTE_ESCAPED not in line
        and orjson.dumps(decoded).count(QUOTE_TEXT) == line.count(QUOTE_TEXT)
    )
