"""What a row of each endpoint decodes to, and its contents: typed, with text left raw, in one call for a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from typing import Literal as Choice

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Raw, UnsetType

from catalog.domain.records import Endpoint
from routing.domain.jsonl.checks import MAXIMUM_CHOICES, MAXIMUM_CUSTOM_ID_CHARACTERS, MAXIMUM_LIMIT_TOKENS
from routing.domain.jsonl.contents import MAXIMUM_EMBEDDING_INPUTS
from routing.domain.jsonl.lines import BYTE_ORDER_MARK, QUOTE, Lines

# names and values outside contents that every row has: custom_id, method and url with their values, body, model with
# its value, messages or input
ROW_STRINGS = 10
MESSAGE_STRINGS = 3
BRACKET = 0x5B

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MAXIMUM_CUSTOM_ID_CHARACTERS)]
_Tokens = Annotated[int, msgspec.Meta(ge=1, le=MAXIMUM_LIMIT_TOKENS)]
_Role = Choice["system", "developer", "user", "assistant", "tool", "function"]


class Message(msgspec.Struct, gc=False):
    """A chat message."""

    role: _Role
    content: Raw


class Item(msgspec.Struct, gc=False):
    """A message of a responses row."""

    role: _Role
    content: Raw
    type: Choice["message"] | UnsetType = UNSET


class _Body(msgspec.Struct, gc=False, kw_only=True):
    """Names that all endpoints take; raw ones are not checked by anyone, or once for each text they have."""

    model: str
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | UnsetType | None = UNSET
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | UnsetType | None = UNSET
    stream: bool | UnsetType | None = UNSET
    tools: Raw | UnsetType = UNSET
    tool_choice: Raw | UnsetType = UNSET
    parallel_tool_calls: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    store: Raw | UnsetType = UNSET
    service_tier: Raw | UnsetType = UNSET
    user: Raw | UnsetType = UNSET


class _ChatBody(_Body, gc=False, kw_only=True):
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_tokens: _Tokens | UnsetType | None = UNSET
    max_completion_tokens: _Tokens | UnsetType | None = UNSET
    n: Annotated[int, msgspec.Meta(ge=1, le=MAXIMUM_CHOICES)] | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET
    presence_penalty: float | UnsetType | None = UNSET
    frequency_penalty: float | UnsetType | None = UNSET
    stop: Raw | UnsetType = UNSET
    response_format: Raw | UnsetType = UNSET
    reasoning_effort: Raw | UnsetType = UNSET
    logprobs: Raw | UnsetType = UNSET
    top_logprobs: Raw | UnsetType = UNSET


class _ResponsesBody(_Body, gc=False, kw_only=True):
    input: Raw
    instructions: Raw | UnsetType = UNSET
    max_output_tokens: _Tokens | UnsetType | None = UNSET
    text: Raw | UnsetType = UNSET
    reasoning: Raw | UnsetType = UNSET


class _EmbeddingsBody(_Body, gc=False, kw_only=True):
    input: Raw
    dimensions: Raw | UnsetType = UNSET
    encoding_format: Raw | UnsetType = UNSET


Body = _ChatBody | _ResponsesBody | _EmbeddingsBody


class _ChatRow(msgspec.Struct, gc=False):
    custom_id: _Id
    method: Choice["POST"]
    url: Choice["/v1/chat/completions"]
    body: _ChatBody


class _ResponsesRow(msgspec.Struct, gc=False):
    custom_id: _Id
    method: Choice["POST"]
    url: Choice["/v1/responses"]
    body: _ResponsesBody


class _EmbeddingsRow(msgspec.Struct, gc=False):
    custom_id: _Id
    method: Choice["POST"]
    url: Choice["/v1/embeddings"]
    body: _EmbeddingsBody


Row = _ChatRow | _ResponsesRow | _EmbeddingsRow
_NO_STRING = Raw(b'""')


@dataclass(frozen=True, slots=True, kw_only=True)
class RowType:
    """The rows of one endpoint: names looked at in every row, and what stands where a row is not of this type."""

    endpoint: Endpoint
    decoder: msgspec.json.Decoder[Row]
    limit_name: str | None
    common_names: tuple[str, ...]
    rare_names: tuple[str, ...]
    missing: Row


# in the order in which files are likeliest to hold them: a file is read once all its quotes are explained
_OFTEN = ("tools", "response_format", "text", "top_p", "seed", "max_completion_tokens", "n", "stop", "user")


def _rarity(name: str) -> tuple[int, str]:
    return (_OFTEN.index(name) if name in _OFTEN else len(_OFTEN)), name


def _row_type(row: type[Row], body: type[Body], limit_name: str | None, missing: Row, *handled: str) -> RowType:
    common = tuple(name for name in (limit_name, "temperature") if name)
    return RowType(
        endpoint=Endpoint(missing.url),
        decoder=msgspec.json.Decoder(row),
        limit_name=limit_name,
        common_names=common,
        rare_names=tuple(sorted({*body.__struct_fields__} - {"model", *common, *handled}, key=_rarity)),
        missing=missing,
    )


ROW_TYPES = {
    kind.endpoint: kind
    for kind in (
        _row_type(
            _ChatRow,
            _ChatBody,
            "max_tokens",
            _ChatRow("-", "POST", "/v1/chat/completions", _ChatBody(model="-", messages=[])),
            "messages",
        ),
        _row_type(
            _ResponsesRow,
            _ResponsesBody,
            "max_output_tokens",
            _ResponsesRow("-", "POST", "/v1/responses", _ResponsesBody(model="-", input=_NO_STRING)),
            *("input", "instructions"),
        ),
        _row_type(
            _EmbeddingsRow,
            _EmbeddingsBody,
            None,
            _EmbeddingsRow("-", "POST", "/v1/embeddings", _EmbeddingsBody(model="-", input=_NO_STRING)),
            "input",
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of all rows end to end, how many each row has, and what else each row's messages hold.

    ``message_strings`` counts names and values of messages beside contents; ``odd`` rows could not be read.
    """

    flat: list[Raw]
    counts: npt.NDArray[np.int64]
    message_counts: npt.NDArray[np.int64]
    message_strings: npt.NDArray[np.int64]
    odd: set[int]


