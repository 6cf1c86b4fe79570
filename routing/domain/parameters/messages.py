"""What a row's messages ask of a lane: who speaks, in which order, and parts that are not text."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from routing.domain.parameters.table import Need

INSTRUCTION_ROLES = frozenset({"system", "developer"})
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PLAIN_NAMES = frozenset({"role", "content"})
_KNOWN_NAMES = _PLAIN_NAMES | {"name", "tool_calls", "tool_call_id", "refusal"}
_BASE64_MARK = ";base64,"
_QUOTE = 0x22
_BLANK_BYTE = 0x20
_QUOTE_AND_BACKSLASH = (_QUOTE, 0x5C)
_OPENING = (_QUOTE,)
_SHOWN_NAME_CHARACTERS = 64
_NULL = Raw(b"null")
_NOTHING = (b"null", b"[]")

_ENDS_WITH_ANSWER = Need("messages", "an assistant message at the end")
_ONLY_INSTRUCTIONS = Need("messages", "instructions only")
_LATE_INSTRUCTIONS = Need("messages", "instructions after the first turn")
_FUNCTION_ROLE = Need("messages", "function messages")
_BLANK = Need("messages", "a blank message")
_NAMED = Need("messages.name")
_CUSTOM_CALL = Need("messages.tool_calls", "custom tools")
_ODD_CALL = Need("messages.tool_calls", "arguments that are no JSON object")
_DETAIL = Need("messages.image_url.detail")
_LINKED_IMAGE = Need("messages.image_url", "https")
_ODD_IMAGE = Need("messages.image_url", "neither https nor base64 of JPEG, PNG, GIF or WebP")
_MISPLACED_IMAGE = Need("messages.image_url", "outside user and tool messages")
_CACHE_MARK = Need("messages.cache_control")
_STRANGE_PART = Need("messages.content", "unknown")


class Function(msgspec.Struct, gc=False):
    """What a call calls, and its arguments as the text of a JSON object."""

    name: str = ""
    arguments: str = ""


class ToolCall(msgspec.Struct):
    """One call the assistant made before."""

    id: str = ""
    type: str = "function"
    function: Function = msgspec.field(default_factory=Function)


class ImageUrl(msgspec.Struct, gc=False):
    """Where an image is."""

    url: str = ""
    detail: str | None = None


class Part(msgspec.Struct):
    """One part of a message's content."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: ImageUrl | None = None
    cache_control: Raw | UnsetType = UNSET


_byte_at = struct.Struct("B").unpack_from
decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
decode_calls = msgspec.json.Decoder(list[ToolCall]).decode
decode_parts = msgspec.json.Decoder(list[Part]).decode
decode_text = msgspec.json.Decoder(str).decode
decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def needs_of_roles(roles: Sequence[str]) -> Iterator[Need]:
    """Give what the order of the speakers asks."""
    is_turn = [role not in INSTRUCTION_ROLES for role in roles]
    if True not in is_turn:
        yield _ONLY_INSTRUCTIONS
    elif False in is_turn[is_turn.index(True) :]:
        yield _LATE_INSTRUCTIONS
    turns = [role for role in roles if role not in INSTRUCTION_ROLES]
    if turns and turns[-1] == "assistant":
        yield _ENDS_WITH_ANSWER
    if "function" in roles:
        yield _FUNCTION_ROLE


def is_plain(message: Mapping[str, Raw]) -> bool:
    """Tell whether a message is surely nothing but text that is not blank, by its first byte."""
    if len(message) != len(_PLAIN_NAMES) or "content" not in message:
        return False
    content = message["content"]
    if _byte_at(content, 0) != _OPENING:
        return False
    (first,) = _byte_at(content, 1)
    return bool(first > _BLANK_BYTE and first not in _QUOTE_AND_BACKSLASH)


def needs_of_message(message: Mapping[str, Raw]) -> Iterator[Need]:
    """Give what a message asks that is not plain; it has passed the quote's own checks."""
    role = decode_text(message["role"])
    speaks = role in INSTRUCTION_ROLES or role == "tool" or "tool_calls" in message
    yield from _content(role, message.get("content", _NULL), speaks=speaks)
    yield from _other_names(role, message)


def image_source(url: str) -> tuple[str, str] | None:
    """Give media type and base64 text of a data URL that Claude can take; None for every other URL."""
    head, mark, encoded = url.partition(_BASE64_MARK)
    media_type = head.removeprefix("data:").lower()
    return (media_type, encoded) if mark and media_type in IMAGE_TYPES else None


def shown_name(name: str) -> str:
    """Give a name that a customer chose, fit for a message."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name[:_SHOWN_NAME_CHARACTERS])


def _content(role: str, content: Raw, *, speaks: bool) -> Iterator[Need]:
    """Give what one content asks; ``speaks`` tells of a message that need not hold text."""
    if memoryview(content)[0] == _QUOTE:
        if not speaks and not decode_text(content).strip():
            yield _BLANK
        return
    if bytes(content) in _NOTHING:
        return
    try:
        parts = decode_parts(content)
    except msgspec.ValidationError:
        yield _STRANGE_PART
        return
    for part in parts:
        yield from _part(role, part)
    texts = (part.text or part.refusal for part in parts)
    if not speaks and not any(part.image_url for part in parts) and not any(map(str.strip, texts)):
        yield _BLANK


def _part(role: str, part: Part) -> Iterator[Need]:
    if part.cache_control is not UNSET:
        yield _CACHE_MARK
    if part.type == "image_url" and part.image_url:
        if role not in {"user", "tool"}:
            yield _MISPLACED_IMAGE
        if part.image_url.detail in {"low", "high"}:
            yield _DETAIL
        if part.image_url.url.startswith("https://"):
            yield _LINKED_IMAGE
        elif image_source(part.image_url.url) is None:
            yield _ODD_IMAGE
    elif part.type not in {"text", "refusal"}:
        yield _STRANGE_PART


def _other_names(role: str, message: Mapping[str, Raw]) -> Iterator[Need]:
    for name in message.keys() - _PLAIN_NAMES:
        value = bytes(message[name])
        if value == b"null":
            continue
        if name == "name":
            # The name of a tool is in its call too.
            if role not in {"tool", "function"}:
                yield _NAMED
        elif name == "tool_calls":
            yield from _calls(message[name])
        elif name not in _KNOWN_NAMES:
            yield Need(f"messages.{shown_name(name)}", "unknown")


def _calls(raw: Raw) -> Iterator[Need]:
    try:
        calls = decode_calls(raw)
    except msgspec.ValidationError:
        yield _CUSTOM_CALL
        return
    for call in calls:
        if call.type != "function":
            yield _CUSTOM_CALL
            continue
        try:
            decode_object(call.function.arguments or "{}")
        except (msgspec.DecodeError, RecursionError):
            yield _ODD_CALL
