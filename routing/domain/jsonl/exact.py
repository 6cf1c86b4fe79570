"""One line judged by the letter, and the report of everything that is wrong with a file."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec
import numpy as np

from catalog.domain.records import Endpoint
from ground.errors import DuplicateId, RowError, RowErrors
from routing.domain.jsonl.checks import MAXIMUM_CUSTOM_ID_CHARACTERS, check_body, check_custom_id, check_envelope
from routing.domain.jsonl.faults import DuplicateNames, RowFault, duplicate_name, fail
from routing.domain.jsonl.pieces import Piece, Pieces
from routing.domain.jsonl.table import FileLimits

MAXIMUM_DEPTH = 100
ERRORS_LISTED = 100
DUPLICATE_IDS_LISTED = 1_000
# Of one id, and of all of them together.
PLACES_OF_AN_ID_LISTED = 1_000
PLACES_LISTED = 20_000
INTEGER_CHARACTERS = 18
# A place is two numbers, row and line.
_PLACE_NUMBERS = 2
HIGH_SURROGATES, LOW_SURROGATES = range(0xD800, 0xDC00), range(0xDC00, 0xE000)

ModelCheck = Callable[[str, Endpoint], RowFault | None]

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def decode_line(line: bytes) -> dict[str, Any]:
    """Give a line's object; objects in which a name stands twice come as ``DuplicateNames``.

    Raises:
        RowFault: ``invalid_encoding``, ``too_deep``, ``invalid_json_line``, ``invalid_value`` (of a number beyond all
            readers) or ``duplicate_key``.
    """
    if is_too_deep(line):
        fail("too_deep", f"The line nests deeper than {MAXIMUM_DEPTH} levels.")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        fail("invalid_encoding", f"The line is not valid UTF-8 (byte {error.start + 1}).")
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        fail("invalid_json_line", f"The line is not one valid JSON object (column {error.pos + 1}).")
    if not isinstance(value, dict):
        fail("invalid_json_line", "The line is valid JSON but not an object; send one request object a line.")
    if ("\\ud" in text or "\\uD" in text) and _has_lone_surrogate(text):
        fail("invalid_encoding", "The line holds half of an escaped surrogate pair, which no text encoding can carry.")
    if isinstance(value, DuplicateNames):
        duplicate_name(value, None)
    return value


def report_errors(body: bytes, limits: FileLimits, check_model: ModelCheck) -> None:
    """Read a whole body again by the letter and raise everything that is wrong with it.

    Args:
        body: The file.
        limits: How much it may hold.
        check_model: Says what is wrong with a model name at an endpoint, or None.

    Raises:
        RowErrors: Up to 100 errors sorted by line, and each ``custom_id`` that stands more than once with all its rows
            and lines (1,000 ids; ``extra["duplicate_id_count"]`` has the total).
    """
    pieces = (Piece(text=body, offset=0, first_line=1),)
    _check_row_count(pieces, limits)
    _report(pieces, _Findings(limits=limits, check_model=check_model))


def report_long_file(
    pieces: Pieces, limits: FileLimits, check_model: ModelCheck, *, endpoint: Endpoint | None = None
) -> None:
    """Report as :func:`report_errors` does, in flat memory: the file is gone through three times.

    First its rows are counted; then ids are hashed, so that at last only those that may stand twice are held.

    Args:
        pieces: Gives the file, each time it is called.
        limits: How much it may hold.
        check_model: Says what is wrong with a model name at an endpoint, or None.
        endpoint: Where its rows must go; None where the first one decides.

    Raises:
        RowErrors: As there.
    """
    _check_row_count(pieces(), limits)
    may_repeat = _repeated_hashes(pieces())
    findings = _Findings(limits=limits, check_model=check_model, may_repeat=may_repeat, endpoint=endpoint)
    _report(pieces(), findings)


def _check_row_count(pieces: Iterable[Piece], limits: FileLimits) -> None:
    row_count, over, line_over = 0, limits.maximum_rows, 0
    for piece in pieces:
        numbers = piece.line_numbers()
        if row_count <= over < row_count + len(numbers):
            line_over = int(numbers[over - row_count])
        row_count += len(numbers)
    if not row_count:
        raise RowErrors([RowError(code="empty_file", message="The file holds no request.")])
    if row_count > over:
        message = f"The file holds {row_count} rows; at most {over} are allowed here."
        raise RowErrors([RowError(code="too_many_rows", message=message, row=over, line=line_over)])


def _repeated_hashes(pieces: Iterable[Piece]) -> frozenset[int]:
    """Give the hashes of all ids that stand more than once; those of a few others may be among them."""
    found = [np.zeros(0, dtype=np.int64)]
    for piece in pieces:
        ids = (_id_of(text) for _, text, _ in piece.rows())
        found.append(np.fromiter((hash(each) for each in ids if each is not None), dtype=np.int64))
    hashes = np.sort(np.concatenate(found))
    return frozenset(hashes[1:][hashes[1:] == hashes[:-1]].tolist())


def _id_of(text: bytes) -> str | None:
    """Give a line's ``custom_id`` quickly if the line may be good; one that the exact reading refuses does no harm."""
    try:
        return _decode_named(text).custom_id
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return _readable_id(decode_line(text))
    except RowFault:
        return None


