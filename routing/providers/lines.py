"""JSON lines as bytes: cut a stream into lines, and make a line that every reader takes for one."""

import time
from collections.abc import Iterable, Iterator

_PIECE_BYTES = 64 * 1024
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


def gather_lines(chunks: Iterable[bytes], *, maximum_bytes: int) -> Iterator[bytes | int]:
    r"""Cut a byte stream at LF alone, as :func:`split_lines` does, and give many lines in one piece.

    Each line of a piece ends in LF, also where the stream's last one lacked it. A line longer than ``maximum_bytes``
    comes alone, as its size in bytes without LF. Memory stays at a piece, or at one line. Lines that come slowly are
    not waited for: their reader has a lease to keep.
    """
    whole: list[bytes | memoryview] = []
    whole_bytes = 0
    # The line that goes on with the next chunk; nothing of it is kept once it is too long.
    begun: list[bytes] = []
    begun_bytes = 0
    gives_at = time.monotonic() + _GATHERING_SECONDS
    for chunk in chunks:
        border = chunk.rfind(b"\n") + 1
        if border and begun_bytes + border <= maximum_bytes:
            whole += begun
            whole.append(memoryview(chunk)[:border])
            whole_bytes += begun_bytes + border
        elif border:
            if whole:
                yield b"".join(whole)
            whole, whole_bytes = [], 0
            yield from _one_by_one(begun, begun_bytes, chunk[:border], maximum_bytes)
        if border:
            begun, begun_bytes = [], 0
        begun.append(chunk[border:])
        begun_bytes += len(chunk) - border
        if begun_bytes > maximum_bytes:
            begun = []
        if whole_bytes >= _PIECE_BYTES or (whole and time.monotonic() >= gives_at):
            yield b"".join(whole)
            whole, whole_bytes = [], 0
            gives_at = time.monotonic() + _GATHERING_SECONDS
    if whole:
        yield b"".join(whole)
    if begun_bytes:
        yield b"".join((*begun, b"\n")) if begun_bytes <= maximum_bytes else begun_bytes


def _one_by_one(begun: list[bytes], begun_bytes: int, ended: bytes, maximum_bytes: int) -> Iterator[bytes | int]:
    """Give the lines that end here, of which one may be too long; the first goes on with what was ``begun``."""
    first, *lines = ended.split(b"\n")[:-1]
    first_bytes = begun_bytes + len(first)
    yield b"".join((*begun, first, b"\n")) if first_bytes <= maximum_bytes else first_bytes
    for line in lines:
        yield line + b"\n" if len(line) <= maximum_bytes else len(line)


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
