"""The rules of a row's values, on decoded JSON. Each function raises the first fault it finds; none echoes content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.domain.records import Endpoint
from routing.domain.jsonl import contents
from routing.domain.jsonl.faults import DuplicateNames, Json, duplicate_name, fail, require_type

MAXIMUM_CUSTOM_ID_CHARACTERS = 512
MAXIMUM_CHOICES = 128
MAXIMUM_LIMIT_TOKENS = 1_000_000_000
ENDPOINTS = {endpoint.value: endpoint for endpoint in Endpoint}
LIMIT_NAMES = {
    Endpoint.CHAT_COMPLETIONS: ("max_tokens", "max_completion_tokens"),
    Endpoint.RESPONSES: ("max_output_tokens",),
    Endpoint.EMBEDDINGS: (),
}
UNPRICED_NAMES = ("web_search_options", "audio", "previous_response_id", "conversation", "prompt", "background")


def check_custom_id(row: Mapping[str, Any]) -> str:
    """Give the row's ``custom_id``: 1 to 512 characters, not blank, no NUL; blanks at its ends belong to it."""
    value = _required(row, "custom_id", "custom_id")
    require_type(value, str, "custom_id", "a string")
    if not value.strip():
        fail("invalid_value", "custom_id is blank; it needs at least one visible character.", "custom_id")
    if len(value) > MAXIMUM_CUSTOM_ID_CHARACTERS:
        allowed = f"at most {MAXIMUM_CUSTOM_ID_CHARACTERS} are allowed"
        fail("invalid_value", f"custom_id has {len(value)} characters; {allowed}.", "custom_id")
    if "\0" in value:
        fail("invalid_value", "custom_id holds a NUL character.", "custom_id")
    return str(value)


def check_envelope(row: Mapping[str, Any], file_endpoint: Endpoint | None) -> Endpoint:
    """Give the row's endpoint: method POST, a known ``url``, that of the whole file."""
    method = _required(row, "method", "method")
    require_type(method, str, "method", "a string")
    if method != "POST":
        fail("invalid_value", "method must be POST.", "method")
    url = _required(row, "url", "url")
    require_type(url, str, "url", "a string")
    endpoint = ENDPOINTS.get(url)
    if endpoint is None:
        fail("unsupported_endpoint", f"url must be one of {', '.join(ENDPOINTS)}, as it stands.", "url")
    if file_endpoint is not None and endpoint is not file_endpoint:
        fail("url_mismatch", f"url is {url}, but the file goes to {file_endpoint.value}; one endpoint a file.", "url")
    return endpoint


def check_body(row: Mapping[str, Any], endpoint: Endpoint) -> Mapping[str, Any]:
    """Give the row's ``body`` after checking everything in it that the quote relies on."""
    body: Mapping[str, Any] = _required(row, "body", "body")
    require_type(body, dict, "body", "an object")
    if isinstance(body, DuplicateNames):
        duplicate_name(body, "body")
    model = _required(body, "model", "body.model")
    require_type(model, str, "body.model", "a string")
    if not model.strip():
        fail("invalid_value", "body.model is blank.", "body.model")
    if endpoint is Endpoint.CHAT_COMPLETIONS:
        contents.check_messages(_required(body, "messages", "body.messages"))
    elif endpoint is Endpoint.RESPONSES:
        contents.check_response_input(_required(body, "input", "body.input"))
        _optional(body, "instructions", str, "a string")
    else:
        contents.check_embedding_input(_required(body, "input", "body.input"))
    _check_switches(body)
    _check_parameters(body, endpoint)
    return body


def output_limit_tokens(body: Mapping[str, Any], endpoint: Endpoint) -> int:
    """Give the output tokens the row allows, 0 where it sets no limit."""
    return next((int(body[name]) for name in LIMIT_NAMES[endpoint] if body.get(name) is not None), 0)


def choice_count(body: Mapping[str, Any], endpoint: Endpoint) -> int:
    """Give ``n``, 1 where the row or the endpoint has none."""
    return int(body.get("n") or 1) if endpoint is Endpoint.CHAT_COMPLETIONS else 1


def _check_switches(body: Mapping[str, Any]) -> None:
    """Refuse what a batch cannot do and what the row alone cannot price."""
    _optional(body, "stream", bool, "true or false")
    if body.get("stream"):
        fail("unsupported_parameter", "stream is not possible in a batch.", "body.stream")
    for name in UNPRICED_NAMES:
        if body.get(name) not in (None, False):
            fail("unsupported_parameter", f"{name} is not supported in a batch here.", f"body.{name}")
    modalities = body.get("modalities")
    if modalities is not None and modalities != ["text"]:
        fail("unsupported_parameter", "modalities other than text are not supported here.", "body.modalities")


def _check_parameters(body: Mapping[str, Any], endpoint: Endpoint) -> None:
    _number(body, "temperature", 2)
    _number(body, "top_p", 1)
    if endpoint is Endpoint.CHAT_COMPLETIONS:
        _whole(body, "n", MAXIMUM_CHOICES)
        _optional(body, "response_format", dict, "an object")
        contents.check_tools(body.get("functions"), "body.functions", Endpoint.CHAT_COMPLETIONS)
    contents.check_tools(body.get("tools"), "body.tools", endpoint)
    limits = {_whole(body, name, MAXIMUM_LIMIT_TOKENS) for name in LIMIT_NAMES[endpoint]} - {None}
    if len(limits) > 1:
        names = " and ".join(LIMIT_NAMES[endpoint])
        fail("invalid_value", f"{names} differ; send one of them.", f"body.{LIMIT_NAMES[endpoint][0]}")


def _required(holder: Mapping[str, Any], name: str, param: str) -> Json:
    if name not in holder:
        fail("missing_required_parameter", f"{param} is missing.", param)
    return holder[name]


def _optional(body: Mapping[str, Any], name: str, kind: type, wanted: str) -> None:
    if body.get(name) is not None:
        require_type(body[name], kind, f"body.{name}", wanted)


def _number(body: Mapping[str, Any], name: str, highest: int) -> None:
    value = body.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail("invalid_type", f"{name} must be a number.", f"body.{name}")
    if not 0 <= value <= highest:
        fail("invalid_value", f"{name} must be between 0 and {highest}.", f"body.{name}")


def _whole(body: Mapping[str, Any], name: str, highest: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    # A whole number of very many digits is read as a float; what is wrong with it is its size, not its kind.
    is_beyond = isinstance(value, float) and abs(value) > highest
    if isinstance(value, bool) or not (isinstance(value, int) or is_beyond):
        fail("invalid_type", f"{name} must be a whole number.", f"body.{name}")
    if not 1 <= value <= highest:
        fail("invalid_value", f"{name} must be between 1 and {highest}.", f"body.{name}")
    return int(value)
