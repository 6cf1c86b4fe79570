"""Chat rows as Claude's Messages requests. Pure.

A row that the table of parameters refuses is refused here too, so that nothing is ever dropped that could change an
answer. Texts, schemas and tool inputs pass as the raw JSON they were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw

from catalog.domain.records import Endpoint
from ground.errors import ProviderError
from routing.domain.parameters.judgement import first_refusal
from routing.domain.parameters.lanes import Family, claude_traits, offers
from routing.domain.parameters.messages import (
    INSTRUCTION_ROLES,
    Part,
    decode_calls,
    decode_messages,
    decode_parts,
    decode_text,
    image_source,
)
from routing.domain.parameters.needs import MAXIMUM_USER_CHARACTERS, NeedsReader
from routing.domain.parameters.schemas import can_be_kept, closed
from routing.providers.base import Fault

# The tool that stands for an answer's schema where a model cannot be held to one; no customer's tool is called so.
ANSWER_TOOL = "lanehouse_json_answer"
_LIMIT_NAMES = ("max_completion_tokens", "max_tokens")
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_QUOTE = 0x22
_NO_INPUT = Raw(b"{}")
_NULL = Raw(b"null")
_decode = msgspec.json.Decoder().decode

Block = dict[str, Any]


class RequestMaker:
    """Makes Messages requests for one seller of Claude; remembers what repeats over rows."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._needs = NeedsReader()

    def make(
        self, *, endpoint: Endpoint, model_id: str, body: Mapping[str, Raw], max_output_tokens: int | None
    ) -> dict[str, Any]:
        """Give the Messages request of one row, without its model.

        Args:
            endpoint: The endpoint of the row.
            model_id: The lane's spelling of the pin; tells what the model takes.
            body: The customer's body.
            max_output_tokens: The model's own limit: stands in where the row sets none, and bounds what it sets.

        Raises:
            ProviderError: ``refused``, permanent: Claude cannot carry the row; the quote should have refused it.
        """
        if not offers(self._family, endpoint):
            raise _refused(f"the endpoint {endpoint.value} is not known on this lane")
        try:
            reason = first_refusal(self._family, model_id, self._needs.needs_of(body))
            if reason is not None:
                raise _refused(reason)
            return self._request(body, model_id, max_output_tokens)
        except (msgspec.DecodeError, RecursionError, TypeError, AttributeError, KeyError):
            # The quote checks what it prices; whatever else is of a wrong type ends here.
            raise _refused("the row holds a value of a wrong type") from None

    def _request(self, body: Mapping[str, Raw], model_id: str, max_output_tokens: int | None) -> dict[str, Any]:
        instructions, turns = _conversation(body["messages"])
        request: dict[str, Any] = {"max_tokens": _limit(body, max_output_tokens)}
        if instructions:
            request["system"] = "\n\n".join(instructions)
        request["messages"] = turns
        for name in ("temperature", "top_p"):
            # One is the default of both; some models take neither.
            if (value := body.get(name)) is not None and _decode(value) not in (None, 1):
                request[name] = value
        if sequences := _value(body, "stop"):
            request["stop_sequences"] = [sequences] if isinstance(sequences, str) else sequences
        user = _value(body, "user")
        if self._family is Family.ANTHROPIC and user is not None and len(user) <= MAXIMUM_USER_CHARACTERS:
            request["metadata"] = {"user_id": user}
        if effort := _value(body, "reasoning_effort"):
            request["output_config"] = {"effort": effort}
        if tools := _value(body, "tools"):
            request["tools"] = [_tool(each["function"]) for each in tools]
            if choice := _tool_choice(body):
                request["tool_choice"] = choice
        if wanted := _value(body, "response_format"):
            _hold_to_schema(request, wanted, structured=claude_traits(model_id).structured_outputs)
        return request


def _limit(body: Mapping[str, Raw], max_output_tokens: int | None) -> int:
    own = next((limit for name in _LIMIT_NAMES if (limit := _value(body, name)) is not None), None)
    limits = [limit for limit in (own, max_output_tokens) if limit]
    if not limits:
        raise _refused("the row sets no output limit and the model's own is not known")
    return int(min(limits))


def _conversation(raw: Raw) -> tuple[list[str], list[dict[str, Any]]]:
    """Give the instructions, and the turns: neighbours of one role are one turn, tool results belong to the user."""
    instructions: list[str] = []
    turns: list[dict[str, Any]] = []
    for message in decode_messages(raw):
        role = decode_text(message["role"])
        content = message.get("content", _NULL)
        if role in INSTRUCTION_ROLES:
            if text := _text(content):
                instructions.append(text)
            continue
        speaker = "assistant" if role == "assistant" else "user"
        said = _said(role, message, content)
        if turns and turns[-1]["role"] == speaker:
            turns[-1]["content"] = [*_blocks(turns[-1]["content"]), *_blocks(said)]
        else:
            turns.append({"role": speaker, "content": said})
    return instructions, turns


