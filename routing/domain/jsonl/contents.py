"""The rules of messages, content parts, tools, responses input and embeddings input."""

from __future__ import annotations

from typing import Any

from catalog.domain.records import Endpoint
from routing.domain.jsonl.faults import DuplicateNames, Json, duplicate_name, fail, require_type

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
IMAGE_PARTS = frozenset({"image_url", "input_image"})
REFUSAL_PARTS = frozenset({"refusal"})
UNPRICED_PARTS = frozenset({"input_audio", "file", "input_file"})
IMAGE_SCHEMES = ("https://", "http://", "data:image/")
MAXIMUM_EMBEDDING_INPUTS = 2_048
MAXIMUM_EMBEDDING_TEXT_TOKENS = 8_192
MAXIMUM_EMBEDDING_REQUEST_TOKENS = 300_000
# no vocabulary makes ordinary text this long out of so few tokens: a text over it cannot fit
MAXIMUM_EMBEDDING_TEXT_BYTES = MAXIMUM_EMBEDDING_TEXT_TOKENS * 16
EMBEDDING_LIMITS = (
    f"At most {MAXIMUM_EMBEDDING_INPUTS} inputs and {MAXIMUM_EMBEDDING_REQUEST_TOKENS} tokens a request, "
    f"and {MAXIMUM_EMBEDDING_TEXT_TOKENS} tokens a text."
)


def check_messages(messages: Json) -> None:
    """Check chat messages: a list, not empty, of objects with a role and content of the right types."""
    require_type(messages, list, "body.messages", "a list")
    if not messages:
        fail("invalid_value", "body.messages is empty; it needs at least one message.", "body.messages")
    for index, message in enumerate(messages):
        _check_message(message, f"body.messages[{index}]")


def check_response_input(value: Json) -> None:
    """Check the input of a responses row: a string, or a list of messages, calls and call outputs."""
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        fail("invalid_type", "body.input must be a string or a list.", "body.input")
    if not value:
        fail("invalid_value", "body.input is empty.", "body.input")
    for index, item in enumerate(value):
        _check_item(item, f"body.input[{index}]")


def check_embedding_input(value: Json) -> None:
    """Check the input of an embeddings row: a string, strings, a token list or token lists, within both limits."""
    if isinstance(value, str):
        _check_embedding_text(value)
        return
    if not isinstance(value, list):
        fail("invalid_type", "body.input must be a string or a list.", "body.input")
    if not value:
        fail("invalid_value", "body.input is empty.", "body.input")
    if _is_token_list(value):
        _check_token_lists([value])
        return
    if len(value) > MAXIMUM_EMBEDDING_INPUTS:
        fail("too_many_inputs", f"body.input has {len(value)} inputs. {EMBEDDING_LIMITS}", "body.input")
    if all(isinstance(item, str) for item in value):
        for item in value:
            _check_embedding_text(item)
    elif all(isinstance(item, list) and item and _is_token_list(item) for item in value):
        _check_token_lists(value)
    else:
        fail("invalid_type", "body.input must hold only strings, only tokens or only token lists.", "body.input")


def check_tools(tools: Json, param: str, endpoint: Endpoint) -> None:
    """Check that tools are a list of objects; on responses only functions, for other tools cost what no row tells."""
    if tools is None:
        return
    require_type(tools, list, param, "a list")
    for index, tool in enumerate(tools):
        require_type(tool, dict, f"{param}[{index}]", "an object")
        if endpoint is Endpoint.RESPONSES and tool.get("type") != "function":
            fail("unsupported_parameter", f"{param}[{index}]: only function tools are supported.", param)


def _check_message(message: Json, param: str) -> None:
    require_type(message, dict, param, "an object")
    if isinstance(message, DuplicateNames):
        duplicate_name(message, param)
    _check_role(message, param)
    is_answer = message["role"] == "assistant"
    _check_tool_calls(message.get("tool_calls"), f"{param}.tool_calls")
    if message.get("content") is None:
        speaks_otherwise = message.get("tool_calls") or message.get("function_call") or message.get("refusal")
        if is_answer and speaks_otherwise:
            return
        if "content" not in message:
            fail("missing_required_parameter", f"{param}.content is missing.", f"{param}.content")
    _check_content(message["content"], f"{param}.content")