def _report(pieces: Iterable[Piece], findings: _Findings) -> None:
    row = 0
    for piece in pieces:
        for line, text, size_bytes in piece.rows():
            findings.read(row, line, text, size_bytes)
            row += 1
    findings.raise_if_any()


class _Named(msgspec.Struct, gc=False):
    custom_id: str


_decode_named = msgspec.json.Decoder(_Named).decode


@dataclass(slots=True, kw_only=True)
class _Findings:
    """What has been found so far.

    ``places`` has readable ``custom_id``s with their rows and lines, one after the other. With ``may_repeat`` (hashes)
    it has only ids that may stand twice, as many as are listed; of the others ``first_lines`` has the first line and
    ``repeated`` those that were seen again, both by hash.
    """

    limits: FileLimits
    check_model: ModelCheck
    may_repeat: frozenset[int] | None = None
    endpoint: Endpoint | None = None
    errors: list[RowError] = field(default_factory=list)
    error_count: int = 0
    places: dict[str, array[int]] = field(default_factory=dict)
    first_lines: dict[int, int] = field(default_factory=dict)
    repeated: set[int] = field(default_factory=set)
    verdicts: dict[tuple[str, Endpoint], RowFault | None] = field(default_factory=dict)

    def read(self, row: int, line: int, text: bytes, size_bytes: int) -> None:
        """Judge one line; a row has one error at most."""
        custom_id, first_line = None, line
        try:
            if size_bytes > self.limits.maximum_row_bytes:
                fail(
                    "row_too_large",
                    f"The row has {size_bytes} bytes; at most {self.limits.maximum_row_bytes} are allowed.",
                )
            decoded = decode_line(text)
            custom_id = _readable_id(decoded)
            check_custom_id(decoded)
            assert custom_id is not None, "a checked custom_id is readable"
            first_line = self._first_line(custom_id, row, line)
            self._judge(decoded)
        except RowFault as fault:
            # An overlong row is not held by the long path, so it has no id on either.
            if custom_id is None and fault.code != "row_too_large" and len(self.errors) < ERRORS_LISTED:
                custom_id = _id_in_refused(text)
            self._add(fault, row, line, custom_id)
            return
        if first_line != line:
            repeated = RowFault(
                "duplicate_custom_id", f"This custom_id already stands on line {first_line}.", "custom_id"
            )
            self._add(repeated, row, line, custom_id)

    def _first_line(self, custom_id: str, row: int, line: int) -> int:
        """Note where an id stands, and give the line on which it stood first."""
        if self.may_repeat is not None:
            key = hash(custom_id)
            if key not in self.may_repeat:
                return line
            if custom_id not in self.places and len(self.places) >= DUPLICATE_IDS_LISTED:
                first_line = self.first_lines.setdefault(key, line)
                if first_line != line:
                    self.repeated.add(key)
                return first_line
        places = self.places.setdefault(custom_id, array("q"))
        places.extend((row, line))
        return places[1]

    def _judge(self, decoded: Mapping[str, Any]) -> None:
        endpoint = check_envelope(decoded, self.endpoint)
        self.endpoint = endpoint
        body = check_body(decoded, endpoint)
        key = (body["model"], endpoint)
        if key not in self.verdicts:
            self.verdicts[key] = self.check_model(*key)
        verdict = self.verdicts[key]
        if verdict:
            raise RowFault(verdict.code, verdict.message, verdict.param)

    def _add(self, fault: RowFault, row: int, line: int, custom_id: str | None) -> None:
        self.error_count += 1
        if len(self.errors) < ERRORS_LISTED:
            found = RowError(
                code=fault.code, message=fault.message, param=fault.param, row=row, line=line, custom_id=custom_id
            )
            self.errors.append(found)

    def raise_if_any(self) -> None:
        """Raise what was found, if anything."""
        if not self.errors:
            return
        repeated = [(custom_id, places) for custom_id, places in self.places.items() if len(places) > _PLACE_NUMBERS]
        listed = repeated[:DUPLICATE_IDS_LISTED]
        # Few ids are listed with all their places; a million of one id must not make a report of megabytes.
        numbers = _PLACE_NUMBERS * min(PLACES_OF_AN_ID_LISTED, PLACES_LISTED // max(1, len(listed)))
        duplicates = [
            DuplicateId(
                custom_id=custom_id,
                count=len(places) // _PLACE_NUMBERS,
                rows=tuple(places[:numbers:2]),
                lines=tuple(places[1:numbers:2]),
            )
            for custom_id, places in listed
        ]
        error = RowErrors(self.errors, total=self.error_count, duplicates=duplicates)
        if repeated:
            error.extra["duplicate_id_count"] = len(repeated) + len(self.repeated)
        raise error


def _readable_id(decoded: Mapping[str, Any]) -> str | None:
    """Give the ``custom_id`` if it can be named as it stands."""
    value = decoded.get("custom_id")
    return value if isinstance(value, str) and 0 < len(value) <= MAXIMUM_CUSTOM_ID_CHARACTERS else None


def _id_in_refused(text: bytes) -> str | None:
    """Give the ``custom_id`` of a line that was refused for something else, where just one can be read in it.

    The report then names the row as its owner does, also where the fault stands far from the id: half a surrogate
    pair, bytes that are no UTF-8, NaN, a name that stands twice.
    """
    try:
        names = _lenient_decoder.decode(text.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(names, _Names):
        return None
    ids = [value for name, value in names if name == "custom_id"]
    if len(ids) != 1 or not isinstance(ids[0], str) or not 0 < len(ids[0]) <= MAXIMUM_CUSTOM_ID_CHARACTERS:
        return None
    # An id that is itself damaged is none: it could be sent to nobody, or would be another one.
    damaged = "\N{REPLACEMENT CHARACTER}" in ids[0] or any(
        ord(each) in HIGH_SURROGATES or ord(each) in LOW_SURROGATES for each in ids[0]
    )
    return None if damaged else ids[0]


def is_too_deep(text: bytes, *, outer_depth: int = 0) -> bool:
    """Say whether brackets outside strings nest deeper than a line may; ``outer_depth`` is how deep the text stands."""
    allowed = MAXIMUM_DEPTH - outer_depth
    if text.count(b"[") + text.count(b"{") <= allowed:
        return False
    codes = np.frombuffer(_STRING.sub(b"", text), dtype=np.uint8)
    steps = np.isin(codes, np.frombuffer(b"[{", np.uint8)).astype(np.int32)
    steps -= np.isin(codes, np.frombuffer(b"]}", np.uint8))
    return int(np.cumsum(steps).max(initial=0)) > allowed


def _has_lone_surrogate(text: str) -> bool:
    high_ends_at = -1
    for match in _ESCAPE.finditer(text):
        unit = int(match[1], 16) if match[1] else 0
        follows = match.start() == high_ends_at
        is_low = unit in LOW_SURROGATES
        if is_low != (follows and is_low) or (high_ends_at >= 0 and not (follows and is_low)):
            return True
        high_ends_at = match.end() if unit in HIGH_SURROGATES else -1
    return high_ends_at >= 0


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    twice = DuplicateNames(value)
    counts = Counter(name for name, _ in pairs)
    twice.first_duplicate = next(name for name, count in counts.items() if count > 1)
    return twice


def _whole_number(text: str) -> int | float:
    """Read a whole number; one too long for any field we know is only kept as a number."""
    return int(text) if len(text) <= INTEGER_CHARACTERS else _number(text)


def _number(text: str) -> float:
    """Read a number. One beyond every double is valid JSON, but hardly a reader behind us would take the line."""
    value = float(text)
    if math.isinf(value):
        fail("invalid_value", "The line holds a number larger than a 64-bit float can be.")
    return value


def _refuse_constant(_name: str) -> NoReturn:
    fail("invalid_json_line", "NaN and Infinity are not JSON.")


class _Names(list[tuple[str, Any]]):
    """An object as its names and values, in order."""


_lenient_decoder = json.JSONDecoder(object_pairs_hook=_Names)
_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_number, parse_int=_whole_number
)
