"""Files by the compiled pass: it knows the rows of the common shapes, and the fast path reads the rest as a file.

At any doubt there is no such table, and the whole file is read the plain way, which also says what is wrong with it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from catalog.domain.records import Endpoint
from routing.domain.estimate.images import HEADER_CHARACTERS, ImagePart
from routing.domain.estimate.tokens import RowExtras
from routing.domain.jsonl import fast
from routing.domain.jsonl.compiled import HAS_IMAGES, KNOWN, PLAIN, Columns, Machine
from routing.domain.jsonl.rare import RawTexts
from routing.domain.jsonl.table import FileLimits, RowTable
from routing.domain.jsonl.texts import image_part
from routing.domain.parameters.needs import PlainRow

# by the bits of rows.c
_ENDPOINTS = {1: Endpoint.CHAT_COMPLETIONS, 2: Endpoint.RESPONSES, 4: Endpoint.EMBEDDINGS}
_SHAPES = {Endpoint.CHAT_COMPLETIONS: "response_format", Endpoint.RESPONSES: "text"}
_ROLES = ("", "user", "assistant", "system", "developer", "tool", "function")
_ROLE_BITS = 3
# with more rows than this share unknown, reading them apart saves nothing
_UNKNOWN_PERCENT = 50
_LINE_FEED = b"\n"
# an address as short as this is looked at once
_REMEMBERED_BYTES = 256
# before the comma of a data URI
_HEAD_BYTES = 1_024

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownTable:
    """The rows of a file, in file order; columns as those of :class:`RowTable`.

    ``columns`` are the pass's own, and ``patterns`` what its plain rows may ask by. ``extras`` are by row. ``rest`` has
    the rows that it does not know, as a file of their own; ``rest_rows`` are their numbers, ascending. ``machine``
    still holds the file.
    """

    body: bytes
    machine: Machine
    endpoint: Endpoint
    columns: Columns
    patterns: tuple[PlainRow, ...]
    model_names: tuple[str, ...]
    model_indexes: npt.NDArray[np.int32]
    extras: dict[int, RowExtras]
    rest: RowTable | None
    rest_rows: Rows

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.columns)

    @property
    def offsets(self) -> Rows:
        """Where each row's line begins, in bytes."""
        return self.columns["offset"].astype(np.int64)

    @property
    def lengths(self) -> Rows:
        """Bytes of each row's line, without its end."""
        return self.columns["length"].astype(np.int64)

    @property
    def lines(self) -> Rows:
        """Physical lines, from 1."""
        return self.columns["line"].astype(np.int64)

    @property
    def custom_ids(self) -> Sequence[str]:
        """What the customer calls the rows."""
        ids = [text.decode() for text in _known_ids(self.body, self.columns)]
        if self.rest is not None:
            for row, custom_id in zip(self.rest_rows.tolist(), self.rest.custom_ids, strict=True):
                ids[row] = custom_id
        return ids

    def are_known(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Say which rows the pass knows."""
        are_known: npt.NDArray[np.bool_] = (self.columns["flags"][rows] & KNOWN) != 0
        return are_known

    def patterns_of(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Give which pattern each of some rows has; -1 for a row that is not plain."""
        columns = self.columns[rows]
        which: npt.NDArray[np.int32] = np.where(columns["flags"] & PLAIN, columns["pattern"], -1)
        return which


def read_rows(body: bytes, limits: FileLimits, machine: Machine) -> KnownTable | None:
    """Read a file; None where it must be read the plain way."""
    found = machine.read(body, maximum_rows=limits.maximum_rows)
    if found is None:
        return None
    columns = found.columns
    if not len(columns) or len(columns) > limits.maximum_rows or columns["length"].max() > limits.maximum_row_bytes:
        return None
    are_known = (columns["flags"] & KNOWN) != 0
    endpoints = columns["endpoint"][are_known]
    if 100 * len(endpoints) < (100 - _UNKNOWN_PERCENT) * len(columns) or (endpoints != endpoints[0]).any():
        return None
    known = KnownTable(
        body=body,
        machine=machine,
        endpoint=_ENDPOINTS[int(endpoints[0])],
        columns=columns,
        patterns=tuple(itertools.starmap(_plain_row, found.patterns)),
        model_names=found.model_names,
        model_indexes=columns["model"].astype(np.int32),
        extras={},
        rest=None,
        rest_rows=np.flatnonzero(~are_known),
    )
    if not _read_extras(known):
        return None
    return known if are_known.all() else _with_rest(known, limits)


def _read_extras(known: KnownTable) -> bool:
    """Look at images, tools and the shapes of answers, each text once; False where one must be judged to the letter."""
    columns = known.columns
    rows = np.flatnonzero(columns["tools_bytes"] | columns["shape_bytes"])
    tools = RawTexts(name="tools", endpoint=known.endpoint)
    shapes = RawTexts(name=_SHAPES.get(known.endpoint, ""), endpoint=known.endpoint)
    rows_with: dict[bytes, list[int]] = {}
    made: dict[tuple[bytes, bytes], RowExtras] = {}
    places = (columns[name][rows].tolist() for name in ("tools_start", "tools_bytes", "shape_start", "shape_bytes"))
    for row, tools_start, tools_bytes, shape_start, shape_bytes in zip(rows.tolist(), *places, strict=True):
        texts = (
            known.body[tools_start : tools_start + tools_bytes],
            known.body[shape_start : shape_start + shape_bytes],
        )
        extras = made.get(texts)
        if extras is None:
            judged = [each.known(text) for each, text in zip((tools, shapes), texts, strict=True) if text]
            if not all(each.is_sure for each in judged):
                return False
            held = tools.known(texts[0]).tools if texts[0] else ()
            has_schema = bool(texts[1] and shapes.known(texts[1]).schemas)
            extras = RowExtras(tools=held, tools_key=texts[0] if held else b"", has_schema=has_schema)
            made[texts] = extras
        if extras.has_schema:
            rows_with.setdefault(texts[1], []).append(row)
        if extras.tools or extras.has_schema:
            known.extras[row] = extras
    if (columns["flags"] & HAS_IMAGES).any():
        _read_images(known)
    for text, own in rows_with.items():
        (schema,) = shapes.known(text).schemas
        known.machine.add_string(own, schema)
    return True


def _read_images(known: KnownTable) -> None:
    """Add images to their rows' extras."""
    spans, found = known.machine.images()
    # rows that are not known have no spans, and begin where the next one does
    rows = np.searchsorted(known.columns["span_first"], spans, side="right") - 1
    seen: dict[tuple[bytes, bool], ImagePart] = {}
    images: dict[int, list[ImagePart]] = {}
    for row, (start, length, is_low) in zip(rows.tolist(), found, strict=True):
        key = known.body[start : start + min(length, _REMEMBERED_BYTES + 1)], is_low
        image = seen.get(key) or _image(known.body, start, length, is_low)
        if length <= _REMEMBERED_BYTES:
            seen[key] = image
        images.setdefault(row, []).append(image)
    for row, own in images.items():
        known.extras[row] = replace(known.extras.get(row, RowExtras()), images=tuple(own))


def _image(body: bytes, start: int, length: int, is_low: bool) -> ImagePart:  # noqa: FBT001 -- as the machine has it
    """Give an image; of its address no more is looked at than may tell a size."""
    has_short_head = b"," in body[start : start + min(length, _HEAD_BYTES)]
    looked_at_bytes = min(length, _HEAD_BYTES + HEADER_CHARACTERS) if has_short_head else length
    # a character that is cut through lies behind all that is looked at
    url = body[start : start + looked_at_bytes].decode(errors="ignore")
    return image_part(url, "low" if is_low else None)


def _with_rest(known: KnownTable, limits: FileLimits) -> KnownTable | None:
    """Read the rows that the pass does not know; None where anything about them is doubtful."""
    body, columns = known.body, known.columns
    lines = columns[known.rest_rows]
    places = zip(lines["offset"].tolist(), lines["length"].tolist(), strict=True)
    try:
        # behind a line feed, for a mark of byte order counts at a file's very beginning alone
        rest = fast.read_rows(
            _LINE_FEED + _LINE_FEED.join([body[start : start + length] for start, length in places]), limits
        )
    except fast.Trouble:
        return None
    own_ids = {custom_id.encode() for custom_id in rest.custom_ids}
    if (
        rest.endpoint is not known.endpoint
        or len(rest) != len(known.rest_rows)
        or not own_ids.isdisjoint(_known_ids(body, columns))
    ):
        return None
    return _in_file_order(known, rest)


def _in_file_order(known: KnownTable, rest: RowTable) -> KnownTable:
    """Put the rest among the known rows, and the names in the order in which the file first has them."""
    columns = known.columns.copy()
    names = [*dict.fromkeys((*known.model_names, *rest.model_names))]
    place_of = {name: place for place, name in enumerate(names)}
    indexes = columns["model"].astype(np.int32)
    indexes[known.rest_rows] = np.array([place_of[name] for name in rest.model_names], dtype=np.int32)[
        rest.model_indexes
    ]
    # a name of an unknown row may have been met by the pass before it gave that row up
    used, firsts = np.unique(indexes, return_index=True)
    order = used[np.argsort(firsts)]
    place = np.zeros(len(names), dtype=np.int32)
    place[order] = np.arange(len(order))
    for column, values in (
        ("limit", rest.limits),
        ("choices", rest.choices),
        ("message_count", rest.message_counts),
    ):
        columns[column][known.rest_rows] = values
    extras = known.extras | {int(known.rest_rows[place]): extras for place, extras in rest.extras.items()}
    return KnownTable(
        body=known.body,
        machine=known.machine,
        endpoint=known.endpoint,
        columns=columns,
        patterns=known.patterns,
        model_names=tuple(names[index] for index in order.tolist()),
        model_indexes=place[indexes],
        extras=dict(sorted(extras.items())),
        rest=rest,
        rest_rows=known.rest_rows,
    )


def _known_ids(body: bytes, columns: Columns) -> list[bytes]:
    """Give the ids as they stand in the file; empty for rows that are not known."""
    starts = columns["id_start"].tolist()
    stops = (columns["id_start"] + columns["id_bytes"]).tolist()
    return [body[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _plain_row(packed: int, temperature: float) -> PlainRow:
    roles = []
    while packed > 1:
        roles.append(_ROLES[packed & ((1 << _ROLE_BITS) - 1)])
        packed >>= _ROLE_BITS
    return PlainRow(roles=tuple(roles), temperature=None if math.isnan(temperature) else temperature)
