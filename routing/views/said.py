"""What a row asked and what came back, for people: the messages' text where there are any, and the JSON as it is.

Bodies are the customer's and the provider's, so nothing here trusts their shape, and what is long is cut and said so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from ground.visible import visible

_SHOWN_CHARACTERS: Final = 100_000
_SHOWN_MESSAGES: Final = 50
# Beyond this a body is not laid out: it is cut anyway.
_LAID_OUT_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One side of a row. ``is_cut``: there is more of the JSON than is shown."""

    messages: tuple[Message, ...]
    json_text: str
    is_cut: bool
    error_message: str = ""


def asked_of(body: bytes) -> Said:
    """Give what a row's body asks."""
    return _said(body, _asked_messages(_decoded(body)))


def answered_in(line: bytes) -> Said | None:
    """Give what a row's line of the results says; None while there is no line."""
    if not line:
        return None
    members = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    error = _decoded(bytes(members.get("error", b"null")))
    response = msgspec.json.decode(members["response"], type=dict[str, msgspec.Raw] | None)
    body = bytes(response["body"]) if response and "body" in response else b"null"
    shown = body if body != b"null" else bytes(members.get("error", b"null"))
    message = _text_of(error.get("message")) if isinstance(error, dict) else ""
    return _said(shown, _answered_messages(_decoded(body)), error_message=message)


def _said(body: bytes, messages: list[Message], error_message: str = "") -> Said:
    laid_out = msgspec.json.format(body, indent=2) if len(body) <= _LAID_OUT_BYTES else body
    text = laid_out.decode(errors="replace")
    return Said(
        messages=tuple(messages[:_SHOWN_MESSAGES]),
        json_text=visible(text[:_SHOWN_CHARACTERS]),
        is_cut=len(text) > _SHOWN_CHARACTERS,
        error_message=error_message,
    )


def _decoded(body: bytes) -> Any:  # noqa: ANN401 -- whatever JSON says
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _asked_messages(body: Any) -> list[Message]:  # noqa: ANN401 -- whatever JSON says
    if not isinstance(body, dict):
        return []
    asked = body.get("messages", body.get("input"))
    if isinstance(asked, str):
        asked = [asked]
    found = []
    for each in asked if isinstance(asked, list) else []:
        role, content = (each.get("role"), each.get("content")) if isinstance(each, dict) else ("input", each)
        found.append(Message(role=_text_of(role), text=_text_of(content)))
    return [message for message in found if message.text]


def _answered_messages(body: Any) -> list[Message]:  # noqa: ANN401 -- whatever JSON says
    choices = body.get("choices") if isinstance(body, dict) else None
    found = []
    for choice in choices if isinstance(choices, list) else []:
        message = choice.get("message") if isinstance(choice, dict) else None
        if isinstance(message, dict):
            found.append(Message(role=_text_of(message.get("role")), text=_text_of(message.get("content"))))
    return [message for message in found if message.text]


def _text_of(content: Any) -> str:  # noqa: ANN401 -- whatever JSON says
    """Give the text of a content: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return visible(content[:_SHOWN_CHARACTERS])
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return visible("\n".join(part for part in parts if isinstance(part, str))[:_SHOWN_CHARACTERS])
    return ""
