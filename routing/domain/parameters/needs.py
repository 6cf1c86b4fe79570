"""What rows ask of a lane beyond plain text: found once a row, from its body as names and raw JSON.

A row of plain text with an output limit asks nothing, and only its names and the roles of its messages are looked at.
Values that change nothing (null, a default, an empty list) ask nothing. What the quote has already refused is not
looked for again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from routing.domain.parameters.messages import (
    decode_messages,
    is_plain,
    needs_of_message,
    needs_of_roles,
    shown_name,
)
from routing.domain.parameters.schemas import can_be_kept
from routing.domain.parameters.table import Need

Needs: TypeAlias = frozenset[Need]

MAXIMUM_USER_CHARACTERS = 256
_PLAIN_NAMES = frozenset({"model", "messages", "max_tokens", "max_completion_tokens"})
_JUDGED_TOGETHER = ("temperature", "tools", "tool_choice")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_LONGEST_REMEMBERED_BYTES = 65_536
_REMEMBERED_VALUES = 1_024
_NULL = b"null"
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedCount:
    """How many rows of a group ask for something, and the first of them, by its position in the group."""

    row_count: int
    first_position: int


class PlainRow(NamedTuple):
    """A row that holds messages of text that is not blank, maybe a limit and a temperature, and nothing else."""

    roles: tuple[str, ...]
    temperature: float | None


class Alike(NamedTuple):
    """Rows of a group that ask the same: the first one's position, how many there are, and the body of one."""

    first_position: int
    row_count: int
    body: Mapping[str, Raw] | PlainRow


def each_alone(bodies: Iterable[Mapping[str, Raw] | PlainRow]) -> Iterator[Alike]:
    """Take each row as the only one of its kind, in the order given."""
    return (Alike(position, 1, body) for position, body in enumerate(bodies))


class NeedsReader:
    """Reads what rows ask; values that repeat over a file (tools, schemas, temperatures) are looked at once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, bytes], tuple[Need, ...]] = {}
        self._orders: dict[bytes, Needs] = {}
        self._plain: dict[PlainRow, Needs] = {}

    def needs_of(self, body: Mapping[str, Raw]) -> Needs:
        """Give what the body of one chat row asks; the body has passed the quote's own checks."""
        messages = decode_messages(body["messages"])
        needs = self._order_needs(b"".join([message["role"] for message in messages]))
        names = body.keys() - _PLAIN_NAMES
        odd = [message for message in messages if not is_plain(message)]
        if not names and not odd:
            return needs
        found = set(needs)
        for message in odd:
            found.update(needs_of_message(message))
        for name in names:
            found.update(self._value_needs(name, bytes(body[name])))
        if not names.isdisjoint(_JUDGED_TOGETHER):
            found.update(_together(found))
        return frozenset(found)

    def needs_of_plain(self, row: PlainRow) -> Needs:
        """Give what a plain row asks, as :meth:`needs_of` does of its body."""
        needs = self._plain.get(row)
        if needs is None:
            of_value = () if row.temperature is None else _temperature(row.temperature)
            needs = frozenset((*needs_of_roles(row.roles), *of_value))
            if len(self._plain) < _REMEMBERED_VALUES:
                self._plain[row] = needs
        return needs

    def _order_needs(self, roles: bytes) -> Needs:
        """Give what the speakers ask; their raw JSON strings stand one after another."""
        needs = self._orders.get(roles)
        if needs is None:
            needs = frozenset(needs_of_roles(_decode(b"[" + roles.replace(b'""', b'","') + b"]")))
            if len(self._orders) < _REMEMBERED_VALUES:
                self._orders[roles] = needs
        return needs

    def _value_needs(self, name: str, value: bytes) -> tuple[Need, ...]:
        if value == _NULL:
            return ()
        key = (name, value)
        needs = self._seen.get(key)
        if needs is None:
            look = _LOOKS.get(name)
            needs = (Need(shown_name(name), "unknown"),) if look is None else tuple(look(_decode(value)))
            if len(value) <= _LONGEST_REMEMBERED_BYTES and len(self._seen) < _REMEMBERED_VALUES:
                self._seen[key] = needs
        return needs


def gather_needs(rows: Iterable[Alike]) -> dict[Need, NeedCount]:
    """Give what the rows of a group ask, with how many ask it.

    Args:
        rows: All of them, each once; bodies by name, or what is to be known of rows that are plain. In any order.
    """
    reader = NeedsReader()
    counts: dict[Needs, list[int]] = {}
    for position, row_count, body in rows:
        needs = reader.needs_of_plain(body) if isinstance(body, PlainRow) else reader.needs_of(body)
        count = counts.setdefault(needs, [0, position])
        count[0] += row_count
        count[1] = min(count[1], position)
    gathered: dict[Need, NeedCount] = {}
    for needs, (row_count, first_position) in counts.items():
        for need in needs:
            known = gathered.get(need)
            gathered[need] = NeedCount(
                row_count=row_count + (known.row_count if known else 0),
                first_position=min(first_position, known.first_position) if known else first_position,
            )
    return gathered


