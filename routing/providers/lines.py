"""JSON lines as bytes: cut a stream into lines, and make a line that every reader takes for one."""

from collections.abc import Iterable, Iterator

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


def split_lines(chunks: Iterable[bytes], *, maximum_bytes: int) -> Iterator[tuple[bytes, int]]:
    r"""Cut a byte stream at LF alone.

    Memory stays at one line. Of a longer line than ``maximum_bytes`` nothing is kept.

    Returns:
        Each line without its LF, and its size in bytes; the line is empty where it was too long. The last line may
        lack its LF.
    """
    pieces: list[bytes] = []
    size_bytes = 0
    for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        size_bytes += len(first)
        pieces.append(first)
        if rest:
            yield (b"".join(pieces) if size_bytes <= maximum_bytes else b""), size_bytes
            # The last piece is the beginning of a line that the next chunk goes on with.
            last = rest.pop()
            for line in rest:
                yield (line if len(line) <= maximum_bytes else b""), len(line)
            pieces, size_bytes = [last], len(last)
        if size_bytes > maximum_bytes:
            pieces = []
    if size_bytes:
        yield (b"".join(pieces) if size_bytes <= maximum_bytes else b""), size_bytes
