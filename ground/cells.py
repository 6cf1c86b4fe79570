"""Text cells of CSV files, and files of them that are written while they are read."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

# What a spreadsheet may take for the beginning of a formula: its signs, also in full width, behind whatever is blank,
# invisible, or a quote; and what it strips. In the words that Python's and PostgreSQL's expressions share.
FORMULA_BEGINNING: Final = (
    r"^([\t\r\n]|[\u0001-\u0020\u0022\u0027\u007f-\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]*"
    r"[=+@\uff1d\uff0b\uff0d\uff20-])"
)
_FORMULA: Final = re.compile(FORMULA_BEGINNING)


class _Line:
    """Takes what the csv writer writes and gives it back: csv knows no other way to make one line."""

    def write(self, text: str) -> str:
        return text


def text_cell(text: str) -> str:
    """Give text that a spreadsheet shows as it is: what looks like a formula gets an apostrophe before it."""
    return f"'{text}" if _FORMULA.match(text) else text


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Give a CSV file line by line (RFC 4180, CR LF); a row is read when its line is asked for."""
    writer = csv.writer(_Line())
    yield writer.writerow(header)
    for row in rows:
        yield writer.writerow(row)