def _together(found: set[Need]) -> Iterator[Need]:
    """Give what parameters ask only beside each other."""
    if Need("temperature") in found and Need("top_p") in found:
        yield Need("top_p", "beside temperature")
    if Need("tools") in found:
        yield from (
            Need("response_format", "loose schema beside tools" if need.form == "loose schema" else "beside tools")
            for need in tuple(found)
            if need.parameter == "response_format" and need.form.endswith("schema")
        )
    elif Need("tool_choice") in found:
        yield Need("tool_choice", "without tools")


def _given(name: str) -> Callable[[Any], Iterator[Need]]:
    """Make the look at a parameter whose value does not matter."""

    def look(_value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
        yield Need(name)

    return look


def _truly(name: str) -> Callable[[Any], Iterator[Need]]:
    """Make the look at a parameter that asks nothing where it is false, zero or empty."""

    def look(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
        if value:
            yield Need(name)

    return look


def _temperature(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if value > 1:
        yield Need("temperature", "over 1")
    elif value != 1:
        yield Need("temperature")


def _top_p(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if value != 1:
        yield Need("top_p")


def _choices(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if value != 1:
        yield Need("n")


def _stop(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    sequences = [value] if isinstance(value, str) else value
    if not isinstance(sequences, list) or not all(isinstance(each, str) and each.strip() for each in sequences):
        yield Need("stop", "blank")
    elif sequences:
        yield Need("stop")


def _user(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if not isinstance(value, str):
        yield Need("user", "odd")
    else:
        yield Need("user", "long") if len(value) > MAXIMUM_USER_CHARACTERS else Need("user")


def _answer_format(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return
    if kind == "json_object":
        yield Need("response_format", "json_object")
        return
    wanted = value.get("json_schema") if kind == "json_schema" else None
    if not isinstance(wanted, dict):
        yield Need("response_format", "odd")
        return
    schema = wanted.get("schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield Need("response_format", "no object")
        return
    strict = "strict, " if wanted.get("strict") else ""
    yield Need("response_format", f"{strict}{'tight' if can_be_kept(schema) else 'loose'} schema")


def _tools(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    for tool in value:
        function = tool.get("function")
        if tool.get("type", "function") != "function" or not isinstance(function, dict):
            yield Need("tools", "custom")
            continue
        yield Need("tools")
        schema = function.get("parameters") or {"type": "object"}
        fits = isinstance(schema, dict) and schema.get("type") == "object"
        if not fits or not _TOOL_NAME.fullmatch(str(function.get("name", ""))):
            yield Need("tools", "odd")
        elif function.get("strict"):
            yield Need("tools", f"strict, {'tight' if can_be_kept(schema) else 'loose'} schema")


def _tool_choice(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if value in ("auto", "none"):
        return
    named = value.get("function") if isinstance(value, dict) and value.get("type") == "function" else None
    is_known = value == "required" or (isinstance(named, dict) and isinstance(named.get("name"), str))
    yield Need("tool_choice") if is_known else Need("tool_choice", "odd")


def _effort(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    yield Need("reasoning_effort", value if value in ("low", "medium", "high", "xhigh") else "other")


def _one_at_a_time(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if value is False:
        yield Need("parallel_tool_calls")


def _verbosity(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if value != "medium":
        yield Need("verbosity")


def _modalities(value: Any) -> Iterator[Need]:  # noqa: ANN401 -- any JSON
    if value != ["text"]:
        yield Need("modalities")


_LOOKS: Mapping[str, Callable[[Any], Iterator[Need]]] = {
    "temperature": _temperature,
    "top_p": _top_p,
    "n": _choices,
    "stop": _stop,
    "user": _user,
    "response_format": _answer_format,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "reasoning_effort": _effort,
    "parallel_tool_calls": _one_at_a_time,
    "verbosity": _verbosity,
    "modalities": _modalities,
    **{
        name: _given(name)
        for name in (
            *("seed", "metadata", "stream_options", "service_tier", "prediction", "prompt_cache_key"),
            *("prompt_cache_retention", "safety_identifier", "functions", "function_call", "audio"),
            "web_search_options",
        )
    },
    **{
        name: _truly(name)
        for name in (
            *("logprobs", "top_logprobs", "logit_bias", "presence_penalty", "frequency_penalty"),
            *("store", "stream"),
        )
    },
}
