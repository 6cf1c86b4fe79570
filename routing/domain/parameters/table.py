"""The table: what each door does with each thing a row can ask. Data, and the few rules that depend on the model.

A row of the table is one ask: a parameter and the form of its value that matters. OpenAI's own endpoints take whatever
stands in a row as it is, so every ask is ``KEEP`` there; the table says what Claude's Messages do.

References:
    The provider's compatibility page for OpenAI's parameters, Messages reference, and structured outputs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple

from routing.domain.parameters.lanes import ClaudeTraits, Family, Sampling


class Need(NamedTuple):
    """One thing a row asks: the parameter under ``body``, and the form of its value where that matters."""

    parameter: str
    form: str = ""


class Treatment(enum.StrEnum):
    """What becomes of an ask."""

    KEEP = "keep"
    MAP = "map"
    DROP = "drop"
    REFUSE = "refuse"


class Rule(NamedTuple):
    """``words`` finish the sentence "<parameter> ...": how it is mapped, why it is refused; empty where not said."""

    treatment: Treatment
    words: str = ""


KEEP = Rule(Treatment.KEEP)
QUIETLY = Rule(Treatment.MAP)
DROP = Rule(Treatment.DROP)
UNKNOWN = Rule(Treatment.REFUSE, "is not known on this lane")
# What a schema is sent as where answers cannot be held to it otherwise.
BY_TOOL = "is sent as a tool that the model must call; its input comes back as the answer's text"
BY_FORMAT = "is sent as the answer's format, its objects closed"


def _refuse(words: str) -> Rule:
    return Rule(Treatment.REFUSE, words)


_NOT_HERE = _refuse("has no counterpart on this lane")

# Whatever the model.
_CLAUDE: Mapping[Need, Rule] = {
    Need("n"): _refuse("above 1 is not possible on this lane"),
    Need("temperature", "over 1"): _refuse("goes to 1 on this lane"),
    Need("stop"): QUIETLY,
    Need("stop", "blank"): _refuse("holds a sequence of white space, which this lane does not take"),
    Need("seed"): DROP,
    Need("logprobs"): _NOT_HERE,
    Need("top_logprobs"): _NOT_HERE,
    Need("logit_bias"): _NOT_HERE,
    Need("presence_penalty"): _NOT_HERE,
    Need("frequency_penalty"): _NOT_HERE,
    Need("verbosity"): _NOT_HERE,
    Need("response_format", "json_object"): _refuse("json_object has no counterpart on this lane; use json_schema"),
    Need("response_format", "odd"): _refuse("is of a type that is not known on this lane"),
    Need("response_format", "no object"): _refuse("holds a schema that is no object"),
    Need("tools"): QUIETLY,
    Need("tools", "custom"): _refuse("holds a tool that is no function"),
    Need("tools", "odd"): _refuse("holds a function whose name or parameters this lane does not take"),
    Need("tools", "strict, loose schema"): _refuse("holds a strict function whose schema this lane cannot keep"),
    Need("tool_choice"): QUIETLY,
    Need("tool_choice", "odd"): _refuse("is of a form that this lane does not know"),
    Need("tool_choice", "without tools"): _refuse("asks for a tool, and the row has none"),
    Need("parallel_tool_calls"): QUIETLY,
    Need("functions"): _refuse("is not supported on this lane; use tools"),
    Need("function_call"): _refuse("is not supported on this lane; use tool_choice"),
    Need("stream"): _refuse("is not possible in a batch"),
    Need("audio"): _NOT_HERE,
    Need("modalities"): _NOT_HERE,
    Need("web_search_options"): _NOT_HERE,
    Need("user", "odd"): _refuse("is no text"),
    Need("user", "long"): DROP,
    Need("metadata"): DROP,
    Need("store"): DROP,
    Need("stream_options"): DROP,
    Need("service_tier"): DROP,
    Need("prediction"): DROP,
    Need("prompt_cache_key"): DROP,
    Need("prompt_cache_retention"): DROP,
    Need("safety_identifier"): DROP,
    Need("messages", "instructions after the first turn"): Rule(
        Treatment.MAP, "of role system or developer are joined at the top, also those after the first turn"
    ),
    Need("messages", "instructions only"): _refuse("hold instructions only, and this lane needs a user's message"),
    Need("messages", "an assistant message at the end"): _refuse("end with the assistant, whom this lane would go on"),
    Need("messages", "function messages"): _refuse("hold one of role function; use tools"),
    Need("messages", "a blank message"): _refuse("hold one without text, which this lane does not take"),
    Need("messages.name"): _NOT_HERE,
    Need("messages.tool_calls", "custom tools"): _refuse("holds a call that is no function's"),
    Need("messages.tool_calls", "arguments that are no JSON object"): _refuse("has arguments that are no JSON object"),
    Need("messages.cache_control"): DROP,
    Need("messages.content", "unknown"): _refuse("holds a part of a type that this lane does not know"),
    Need("messages.image_url.detail"): DROP,
    Need("messages.image_url", "outside user and tool messages"): _refuse("stands outside user and tool messages"),
    Need("messages.image_url", "neither https nor base64 of JPEG, PNG, GIF or WebP"): _refuse(
        "must be an https URL, or base64 of JPEG, PNG, GIF or WebP"
    ),
}


def _sampling(traits: ClaudeTraits, _family: Family) -> Rule:
    return _refuse("is not taken by this model") if traits.sampling is Sampling.NEITHER else KEEP


def _both_sampling(traits: ClaudeTraits, _family: Family) -> Rule:
    return KEEP if traits.sampling is Sampling.BOTH else _refuse("cannot stand beside temperature with this model")


def _strict_answer(traits: ClaudeTraits, _family: Family) -> Rule:
    if traits.structured_outputs:
        return Rule(Treatment.MAP, BY_FORMAT)
    return _refuse("is strict, and this model cannot be held to a schema")


def _loose_answer(traits: ClaudeTraits, _family: Family) -> Rule:
    return Rule(Treatment.MAP, BY_FORMAT if traits.structured_outputs else BY_TOOL)


def _answer_beside_tools(traits: ClaudeTraits, _family: Family) -> Rule:
    return KEEP if traits.structured_outputs else _refuse("cannot stand beside tools with this model")


def _strict_tools(traits: ClaudeTraits, _family: Family) -> Rule:
    return QUIETLY if traits.structured_outputs else _refuse("holds a strict function, which this model cannot keep")


def _effort(traits: ClaudeTraits, family: Family) -> Rule:
    if traits.effort and family is Family.ANTHROPIC:
        return Rule(Treatment.MAP, "is sent as this lane's effort")
    return _NOT_HERE


def _highest_effort(traits: ClaudeTraits, family: Family) -> Rule:
    return _effort(traits, family) if traits.highest_effort else _NOT_HERE


def _user(_traits: ClaudeTraits, family: Family) -> Rule:
    return QUIETLY if family is Family.ANTHROPIC else DROP


def _linked_image(_traits: ClaudeTraits, family: Family) -> Rule:
    return QUIETLY if family is Family.ANTHROPIC else _refuse("must be base64 on this lane, not a link")


# Where it depends on the model or the door.
_CLAUDE_BY_MODEL: Mapping[Need, Callable[[ClaudeTraits, Family], Rule]] = {
    Need("temperature"): _sampling,
    Need("top_p"): _sampling,
    Need("top_p", "beside temperature"): _both_sampling,
    Need("response_format", "strict, tight schema"): _strict_answer,
    Need("response_format", "tight schema"): _loose_answer,
    Need("response_format", "beside tools"): _answer_beside_tools,
    Need("tools", "strict, tight schema"): _strict_tools,
    Need("reasoning_effort", "low"): _effort,
    Need("reasoning_effort", "medium"): _effort,
    Need("reasoning_effort", "high"): _effort,
    Need("reasoning_effort", "xhigh"): _highest_effort,
    Need("user"): _user,
    Need("messages.image_url", "https"): _linked_image,
}
# A schema that no answer can be held to goes as a tool, which takes any schema but promises nothing.
_CLAUDE_LOOSE: Mapping[Need, Rule] = {
    Need("response_format", "strict, loose schema"): _refuse("is strict, and its schema is one this lane cannot keep"),
    Need("response_format", "loose schema"): Rule(Treatment.MAP, BY_TOOL),
    Need("response_format", "loose schema beside tools"): _refuse("cannot stand beside tools with this schema"),
    Need("reasoning_effort", "other"): _NOT_HERE,
}


def claude_rule(need: Need, traits: ClaudeTraits, family: Family) -> Rule:
    """Give what a lane of Claude does with one ask; what the table does not know is refused."""
    by_model = _CLAUDE_BY_MODEL.get(need)
    if by_model is not None:
        return by_model(traits, family)
    return _CLAUDE.get(need) or _CLAUDE_LOOSE.get(need) or UNKNOWN
