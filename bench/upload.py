"""An upload of 100 MB as a client on loopback sees it, and how far the web server's memory grows meanwhile.

Floor: the same bytes copied to a file on the same disk in pieces, hashed with SHA-256 and flushed, in turns with them.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.files import mixed_rows
from bench.measure import show, spans_ms
from bench.product import Product, running_product

_SIZE_BYTES = 100_000_000
_PIECE_BYTES = 1024 * 1024
_CALL_COUNT = 7
_BOUNDARY = "upload-of-the-bench"
_HEAD = (
    f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="requests.jsonl"\r\n\r\n'
).encode()
_TAIL = f"\r\n--{_BOUNDARY}--\r\n".encode()


def run() -> None:
    """Print time and memory."""
    rows = mixed_rows(5_000, bytes_per_row=1_650)
    content = (rows * (_SIZE_BYTES // len(rows) + 1))[:_SIZE_BYTES]
    with running_product() as product, tempfile.TemporaryDirectory(prefix="lanehouse-bench-") as folder:
        _upload(product, content[:_PIECE_BYTES])
        before_megabytes = product.watch_memory()
        uploads, floor = [], []
        for _ in range(_CALL_COUNT):
            floor += spans_ms(lambda: _copy(content, Path(folder) / "copy"), count=1, warm_up_count=0)
            uploads += spans_ms(lambda: _upload(product, content), count=1, warm_up_count=0)
        grown_megabytes = product.peak_megabytes() - before_megabytes
    show("upload, 100 MB", uploads, floor, floor_name="a copy with SHA-256")
    print(f"upload, 100 MB: the web server's memory grew by {grown_megabytes:.0f} MB")


def _copy(content: bytes, path: Path) -> None:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for piece in _pieces(content):
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _pieces(content: bytes) -> Iterator[memoryview]:
    view = memoryview(content)
    for start in range(0, len(view), _PIECE_BYTES):
        yield view[start : start + _PIECE_BYTES]


def _upload(product: Product, content: bytes) -> None:
    connection = product.client()
    connection.putrequest("POST", "/v1/files")
    connection.putheader("Authorization", f"Bearer {product.api_key}")
    connection.putheader("Content-Type", f"multipart/form-data; boundary={_BOUNDARY}")
    connection.putheader("Content-Length", str(len(_HEAD) + len(content) + len(_TAIL)))
    connection.endheaders(_HEAD)
    for piece in _pieces(content):
        connection.send(piece)
    connection.send(_TAIL)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status == http.HTTPStatus.OK, said[:300]
