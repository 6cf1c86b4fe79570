"""JSON pages as providers' report APIs give them: one page, an array of pages, or a page a line.

Numbers with a fraction become Decimals from their text. Proof of completeness is what the pages say: each but the last
has ``has_more`` true, the last has it false, and none stands there twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, BinaryIO, Final

from billing.reconciliation.domain.records import UnreadableFile
from billing.reconciliation.domain.values import row_hash

DOCUMENT_MAX_BYTES: Final = 64 * 1024 * 1024


class Pages:
    """Reads the pages of a file one after another, and knows at the end whether they are all."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._seen: set[bytes] = set()
        self._last_has_more: bool | None = None
        self._trouble = ""
        self.page_count = 0

    def __iter__(self) -> Iterator[list[Any]]:
        """Give the buckets of each page.

        Raises:
            UnreadableFile: A page is no page.
        """
        for page in _documents(self._stream):
            self.page_count += 1
            yield self._buckets(page)

    def incomplete_reason(self) -> str:
        """Say what is missing, once all pages were read; empty when nothing is."""
        if self._trouble:
            return self._trouble
        if self._last_has_more is None:
            return "The file holds no page."
        return "The last page says that more follow." if self._last_has_more else ""

    def _buckets(self, page: Any) -> list[Any]:  # noqa: ANN401 -- what a file holds
        if not isinstance(page, dict) or not isinstance(page.get("data"), list):
            raise UnreadableFile(f"Page {self.page_count} has no list 'data'.")
        has_more = page.get("has_more")
        if not isinstance(has_more, bool):
            self._trouble = self._trouble or f"Page {self.page_count} does not say whether more follow."
        if self._last_has_more is False:
            self._trouble = self._trouble or f"Page {self.page_count - 1} was the last, and another follows."
        print_ = row_hash(json.dumps(page["data"], sort_keys=True, default=str))
        if page["data"] and print_ in self._seen:
            self._trouble = self._trouble or f"Page {self.page_count} stands there twice."
        self._seen.add(print_)
        self._last_has_more = has_more if isinstance(has_more, bool) else True
        buckets: list[Any] = page["data"]
        return buckets


def _documents(stream: BinaryIO) -> Iterator[Any]:
    """Give each page of a file in any of the three shapes."""
    lines = iter(lambda: stream.readline(DOCUMENT_MAX_BYTES), b"")
    first = next((line for line in lines if line.strip()), b"")
    try:
        page = _decoded(first)
    except ValueError:
        rest = stream.read(DOCUMENT_MAX_BYTES - len(first) + 1)
        if len(first) + len(rest) > DOCUMENT_MAX_BYTES:
            raise UnreadableFile("One JSON document is longer than 64 MiB; send a page a line.") from None
        page = _whole(first + rest)
        yield from page if isinstance(page, list) else [page]
        return
    yield from page if isinstance(page, list) else [page]
    for number, line in enumerate(iter(lambda: stream.readline(DOCUMENT_MAX_BYTES), b""), start=2):
        if line.strip():
            yield _whole(line, f"Line {number}")


def _whole(content: bytes, what: str = "The file") -> Any:  # noqa: ANN401 -- what a file holds
    try:
        return _decoded(content)
    except ValueError:
        raise UnreadableFile(f"{what} is not valid JSON.") from None


def _decoded(content: bytes) -> Any:  # noqa: ANN401 -- what a file holds
    """Decode JSON from UTF-8 bytes; ``ValueError`` for anything else, nesting and exponents without end too."""
    try:
        return json.loads(content.decode("utf-8-sig"), parse_float=Decimal, parse_constant=_refused)
    except (RecursionError, InvalidOperation):
        raise ValueError("too deep, or a number without end") from None


def _refused(name: str) -> Any:  # noqa: ANN401 -- the signature of the standard library
    raise ValueError(f"{name} is no number")