def decode_rows(lines: Lines, kind: RowType) -> tuple[list[Row], set[int]]:
    """Decode a file; rows that are not of the type come as ``missing`` and are named.

    Raises:
        msgspec.DecodeError: A line is not valid JSON, or more than one value.
    """
    view = memoryview(lines.body)[len(BYTE_ORDER_MARK) if lines.body.startswith(BYTE_ORDER_MARK) else 0 :]
    odd: set[int] = set()
    try:
        rows = kind.decoder.decode_lines(view)
    except msgspec.ValidationError:
        rows = [_decode_one(lines.text(row), kind) for row in range(len(lines))]
        odd.update(row for row, decoded in enumerate(rows) if decoded is kind.missing)
    if len(rows) != len(lines):
        raise msgspec.DecodeError
    return rows, odd


def _decode_one(line: bytes, kind: RowType) -> Row:
    try:
        return kind.decoder.decode(line)
    except msgspec.ValidationError:
        return kind.missing


def read_contents(bodies: Sequence[Any], endpoint: Endpoint) -> Contents:
    """Give what the rows' messages or inputs hold."""
    if endpoint is Endpoint.CHAT_COMPLETIONS:
        counts = np.fromiter([len(body.messages) for body in bodies], dtype=np.int64, count=len(bodies))
        return Contents(
            flat=[message.content for body in bodies for message in body.messages],
            counts=counts,
            message_counts=counts,
            message_strings=MESSAGE_STRINGS * counts,
            odd=set(),
        )
    inputs = [body.input for body in bodies]
    notes = [] if endpoint is Endpoint.EMBEDDINGS else [body.instructions for body in bodies]
    given = [note for note in notes if note is not UNSET]
    if not (are_strings(inputs).all() and are_strings(given).all()):
        return _read_inputs(bodies, _read_responses if endpoint is Endpoint.RESPONSES else _read_embeddings)
    if endpoint is Endpoint.EMBEDDINGS:
        none = np.zeros(len(bodies), dtype=np.int64)
        return Contents(flat=inputs, counts=none + 1, message_counts=none, message_strings=none, odd=set())
    flat: list[Raw] = []
    for text, note in zip(inputs, notes, strict=True):
        flat += (text,) if note is UNSET else (text, note)
    has_note = np.fromiter([note is not UNSET for note in notes], dtype=np.int64, count=len(notes))
    return Contents(flat=flat, counts=1 + has_note, message_counts=1 + has_note, message_strings=has_note, odd=set())


def are_strings(raws: Sequence[Raw]) -> npt.NDArray[np.bool_]:
    """Say which raw values are strings, by their first bytes."""
    if not raws:
        return np.ones(0, dtype=bool)
    lengths = np.fromiter(map(len, raws), dtype=np.int64, count=len(raws))
    codes = np.frombuffer(b"".join(raws), dtype=np.uint8)
    begins: npt.NDArray[np.bool_] = codes[np.cumsum(lengths) - lengths] == QUOTE
    return begins


def _read_inputs(bodies: Sequence[Any], read: Callable[[Any, list[Raw]], tuple[int, int]]) -> Contents:
    """Read inputs one by one."""
    flat: list[Raw] = []
    found: list[tuple[int, int, int]] = []
    odd: set[int] = set()
    for row, body in enumerate(bodies):
        before = len(flat)
        try:
            message_count, string_count = read(body, flat)
        except msgspec.ValidationError:
            odd.add(row)
            del flat[before:]
            message_count = string_count = 0
        found.append((len(flat) - before, message_count, string_count))
    columns = np.array(found, dtype=np.int64).T
    return Contents(flat=flat, counts=columns[0], message_counts=columns[1], message_strings=columns[2], odd=odd)


_decode_items = msgspec.json.Decoder(Annotated[list[Item], msgspec.Meta(min_length=1)]).decode
_decode_texts = msgspec.json.Decoder(
    Annotated[list[Raw], msgspec.Meta(min_length=1, max_length=MAXIMUM_EMBEDDING_INPUTS)]
).decode


def _read_responses(body: _ResponsesBody, flat: list[Raw]) -> tuple[int, int]:
    """Add a row's contents; give its messages and the strings in them beside contents."""
    message_count, string_count = 1, 0
    if memoryview(body.input)[0] == BRACKET:
        items = _decode_items(body.input)
        flat += [item.content for item in items]
        message_count = len(items)
        string_count = MESSAGE_STRINGS * message_count + 2 * sum(item.type is not UNSET for item in items)
    else:
        flat.append(body.input)
    if body.instructions is not UNSET:
        flat.append(_string(body.instructions))
        message_count, string_count = message_count + 1, string_count + 1
    return message_count, string_count


def _read_embeddings(body: _EmbeddingsBody, flat: list[Raw]) -> tuple[int, int]:
    """Add a row's texts."""
    flat += map(_string, _decode_texts(body.input)) if memoryview(body.input)[0] == BRACKET else [_string(body.input)]
    return 0, 0


def _string(raw: Raw) -> Raw:
    """Give a string back, and refuse anything else."""
    if memoryview(raw)[0] != QUOTE:
        raise msgspec.ValidationError
    return raw