def _check_item(item: Json, param: str) -> None:
    require_type(item, dict, param, "an object")
    if isinstance(item, DuplicateNames):
        duplicate_name(item, param)
    kind = item.get("type", "message")
    if kind == "message":
        _check_role(item, param)
        if "content" not in item:
            fail("missing_required_parameter", f"{param}.content is missing.", f"{param}.content")
        _check_content(item["content"], f"{param}.content")
    elif kind == "function_call":
        _check_strings(item, ("name", "arguments"), param)
    elif kind == "function_call_output":
        _check_content(item.get("output"), f"{param}.output")
    elif kind != "reasoning":
        fail("unsupported_parameter", f"{param}: items of this type are not supported.", f"{param}.type")


def _check_role(message: dict[str, Any], param: str) -> None:
    if "role" not in message:
        fail("missing_required_parameter", f"{param}.role is missing.", f"{param}.role")
    require_type(message["role"], str, f"{param}.role", "a string")
    if message["role"] not in ROLES:
        fail("invalid_value", f"{param}.role must be one of {', '.join(sorted(ROLES))}.", f"{param}.role")


def _check_content(content: Json, param: str) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        fail("invalid_type", f"{param} must be a string or a list of parts.", param)
    if not content:
        fail("invalid_value", f"{param} is empty.", param)
    for index, part in enumerate(content):
        _check_part(part, f"{param}[{index}]")


def _check_part(part: Json, param: str) -> None:
    require_type(part, dict, param, "an object")
    kind = part.get("type")
    if "type" not in part:
        fail("missing_required_parameter", f"{param}.type is missing.", f"{param}.type")
    require_type(kind, str, f"{param}.type", "a string")
    if kind in TEXT_PARTS:
        _check_strings(part, ("text",), param)
    elif kind in REFUSAL_PARTS:
        _check_strings(part, ("refusal",), param)
    elif kind in IMAGE_PARTS:
        _check_image(part, kind, param)
    elif kind in UNPRICED_PARTS:
        fail("unsupported_parameter", f"{param}: parts of type {kind} are not supported here.", f"{param}.type")
    else:
        fail("invalid_value", f"{param}.type is not a part type of this endpoint.", f"{param}.type")


def _check_image(part: dict[str, Any], kind: str, param: str) -> None:
    holder, param = (part, param) if kind == "input_image" else (part.get("image_url"), f"{param}.image_url")
    name = "image_url" if kind == "input_image" else "url"
    require_type(holder, dict, param, "an object")
    assert isinstance(holder, dict), "require_type has just said so"
    if name not in holder:
        fail("missing_required_parameter", f"{param}.{name} is missing.", f"{param}.{name}")
    require_type(holder[name], str, f"{param}.{name}", "a string")
    if not holder[name].startswith(IMAGE_SCHEMES):
        fail("invalid_value", f"{param}.{name} must be an https, http or data:image URL.", f"{param}.{name}")
    if holder.get("detail") not in (None, "auto", "low", "high"):
        fail("invalid_value", f"{param}.detail must be auto, low or high.", f"{param}.detail")


def _check_tool_calls(calls: Json, param: str) -> None:
    if calls is None:
        return
    require_type(calls, list, param, "a list")
    for index, call in enumerate(calls):
        require_type(call, dict, f"{param}[{index}]", "an object")
        function = call.get("function", call.get("custom"))
        require_type(function, dict, f"{param}[{index}].function", "an object")


def _check_strings(holder: dict[str, Any], names: tuple[str, ...], param: str) -> None:
    for name in names:
        if name not in holder:
            fail("missing_required_parameter", f"{param}.{name} is missing.", f"{param}.{name}")
        require_type(holder[name], str, f"{param}.{name}", "a string")


def _is_token_list(value: list[Any]) -> bool:
    return all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value)


def _check_embedding_text(text: str) -> None:
    if not text:
        fail("invalid_value", "body.input holds an empty text.", "body.input")
    if len(text.encode()) > MAXIMUM_EMBEDDING_TEXT_BYTES:
        fail("too_many_inputs", f"body.input holds a text that is too long. {EMBEDDING_LIMITS}", "body.input")


def _check_token_lists(lists: list[list[int]]) -> None:
    longest, total = max(map(len, lists)), sum(map(len, lists))
    if longest > MAXIMUM_EMBEDDING_TEXT_TOKENS or total > MAXIMUM_EMBEDDING_REQUEST_TOKENS:
        fail(
            "too_many_inputs", f"body.input has {total} tokens, {longest} in one text. {EMBEDDING_LIMITS}", "body.input"
        )
