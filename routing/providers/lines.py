"""JSON lines as bytes: cut a stream into lines, and make a line that every reader takes for one."""

import time
from collections.abc import Iterable, Iterator

_BLOCK_BYTES = 64 * 1024
_GATHERING_SECONDS = 1.0
# Readers that split with str.splitlines() also break at these; inside JSON they can only stand in strings.
_SEPARATORS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def one_line(document: bytes) -> bytes:
    """Give JSON text without anything that some reader takes for the end of a line; its value stays the same."""
    if not document.isascii():
        for separator, escaped in _SEPARATORS:
            document = document.replace(separator, escaped)
    # In JSON a raw CR or LF can only be white space between tokens.
    return document.translate(_BREAKS_TO_SPACES) if CR in document or LF in document else document


# As numbers: looked for in this way they cost a quarter.
CR, LF = b"\r\n"
_BREAKS_TO_SPACES = bytes.maketrans(b"\r\n", b"  ")


def is_one_line_each(text: bytes) -> bool:
    """Tell whether :func:`one_line` leaves each of some JSON lines, with LF between them, as it is."""
    return CR not in text and (text.isascii() or not any(separator in text for separator, _ in _SEPARATORS))


def gather_lines(chunks: Iterable[bytes], *, maximum_bytes: int) -> Iterator[list[bytes] | int]:
    r"""Cut a byte stream at LF alone, as :func:`split_lines` does, and give many lines at once.

    A line longer than ``maximum_bytes`` comes alone, as its size in bytes. Memory stays at a block of lines, or at one.
    Lines that come slowly are not waited for: their reader has a lease to keep.
    """
    gathered: list[bytes] = []
    gathered_bytes = 0
    gives_at = time.monotonic() + _GATHERING_SECONDS
    for lines, size_bytes in _lines_of_chunks(chunks, maximum_bytes):
        if size_bytes > maximum_bytes:
            if gathered:
                yield gathered
            yield size_bytes
            gathered, gathered_bytes = [], 0
            continue
        gathered += lines
        gathered_bytes += size_bytes
        if gathered_bytes >= _BLOCK_BYTES or time.monotonic() >= gives_at:
            yield gathered
            gathered, gathered_bytes = [], 0
            gives_at = time.monotonic() + _GATHERING_SECONDS
    if gathered:
        yield gathered


def split_lines(chunks: Iterable[bytes], *, maximum_bytes: int) -> Iterator[tuple[bytes, int]]:
    r"""Cut a byte stream at LF alone.

    Memory stays at one line. Of a longer line than ``maximum_bytes`` nothing is kept.

    Returns:
        Each line without its LF, and its size in bytes; the line is empty where it was too long. The last line may
        lack its LF.
    """
    for lines, size_bytes in _lines_of_chunks(chunks, maximum_bytes):
        if size_bytes > maximum_bytes:
            yield b"", size_bytes
        else:
            yield from ((line, len(line)) for line in lines)


def _lines_of_chunks(chunks: Iterable[bytes], maximum_bytes: int) -> Iterator[tuple[list[bytes], int]]:
    """Give the lines that end in each chunk, with the size of all; one that is too long alone and without its text."""
    pieces: list[bytes] = []
    size_bytes = 0
    for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        size_bytes += len(first)
        pieces.append(first)
        if lines:
            yield ([b"".join(pieces)] if size_bytes <= maximum_bytes else []), size_bytes
            # The last piece is the beginning of a line that the next chunk goes on with.
            last = lines.pop()
            if len(chunk) <= maximum_bytes:
                yield lines, len(chunk)
            else:
                yield from (([line] if len(line) <= maximum_bytes else [], len(line)) for line in lines)
            pieces, size_bytes = [last], len(last)
        if size_bytes > maximum_bytes:
            pieces = []
    if size_bytes:
        yield ([b"".join(pieces)] if size_bytes <= maximum_bytes else []), size_bytes
