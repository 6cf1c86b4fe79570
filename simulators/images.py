"""The size of an image inside a data URI, read from its header."""

import base64
import binascii
import struct

_HEADER_CHARS = 64 * 1024
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_JPEG_MARKER = 0xFF
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_size(url: str) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, GIF or JPEG data URI; None for a link or an unknown format."""
    head, _, encoded = url[: _HEADER_CHARS + 100].partition(",")
    if not head.startswith("data:") or ";base64" not in head:
        return None
    usable_chars = len(encoded) // 4 * 4
    try:
        header = base64.b64decode(encoded[:usable_chars])
        size = _size(header)
    except (binascii.Error, ValueError, struct.error):
        return None
    return size if size and min(size) > 0 else None


def _size(header: bytes) -> tuple[int, int] | None:
    if header.startswith(_PNG):
        width, height = struct.unpack(">II", header[16:24])
        return width, height
    if header[:6] in {b"GIF87a", b"GIF89a"}:
        width, height = struct.unpack("<HH", header[6:10])
        return width, height
    if header.startswith(_JPEG):
        return _jpeg_size(header)
    return None


def _jpeg_size(header: bytes) -> tuple[int, int] | None:
    position = len(_JPEG)
    while True:
        marker, kind, length = struct.unpack(">BBH", header[position : position + 4])
        if marker != _JPEG_MARKER:
            return None
        if kind in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", header[position + 5 : position + 9])
            return width, height
        position += 2 + length
