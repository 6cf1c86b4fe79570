"""Text cells of CSV files, and files of them that are written while they are read."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

# What a spreadsheet may take for the beginning of a formula, or strip to get at one.
_BEGINNINGS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


class _Line:
    """Takes what the csv writer writes and gives it back: csv knows no other way to make one line."""

    def write(self, text: str) -> str:
        return text


def text_cell(text: str) -> str:
    """Give text that a spreadsheet shows as it is: what looks like a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(_BEGINNINGS) else text


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Give a CSV file line by line (RFC 4180, CR LF); a row is read when its line is asked for."""
    writer = csv.writer(_Line())
    yield writer.writerow(header)
    for row in rows:
        yield writer.writerow(row)