def _said(role: str, message: Mapping[str, Raw], content: Raw) -> Raw | list[Block]:
    if role == "tool":
        result = content if memoryview(content)[0] == _QUOTE else _parts(content)
        call_id = decode_text(message["tool_call_id"])
        return [{"type": "tool_result", "tool_use_id": _tool_id(call_id), "content": result}]
    if memoryview(content)[0] == _QUOTE and "tool_calls" not in message:
        return content
    blocks = _blocks(content) if memoryview(content)[0] == _QUOTE else _parts(content)
    if not blocks and (refusal := _value(message, "refusal")):
        blocks = [{"type": "text", "text": refusal}]
    for call in decode_calls(message["tool_calls"]) if _value(message, "tool_calls") else ():
        given = Raw(call.function.arguments.encode()) if call.function.arguments.strip() else _NO_INPUT
        blocks.append({"type": "tool_use", "id": _tool_id(call.id), "name": call.function.name, "input": given})
    return blocks


def _blocks(content: Raw | list[Block]) -> list[Block]:
    """Give content as blocks; a text is one block, none where it is blank."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if decode_text(content).strip() else []


def _parts(content: Raw) -> list[Block]:
    """Give blocks for parts; blank texts say nothing and are not taken."""
    return [block for part in _decoded_parts(content) if (block := _block(part))]


def _decoded_parts(content: Raw) -> list[Part]:
    return [] if bytes(content) == b"null" else decode_parts(content)


def _block(part: Part) -> Block | None:
    if part.image_url is None:
        text = part.text or part.refusal
        return {"type": "text", "text": text} if text.strip() else None
    inside = image_source(part.image_url.url)
    if inside is None:
        return {"type": "image", "source": {"type": "url", "url": part.image_url.url}}
    media_type, encoded = inside
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": encoded}}


def _text(content: Raw) -> str:
    """Give the whole text of an instruction; empty where it is blank."""
    if memoryview(content)[0] == _QUOTE:
        text = decode_text(content)
    else:
        text = "\n\n".join(part.text for part in _decoded_parts(content) if part.text.strip())
    return text if text.strip() else ""


def _tool_id(call_id: str) -> str:
    """Give a call's id in Claude's alphabet; the same id always gives the same."""
    if _TOOL_ID.fullmatch(call_id):
        return call_id
    return "call_" + blake2b(call_id.encode(), digest_size=12).hexdigest()


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    tool = {"name": function["name"], "input_schema": schema}
    if function["name"] == ANSWER_TOOL:
        raise _refused("a function has a name that is not free")
    if description := function.get("description"):
        tool["description"] = description
    if function.get("strict"):
        tool["strict"] = True
        tool["input_schema"] = closed(schema)
    return tool


def _tool_choice(body: Mapping[str, Raw]) -> dict[str, Any] | None:
    wanted = _value(body, "tool_choice")
    choice: dict[str, Any] = {"type": {"required": "any", "none": "none"}.get(str(wanted), "auto")}
    if isinstance(wanted, dict):
        choice = {"type": "tool", "name": wanted["function"]["name"]}
    if _value(body, "parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return None if choice == {"type": "auto"} else choice


def _hold_to_schema(request: dict[str, Any], wanted: Any, *, structured: bool) -> None:  # noqa: ANN401 -- any JSON
    """Put the schema of the answer into the request: as its format, or as a tool that must be called."""
    if wanted["type"] != "json_schema":
        return
    described = wanted["json_schema"]
    schema = described["schema"]
    if structured and can_be_kept(schema):
        held = {"format": {"type": "json_schema", "schema": closed(schema)}}
        request["output_config"] = {**request.get("output_config", {}), **held}
        return
    tool = {"name": ANSWER_TOOL, "input_schema": schema}
    if description := described.get("description"):
        tool["description"] = description
    request["tools"] = [tool]
    request["tool_choice"] = {"type": "tool", "name": ANSWER_TOOL, "disable_parallel_tool_use": True}


def _value(members: Mapping[str, Raw], name: str) -> Any:  # noqa: ANN401 -- any JSON
    return _decode(members[name]) if name in members else None


def _refused(reason: str) -> ProviderError:
    return ProviderError(f"Claude cannot carry the row: {reason}.", code=Fault.REFUSED, permanent=True)
