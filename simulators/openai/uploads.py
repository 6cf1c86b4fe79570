"""Receive a multipart upload straight onto disk."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from simulators.openai.wire import ApiError

_MAX_FIELD_BYTES = 65_536
_MAX_FILE_BYTES = 536_870_912


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A received form: its fields, and the file on disk, which the caller moves or unlinks."""

    form_fields: dict[str, str]
    path: Path
    filename: str | None
    size_bytes: int
    content_seed: int


@dataclass(slots=True)
class _Receiver:
    """The callbacks of the streaming parser: fields into memory, the file part onto disk."""

    target: BinaryIO
    form_fields: dict[str, str] = field(default_factory=dict)
    filename: str | None = None
    size_bytes: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    _header_name: bytearray = field(default_factory=bytearray)
    _header_value: bytearray = field(default_factory=bytearray)
    _disposition: bytes = b""
    _field_name: str = ""
    _field_value: bytearray = field(default_factory=bytearray)
    _in_file: bool = False

    def parser(self, boundary: bytes) -> MultipartParser:
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": lambda data, start, end: self._header_name.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header_value.extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_content,
                "on_part_data": self._take_content,
                "on_part_end": self._end_part,
            },
        )

    def _begin_part(self) -> None:
        self._disposition = b""
        self._field_value.clear()

    def _end_header(self) -> None:
        if bytes(self._header_name).lower() == b"content-disposition":
            self._disposition = bytes(self._header_value)
        self._header_name.clear()
        self._header_value.clear()

    def _begin_content(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._field_name = options.get(b"name", b"").decode(errors="replace")
        self._in_file = self._field_name == "file" and b"filename" in options
        if self._in_file:
            self.filename = options[b"filename"].decode(errors="replace")

    def _take_content(self, data: bytes, start: int, end: int) -> None:
        content = data[start:end]
        if not self._in_file:
            if len(self._field_value) + len(content) > _MAX_FIELD_BYTES:
                raise ApiError(413, "A form field is too large.")
            self._field_value += content
            return
        self.size_bytes += len(content)
        if self.size_bytes > _MAX_FILE_BYTES:
            raise ApiError(413, f"The file exceeds the maximum size of {_MAX_FILE_BYTES} bytes.")
        self.digest.update(content)
        self.target.write(content)

    def _end_part(self) -> None:
        if not self._in_file:
            self.form_fields[self._field_name] = self._field_value.decode(errors="replace")


async def receive_upload(request: Request, directory: Path) -> Upload:
    """The uploaded form, with its file under a temporary name in `directory`; memory stays flat.

    Raises:
        ApiError: the body is not a multipart form or is too large.
    """
    media_type, options = parse_options_header(request.headers.get("content-type"))
    if media_type != b"multipart/form-data" or b"boundary" not in options:
        raise ApiError(400, "The request must be a multipart form.")
    with _temporary(directory) as (path, target):
        receiver = _Receiver(target)
        parser = receiver.parser(options[b"boundary"])
        try:
            async for chunk in request.stream():
                parser.write(chunk)
            parser.finalize()
        except FormParserError as error:
            raise ApiError(400, "Could not parse the multipart form.") from error
    return Upload(
        form_fields=receiver.form_fields,
        path=path,
        filename=receiver.filename,
        size_bytes=receiver.size_bytes,
        content_seed=int.from_bytes(receiver.digest.digest()[:6], "big"),
    )


@contextmanager
def _temporary(directory: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file in `directory`, gone again if the block fails."""
    descriptor, name = tempfile.mkstemp(prefix="upload-", dir=directory)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as target:
            yield path, target
    except BaseException:
        path.unlink()
        raise
