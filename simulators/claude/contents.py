"""The verdict on the messages and the system prompt of a request."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simulators.claude.refusals import (
    Json,
    RefusedError,
    refuse_unknown,
    take_choice,
    take_list,
    take_object,
    take_text,
)

_MEDIA_MAGIC: Mapping[str, bytes] = {
    "image/jpeg": b"\xff\xd8\xff",
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_MAX_IMAGE_BYTES = 5_242_880
_MAX_CACHE_BREAKPOINTS = 4
_TOOL_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
_ROLES = ("user", "assistant")
_USER_TAGS = ("text", "image", "document", "search_result", "tool_result")
_ASSISTANT_TAGS = ("text", "document", "tool_use", "thinking", "redacted_thinking")
_RESULT_TAGS = ("text", "image", "document", "search_result")
_BLOCK_MEMBERS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "document": frozenset({"type", "source", "title", "context", "citations", "cache_control"}),
    "search_result": frozenset({"type", "source", "title", "content", "citations", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "caller", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRules:
    """What depends on the API version and the model."""

    assistant_documents: bool
    user_citations: bool
    prefill: bool


def require_system(params: Json) -> None:
    """Refuse a system prompt that is neither a text nor a list of text blocks."""
    system = params.get("system")
    if system is None or isinstance(system, str):
        return
    for index, block in enumerate(take_list(params, "system") or ()):
        _require_block(block, ("text",), f"system.{index}")


def require_messages(params: Json, rules: ContentRules) -> None:
    """Refuse messages of a wrong shape, tool calls without results, and empty texts; roles need not alternate."""
    messages = take_list(params, "messages", required=True) or ()
    if not messages:
        raise RefusedError("messages: at least one message is required")
    checked = [_require_message(message, index, len(messages), rules) for index, message in enumerate(messages)]
    _require_tool_results(checked)
    last = checked[-1]
    if last["role"] == "assistant":
        if not rules.prefill:
            message = (
                "This model does not support assistant message prefill. The conversation must end with a user message."
            )
            raise RefusedError(message)
        if _text_of(last.get("content")) != _text_of(last.get("content")).rstrip():
            raise RefusedError("messages: final assistant content cannot end with trailing whitespace")


def require_cache_breakpoints(blocks: Sequence[Json]) -> None:
    """Refuse more cache breakpoints among `blocks` than a request may have."""
    count = sum(1 for block in blocks if block.get("cache_control") is not None)
    if count > _MAX_CACHE_BREAKPOINTS:
        message = f"A maximum of {_MAX_CACHE_BREAKPOINTS} blocks with cache_control may be provided. Found {count}."
        raise RefusedError(message)


def require_cache_control(owner: Json, path: str) -> None:
    """Refuse a cache marker of a wrong shape."""
    control = take_object(owner, "cache_control", path)
    if control is not None:
        refuse_unknown(control, ("type", "ttl"), f"{path}cache_control.")
        take_choice(control, "type", ("ephemeral",), f"{path}cache_control.", required=True)
        take_choice(control, "ttl", ("5m", "1h"), f"{path}cache_control.")


def blocks_of(message: Json) -> Iterator[Json]:
    """The content blocks of a message; a text is a list of one text block."""
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _require_message(message: object, index: int, count: int, rules: ContentRules) -> Json:
    path = f"messages.{index}."
    if not isinstance(message, dict):
        raise RefusedError(f"messages.{index}: Input should be a valid dictionary")
    refuse_unknown(message, ("role", "content"), path)
    if message.get("role") == "system":
        raise RefusedError(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" '
            "as an input message role."
        )
    role = take_choice(message, "role", _ROLES, path, required=True)
    if "content" not in message:
        raise RefusedError(f"{path}content: Field required")
    content = message["content"]
    if not isinstance(content, str | list):
        raise RefusedError(f"{path}content: Input should be a valid string or list")
    if not content and not (role == "assistant" and index == count - 1):
        raise RefusedError(
            f"messages.{index}: all messages must have non-empty content except for the optional final assistant "
            "message"
        )
    tags = _USER_TAGS if role == "user" else _ASSISTANT_TAGS
    for number, block in enumerate(content if isinstance(content, list) else ()):
        tag = _require_block(block, tags, f"{path}content.{number}")
        if tag == "document" and role == "assistant" and not rules.assistant_documents:
            raise RefusedError(f"{path}content.{number}: document blocks are not permitted in assistant messages")
        if tag == "text" and role == "user" and block.get("citations") and not rules.user_citations:
            raise RefusedError(f"{path}content.{number}.text.citations: citations are not permitted in user messages")
    return message


def _require_block(block: object, tags: tuple[str, ...], place: str) -> str:
    """Refuse a block of a wrong shape; gives its type."""
    if not isinstance(block, dict):
        raise RefusedError(f"{place}: Input should be a valid dictionary")
    tag = take_text(block, "type", f"{place}.")
    if tag not in tags:
        expected = ", ".join(f"'{each}'" for each in tags)
        raise RefusedError(
            f"{place}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
        )
    path = f"{place}.{tag}."
    refuse_unknown(block, _BLOCK_MEMBERS[tag], path)
    require_cache_control(block, path)
    if tag == "text":
        if not take_text(block, "text", path).strip():
            raise RefusedError("messages: text content blocks must contain non-whitespace text")
    elif tag == "image":
        _require_image(take_object(block, "source", path, required=True) or {}, f"{path}source.")
    elif tag == "document":
        take_object(block, "source", path, required=True)
    elif tag == "tool_use":
        _require_tool_id(take_text(block, "id", path), f"{path}id")
        take_text(block, "name", path)
        take_object(block, "input", path, required=True)
    elif tag == "tool_result":
        _require_tool_id(take_text(block, "tool_use_id", path), f"{path}tool_use_id")
        _require_result_content(block, path)
    elif tag == "thinking":
        take_text(block, "thinking", path)
        take_text(block, "signature", path)
    return tag


def _require_result_content(block: Json, path: str) -> None:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    for number, part in enumerate(take_list(block, "content", path) or ()):
        _require_block(part, _RESULT_TAGS, f"{path}content.{number}")


def _require_image(source: Json, path: str) -> None:
    kind = take_choice(source, "type", ("base64", "url", "file"), path, required=True)
    if kind == "url":
        url = take_text(source, "url", f"{path}url.")
        if not url.startswith(("http://", "https://")):
            raise RefusedError(f"{path}url.url: Only HTTPS URLs are supported.")
    if kind != "base64":
        return
    path = f"{path}base64."
    refuse_unknown(source, ("type", "media_type", "data"), path)
    media_type = take_choice(source, "media_type", tuple(_MEDIA_MAGIC), path, required=True)
    try:
        content = base64.b64decode(take_text(source, "data", path), validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedError(f"{path}data: invalid base64 data") from error
    if len(content) > _MAX_IMAGE_BYTES:
        raise RefusedError(f"{path}data: image exceeds 5 MB maximum: {len(content)} bytes > {_MAX_IMAGE_BYTES} bytes")
    found = next((name for name, magic in _MEDIA_MAGIC.items() if content.startswith(magic)), None)
    if found is None:
        raise RefusedError("Could not process image")
    if found != media_type:
        raise RefusedError(
            f"{path}data: Image does not match the provided media type {media_type}: it appears to be {found}"
        )


def _require_tool_id(tool_id: str, place: str) -> None:
    if not _TOOL_ID.match(tool_id):
        raise RefusedError(f"{place}: String should match pattern '{_TOOL_ID.pattern}'")


def _require_tool_results(messages: Sequence[Json]) -> None:
    """Each call must be answered in the next turn and each answer must have its call; equal roles make one turn."""
    called: list[str] = []
    index = 0
    while index < len(messages):
        stop, role = index, messages[index]["role"]
        blocks: list[Json] = []
        while stop < len(messages) and messages[stop]["role"] == role:
            blocks += blocks_of(messages[stop])
            stop += 1
        answered = [str(block["tool_use_id"]) for block in blocks if block.get("type") == "tool_result"]
        unexpected = [each for each in answered if each not in called]
        if unexpected:
            raise RefusedError(
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(unexpected)}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        missing = [each for each in called if each not in answered]
        if missing:
            raise RefusedError(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        called = [str(block["id"]) for block in blocks if block.get("type") == "tool_use"]
        index = stop


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    last = content[-1] if isinstance(content, list) and content else None
    text = last.get("text") if isinstance(last, dict) else None
    return text if isinstance(text, str) else ""
