"""The verdict on one Messages request inside a batch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulators.claude.contents import (
    ContentRules,
    blocks_of,
    require_cache_breakpoints,
    require_cache_control,
    require_messages,
    require_system,
)
from simulators.claude.refusals import (
    Json,
    RefusedError,
    refuse_unknown,
    take,
    take_choice,
    take_count,
    take_list,
    take_object,
    take_text,
)
from simulators.claude.schemas import require_schema
from simulators.claude.settings import ModelSettings, matches

SAMPLING = ("temperature", "top_p", "top_k")
_KNOWN = frozenset(
    {
        "max_tokens",
        "messages",
        "cache_control",
        "container",
        "inference_geo",
        "metadata",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "thinking",
        "tool_choice",
        "tools",
        *SAMPLING,
    }
)
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
_TOOL_MEMBERS = frozenset(
    {
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
        "strict",
        "defer_loading",
        "allowed_callers",
        "input_examples",
        "eager_input_streaming",
    }
)
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MIN_THINKING_TOKENS = 1_024
_MAX_USER_ID_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one door to the model takes: its own members, and what its API version took away.

    `required_texts` are members that must be there, with the only value they may have, if there is only one.
    """

    own_members: frozenset[str]
    required_texts: Mapping[str, str | None]
    sampling: bool = True
    assistant_documents: bool = True
    user_citations: bool = True


def require_valid(params: Json, model: str, rules: Rules, settings: ModelSettings) -> int:
    """Refuse what the model would not answer; gives the request's `max_tokens`.

    Raises:
        RefusedError: the first thing that is wrong.
    """
    refuse_unknown(params, _KNOWN | rules.own_members)
    for name, value in rules.required_texts.items():
        if take_text(params, name) != value and value is not None:
            raise RefusedError(f"{name}: Input should be '{value}'")
    if matches(model, settings.unknown_models):
        raise RefusedError(f"model: {model}", "not_found_error")
    max_tokens = take_count(params, "max_tokens", 1, required=True) or 0
    most_tokens = settings.max_output_tokens.get(model)
    if most_tokens is not None and max_tokens > most_tokens:
        raise RefusedError(
            f"max_tokens: {max_tokens} > {most_tokens}, which is the maximum allowed number of output tokens for "
            f"{model}"
        )
    require_system(params)
    require_messages(
        params,
        ContentRules(
            assistant_documents=rules.assistant_documents,
            user_citations=rules.user_citations,
            prefill=not matches(model, settings.no_prefill_models),
        ),
    )
    _require_sampling(params, model, rules, settings)
    tool_names = _require_tools(params)
    forced = _require_tool_choice(params, tool_names)
    _require_thinking(params, max_tokens, forced=forced)
    _require_rest(params)
    return max_tokens


def _require_sampling(params: Json, model: str, rules: Rules, settings: ModelSettings) -> None:
    given = [name for name in SAMPLING if name in params]
    if given and not rules.sampling:
        raise RefusedError(f"{given[0]}: Extra inputs are not permitted")
    if given and matches(model, settings.no_sampling_models):
        raise RefusedError(f"`{given[0]}` is not supported for this model.")
    for name in ("temperature", "top_p"):
        value = take(params, name, float)
        if isinstance(value, int | float) and not 0 <= value <= 1:
            raise RefusedError(f"{name}: range: 0..1")
    take_count(params, "top_k", 0)
    both = params.get("temperature") is not None and params.get("top_p") is not None
    if both and matches(model, settings.one_sampling_models):
        raise RefusedError("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")


def _require_tools(params: Json) -> Sequence[str]:
    names: list[str] = []
    for index, tool in enumerate(take_list(params, "tools") or ()):
        place = f"tools.{index}"
        if not isinstance(tool, dict):
            raise RefusedError(f"{place}: Input should be a valid dictionary")
        require_cache_control(tool, f"{place}.")
        name = take_text(tool, "name", f"{place}.")
        if tool.get("type", "custom") == "custom":
            path = f"{place}.custom."
            refuse_unknown(tool, _TOOL_MEMBERS, path)
            if not _TOOL_NAME.match(name):
                raise RefusedError(f"{path}name: String should match pattern '{_TOOL_NAME.pattern}'")
            take_text(tool, "description", path, required=False)
            schema = take_object(tool, "input_schema", path, required=True) or {}
            if schema.get("type") != "object":
                raise RefusedError(f"{path}input_schema.type: Input should be 'object'")
            if tool.get("strict") is True:
                require_schema(schema, f"{path}input_schema")
        names.append(name)
    if len(set(names)) < len(names):
        raise RefusedError("tools: Tool names must be unique.")
    return names


