"""Tokens of tools: by the publicly described counting rule where there is one, else as the JSON they are.

References:
    OpenAI cookbook, "How to count tokens with tiktoken", section on tool calls: 7 (o200k) or 10 (cl100k) per
    function, 3 if it has properties, 3 per property, 3 per enum item less 3, 12 at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from routing.domain.estimate.tables import CLAUDE_LEGACY, CLOSED, Vocabulary

PROPERTIES_TOKENS = 3
PROPERTY_TOKENS = 3
ENUM_ITEM_TOKENS = 3
END_TOKENS = 12
# a closed vocabulary's provider adds a hidden preamble where tools are given: published as 346, and 530 at most
CLOSED_PREAMBLE_TOKENS = 346
CLOSED_PREAMBLE_TOKENS_AT_MOST = 530


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """Text to weigh as one JSON string literal, constants to add to the estimate, and what the ceiling adds.

    ``ceiling_tokens`` is the constants and those bytes of the JSON that the weighed text does not hold.
    """

    literal: bytes
    constant_tokens: int
    ceiling_tokens: int


def tool_cost(tools: tuple[Any, ...], vocabulary: Vocabulary) -> ToolCost:
    """Give what a row's tools (parsed, chat or responses shape) cost under a vocabulary."""
    as_json = orjson.dumps(tools)
    if vocabulary.ruled_tool_tokens is None:
        return ToolCost(
            literal=orjson.dumps(as_json.decode()),
            constant_tokens=CLOSED_PREAMBLE_TOKENS if vocabulary.name in {CLOSED, CLAUDE_LEGACY} else 0,
            ceiling_tokens=CLOSED_PREAMBLE_TOKENS_AT_MOST,
        )
    texts: list[str] = []
    constant_tokens = END_TOKENS
    for tool in tools:
        constant_tokens += _ruled(tool, texts, vocabulary.ruled_tool_tokens)
    counted = "\n".join(texts)
    return ToolCost(
        literal=orjson.dumps(counted),
        constant_tokens=constant_tokens,
        ceiling_tokens=max(0, len(as_json) - len(counted.encode())) + constant_tokens,
    )


def schema_constants(vocabulary: Vocabulary) -> tuple[int, int]:
    """Give what an answer's schema adds to the estimate and to the ceiling, besides its text.

    The old Claude models are held to a schema by a tool that they must call, so it brings a tool's preamble; of a
    closed vocabulary's other models it may. Where tools are given too, the preamble is theirs and comes once.
    """
    if vocabulary.ruled_tool_tokens is not None:
        return 0, 0
    constant_tokens = CLOSED_PREAMBLE_TOKENS if vocabulary.name == CLAUDE_LEGACY else 0
    return constant_tokens, CLOSED_PREAMBLE_TOKENS_AT_MOST


def _ruled(tool: object, texts: list[str], per_function_tokens: int) -> int:
    """Add a function's counted texts to ``texts`` and give its constant tokens; odd shapes count as their JSON."""
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        texts.append(orjson.dumps(tool).decode())
        return per_function_tokens
    texts.append(f"{function.get('name', '')}:{_description(function)}")
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping) or not properties:
        return per_function_tokens
    tokens = per_function_tokens + PROPERTIES_TOKENS
    for name, schema in properties.items():
        tokens += PROPERTY_TOKENS
        if not isinstance(schema, Mapping):
            texts.append(name)
            continue
        choices = schema.get("enum")
        if isinstance(choices, list):
            tokens += ENUM_ITEM_TOKENS * len(choices) - ENUM_ITEM_TOKENS
            texts.extend(map(str, choices))
        texts.append(f"{name}:{schema.get('type', '')}:{_description(schema)}")
    return tokens


def _description(schema: Mapping[str, Any]) -> str:
    description = schema.get("description")
    return description.rstrip(".") if isinstance(description, str) else ""
