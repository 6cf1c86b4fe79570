"""Reading an upload: a multipart form whose file goes to its blob as it comes, in flat memory.

Django's own reading would keep the file a second time, in a temporary file, before anybody sees it. The parser is
``python_multipart``'s; the form is one file and a few short fields, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest
from python_multipart.exceptions import ParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from ground.errors import InvalidRequest, PayloadTooLarge, UnsupportedMediaType

READ_BYTES = 256 * 1024
FILE_PART = "file"
DEFAULT_FILENAME = "upload"
# What a form may hold beside its file: heads of parts, boundaries, and fields that are all short.
_FORM_MAX_BYTES = 64 * 1024
_FIELD_MAX_BYTES = 1_024
_FILENAME_MAX_CHARACTERS = 255
_UNSHOWN = re.compile(r"[^\w .,()\[\]{}@#$%&+=!~^'-]+")


class Sink(Protocol):
    """Takes the bytes of the file."""

    size_bytes: int

    def write(self, chunk: bytes) -> None:
        """Take some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadForm:
    """What a form held beside the bytes of its file."""

    filename: str
    fields: dict[str, str]


@dataclass(slots=True, kw_only=True)
class _Reader:
    """The parser's callbacks; ``size_bytes`` of the sink says how much of the file there is."""

    sink: Sink
    known_names: frozenset[str]
    maximum_bytes: int
    filename: str | None = None
    fields: dict[str, bytes] = field(default_factory=dict)
    is_whole: bool = False
    _name: str = ""
    _header: bytes = b""
    _value: bytes = b""
    _disposition: str = ""

    def callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._add_header,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._name_part,
            "on_part_data": self._take,
            "on_end": self._end,
        }

    def _begin_part(self) -> None:
        self._disposition = ""

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.strip().lower() == b"content-disposition":
            self._disposition = self._value.decode("latin-1")
        self._header = self._value = b""

    def _name_part(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if self._name == FILE_PART:
            if self.filename is not None:
                raise InvalidRequest("The form holds two files; send one.", param=FILE_PART)
            self.filename = shown_filename(options.get(b"filename", b"").decode("utf-8", "replace"))
        elif self._name not in self.known_names:
            raise InvalidRequest(
                f"{self._name[:80]!r} is not a part of this form.", code="unsupported_parameter", param=self._name[:80]
            )
        elif self._name in self.fields:
            raise InvalidRequest(f"{self._name!r} stands twice.", param=self._name)
        else:
            self.fields[self._name] = b""

    def _take(self, data: bytes, start: int, end: int) -> None:
        if self._name == FILE_PART:
            if self.sink.size_bytes + end - start > self.maximum_bytes:
                raise too_large(self.maximum_bytes)
            self.sink.write(data[start:end])
            return
        self.fields[self._name] += data[start:end]
        if len(self.fields[self._name]) > _FIELD_MAX_BYTES:
            raise InvalidRequest(f"{self._name!r} is too long.", param=self._name)

    def _end(self) -> None:
        self.is_whole = True


def read_upload(request: HttpRequest, sink: Sink, *, known_names: frozenset[str], maximum_bytes: int) -> UploadForm:
    """Read a form, its file into ``sink``.

    Args:
        request: With a body that nobody has read.
        sink: Takes the file.
        known_names: The fields that the form may have beside ``file``.
        maximum_bytes: How long the file may be.

    Raises:
        UnsupportedMediaType: It is no multipart form, or compressed.
        PayloadTooLarge: The file is longer; nothing more of it is read.
        InvalidRequest: It is not whole, has no file, or holds what does not belong there.
    """
    reader = _Reader(sink=sink, known_names=known_names, maximum_bytes=maximum_bytes)
    parser = MultipartParser(_boundary(request), reader.callbacks())  # type: ignore[arg-type]  # its keys are a TypedDict's
    try:
        for chunk in _chunks(request, maximum_bytes):
            parser.write(chunk)
    except ParseError:
        raise InvalidRequest("The form is not well-formed multipart.") from None
    if not reader.is_whole:
        raise InvalidRequest("The form ended before it was whole. Nothing was stored.")
    if reader.filename is None:
        raise InvalidRequest("The form holds no file.", code="missing_required_parameter", param=FILE_PART)
    fields = {name: value.decode("utf-8", "replace").strip() for name, value in reader.fields.items()}
    return UploadForm(filename=reader.filename, fields=fields)


def shown_filename(name: str) -> str:
    """Give a customer's file name fit to be stored and sent in a header: no folder, no control characters."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    return _UNSHOWN.sub("_", base).strip(" .")[-_FILENAME_MAX_CHARACTERS:] or DEFAULT_FILENAME


def too_large(maximum_bytes: int) -> PayloadTooLarge:
    """Give the refusal of a file that is too long."""
    return PayloadTooLarge(
        f"A file has at most {maximum_bytes} bytes. Send the rows as several files; nothing of this one was stored.",
        param=FILE_PART,
    )


def _boundary(request: HttpRequest) -> bytes:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("The form is taken as it is, without a Content-Encoding.")
    content_type, options = parse_options_header(request.META.get("CONTENT_TYPE"))
    if content_type != b"multipart/form-data":
        raise UnsupportedMediaType("This call takes a form of type multipart/form-data.")
    boundary = options.get(b"boundary", b"")
    if not boundary or len(boundary) > 70:  # noqa: PLR2004 -- RFC 2046
        raise InvalidRequest("The form's content type names no boundary of 1 to 70 characters.")
    return boundary


def _chunks(request: HttpRequest, maximum_bytes: int) -> Iterator[bytes]:
    """Give the body as it comes, and refuse one that is declared longer than any form of ours before it is read."""
    declared = request.META.get("CONTENT_LENGTH") or ""
    read = request.read
    if declared.isdecimal():
        if int(declared) > maximum_bytes + _FORM_MAX_BYTES:
            raise too_large(maximum_bytes)
    elif isinstance(request, WSGIRequest) and request.environ.get("wsgi.input_terminated"):
        # In chunks, which the server ends itself; Django would read nothing of it.
        read = request.environ["wsgi.input"].read
    left_bytes = maximum_bytes + _FORM_MAX_BYTES
    while chunk := read(READ_BYTES):
        left_bytes -= len(chunk)
        if left_bytes < 0:
            raise too_large(maximum_bytes)
        yield chunk
