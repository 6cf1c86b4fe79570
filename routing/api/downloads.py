"""Finished files over HTTP: whole or one range of them, with their hash, in flat memory (RFC 9110 and RFC 9530)."""

from __future__ import annotations

import base64
import re
from typing import Any, BinaryIO, Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header

from ground.blobs import READ_CHUNK_BYTES, open_blob
from ground.connections import give_back
from ground.errors import RangeNotSatisfiable
from routing.api.answers import JSON_LINES, errors_of
from routing.models import StoredFile
from routing.selectors import file_by_id

# What a download may be asked with HEAD too; the published calls name GET alone.
METHODS: Final = ["GET", "HEAD"]
_CONTENT_TYPE: Final = "application/jsonl"
# One range; several at once are answered with the whole file, which the standard allows.
_RANGE: Final = re.compile(r"bytes[ \t]*=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE)
_ASKED_BY: Final = (
    ("Range", "One range of bytes, such as `bytes=1000-` (206); anything else is answered with the whole file."),
    ("If-Range", "The `ETag` for which `Range` was meant; when the file has another, it is given whole."),
    ("If-None-Match", "An `ETag` that the caller has the bytes of (304)."),
)

RESPONSES: Final[dict[Any, Any]] = {200: None, 206: None, 304: None, **errors_of(404, 416)}
PUBLISHED: Final[dict[str, Any]] = {
    "responses": {200: {"content": JSON_LINES}, 206: {"content": JSON_LINES}},
    "parameters": [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": meaning}
        for name, meaning in _ASKED_BY
    ],
}


def download(request: HttpRequest, stored: StoredFile) -> HttpResponseBase:
    """Give a stored file's bytes as they are asked for: all, one range, none that the caller has, or the head alone.

    Raises:
        RangeNotSatisfiable: The range begins behind the end.
        NotFound: The file went after it was found.
        FileNotFoundError: It is there and its bytes are not, which is our fault.
    """
    etag = f'"{bytes(stored.sha256).hex()}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        # Of the whole file, also where a range of it is given.
        "Repr-Digest": f"sha-256=:{base64.b64encode(bytes(stored.sha256)).decode()}:",
    }
    if _names(request.headers.get("If-None-Match", ""), etag):
        return HttpResponse(status=304, content_type=_CONTENT_TYPE, headers=headers)
    disposition = content_disposition_header(as_attachment=True, filename=stored.filename)
    assert disposition is not None, "an attachment has a disposition"
    headers["Content-Disposition"] = disposition
    start, stop, status = 0, stored.size_bytes, 200
    wanted = request.headers.get("Range")
    if wanted is not None and request.method == "GET" and request.headers.get("If-Range", etag) == etag:
        span = range_of(wanted, stored.size_bytes)
        if span is not None:
            (start, stop), status = span, 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{stored.size_bytes}"
    headers["Content-Length"] = str(stop - start)
    if request.method == "HEAD":
        return HttpResponse(content_type=_CONTENT_TYPE, headers=headers)
    try:
        blob = open_blob(stored.blob_name)
    except FileNotFoundError:
        # It was deleted, or its time was over, since it was found, and a sweep was quick; else its bytes are lost.
        file_by_id(organisation=stored.organisation, public_id=stored.public_id)
        raise
    # The rest needs the disk and the reader only.
    give_back()
    return StreamingHttpResponse(
        _Stretch(blob, start, stop), status=status, content_type=_CONTENT_TYPE, headers=headers
    )


def range_of(header: str, size_bytes: int) -> tuple[int, int] | None:
    """Give the bytes that a ``Range`` asks for, from and up to; None where it is to be passed over.

    Raises:
        RangeNotSatisfiable: No byte of the file is in it.
    """
    match = _RANGE.fullmatch(header.strip())
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(size_bytes - int(last), 0), size_bytes
    else:
        start, stop = int(first), min(int(last) + 1, size_bytes) if last else size_bytes
        if last and int(last) < start:
            return None
    if start >= size_bytes:
        raise RangeNotSatisfiable(
            f"The file has {size_bytes} bytes; the range begins behind them.", size_bytes=size_bytes
        )
    return start, stop


class _Stretch:
    """The bytes of an open blob between two places, in chunks; closed with the answer that gives them."""

    def __init__(self, blob: BinaryIO, start: int, stop: int) -> None:
        self._blob = blob
        self._left_bytes = stop - start
        self._blob.seek(start)

    def __iter__(self) -> _Stretch:
        return self

    def __next__(self) -> bytes:
        chunk = self._blob.read(min(READ_CHUNK_BYTES, self._left_bytes))
        if not chunk:
            raise StopIteration
        self._left_bytes -= len(chunk)
        return chunk

    def close(self) -> None:
        """Let go of the blob."""
        self._blob.close()


def _names(header: str, etag: str) -> bool:
    """Say whether a list of tags names this one; for not sending what is there, a weak tag counts as its strong one."""
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return etag in tags or "*" in tags