def _require_tool_choice(params: Json, tool_names: Sequence[str]) -> bool:
    """Refuse a choice that does not fit the tools; tells whether a tool must be called."""
    choice = take_object(params, "tool_choice")
    if choice is None:
        return False
    kind = take_choice(choice, "type", ("auto", "any", "tool", "none"), "tool_choice.", required=True)
    allowed = {"auto": ("disable_parallel_tool_use",), "any": ("disable_parallel_tool_use",), "none": ()}
    members: Sequence[str] = allowed.get(kind or "", ("name", "disable_parallel_tool_use"))
    refuse_unknown(choice, ("type", *members), f"tool_choice.{kind}.")
    if not tool_names:
        raise RefusedError("tool_choice: tool_choice may only be specified while providing tools.")
    if kind == "tool" and take_text(choice, "name", "tool_choice.tool.") not in tool_names:
        raise RefusedError(f"Tool '{choice['name']}' not found in provided tools")
    return kind in {"any", "tool"}


def _require_thinking(params: Json, max_tokens: int, *, forced: bool) -> None:
    thinking = take_object(params, "thinking")
    if thinking is None:
        return
    kind = take_choice(
        thinking, "type", ("enabled", "disabled", "adaptive", "between_tools"), "thinking.", required=True
    )
    if kind == "enabled":
        budget = take_count(thinking, "budget_tokens", _MIN_THINKING_TOKENS, "thinking.enabled.", required=True)
        if max_tokens <= (budget or 0):
            raise RefusedError("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if kind in {"enabled", "adaptive"}:
        if forced:
            raise RefusedError("Thinking may not be enabled when tool_choice forces tool use.")
        if params.get("temperature") not in {None, 1}:
            raise RefusedError("`temperature` may only be set to 1 when thinking is enabled.")


def _require_rest(params: Json) -> None:
    for index, sequence in enumerate(take_list(params, "stop_sequences") or ()):
        if not isinstance(sequence, str):
            raise RefusedError(f"stop_sequences.{index}: Input should be a valid string")
        if not sequence.strip():
            raise RefusedError("stop_sequences: each stop sequence must contain non-whitespace")
    metadata = take_object(params, "metadata") or {}
    refuse_unknown(metadata, ("user_id",), "metadata.")
    if len(take_text(metadata, "user_id", "metadata.", required=False)) > _MAX_USER_ID_CHARS:
        raise RefusedError(f"metadata.user_id: String should have at most {_MAX_USER_ID_CHARS} characters")
    if take(params, "stream", bool):
        raise RefusedError("stream: streaming is not supported in a batch")
    if take_choice(params, "speed", ("standard", "fast")) == "fast":
        raise RefusedError("speed: fast mode is not supported in a batch")
    take_choice(params, "service_tier", ("auto", "standard_only"))
    output_config = take_object(params, "output_config") or {}
    refuse_unknown(output_config, ("effort", "format"), "output_config.")
    take_choice(output_config, "effort", _EFFORTS, "output_config.")
    output_format = take_object(output_config, "format", "output_config.")
    if output_format is not None:
        path = "output_config.format."
        refuse_unknown(output_format, ("type", "schema"), path)
        take_choice(output_format, "type", ("json_schema",), path, required=True)
        require_schema(take_object(output_format, "schema", path, required=True) or {}, f"{path}schema")
    require_cache_control(params, "")
    require_cache_breakpoints(_cacheable(params))


def _cacheable(params: Json) -> list[Json]:
    found: list[object] = [params]
    for name in ("tools", "system"):
        given = params.get(name)
        found += given if isinstance(given, list) else ()
    for message in take_list(params, "messages") or ():
        found += blocks_of(message) if isinstance(message, dict) else ()
    return [each for each in found if isinstance(each, dict)]
