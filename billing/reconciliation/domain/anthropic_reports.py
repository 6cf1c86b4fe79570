"""Anthropic's cost and usage pages.

Traps (docs.anthropic.com, Usage and Cost API): money is text in **cents** with a fraction, so "123.45" is 1.2345 USD;
input tokens exclude cache reads and writes; cache creation is nested; times are RFC 3339; detail is null unless
grouped; new words appear in ``cost_type`` and ``service_tier`` and must become breaks, never crashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

from billing.reconciliation.domain.openai_reports import Window, by_class, read_pages, usage_line
from billing.reconciliation.domain.records import BillLine, Item, ReadOptions, TokenClass
from billing.reconciliation.domain.values import (
    BadValue,
    amount_of,
    checked_window,
    instant_of,
    optional_count,
    row_hash,
    text_of,
    upper_text_of,
)

_CLASSES: Final = {
    "uncached_input_tokens": TokenClass.INPUT_UNCACHED,
    "cache_read_input_tokens": TokenClass.INPUT_CACHE_READ,
    "cache_creation.ephemeral_5m_input_tokens": TokenClass.INPUT_CACHE_WRITE_5M,
    "cache_creation.ephemeral_1h_input_tokens": TokenClass.INPUT_CACHE_WRITE_1H,
    "output_tokens": TokenClass.OUTPUT,
}
_COST_TYPES: Final = {"tokens", "web_search", "code_execution", "session_usage"}
_TIERS: Final = {"standard", "batch", "priority", "priority_on_demand", "flex", "flex_discount"}
_CONTEXTS: Final = {"": False, "0-200k": False, "200k-1M": True}
_CENTS_DECIMALS: Final = 2


def read_cost(stream: BinaryIO, _options: ReadOptions) -> Iterator[Item]:
    """Read the pages of ``GET /v1/organizations/cost_report``."""
    return read_pages(stream, _window, _cost_lines)


def read_usage(stream: BinaryIO, _options: ReadOptions) -> Iterator[Item]:
    """Read the pages of ``GET /v1/organizations/usage_report/messages``: quantities without money."""
    return read_pages(stream, _window, _usage_lines)


def _window(bucket: Mapping[str, Any]) -> Window:
    start, end = (instant_of(bucket.get(name), name=name) for name in ("starting_at", "ending_at"))
    return checked_window(start, end)


def _cost_lines(line: int, window: Window, result: Mapping[str, Any], raw: str) -> list[BillLine]:
    cents = amount_of(result.get("amount"))
    cost_type, token_type = text_of(result.get("cost_type")), text_of(result.get("token_type"))
    if cost_type and cost_type not in _COST_TYPES:
        note = f"cost_type {cost_type!r} is not known."
    elif token_type and token_type not in _CLASSES:
        note = f"token_type {token_type!r} is not known."
    else:
        note = _unknown_words(result)
    token_class = _CLASSES.get(token_type, TokenClass.OTHER)
    if cost_type in {"web_search", "code_execution"}:
        token_class = TokenClass.TOOL_CALL
    return [
        BillLine(
            line=line,
            account="",
            window_start=window[0],
            window_end=window[1],
            model_name=text_of(result.get("model")),
            tier=text_of(result.get("service_tier")),
            token_class=token_class,
            project=text_of(result.get("workspace_id")),
            quantity=None,
            unit="",
            # A shift of the decimal point: exact whatever the digits.
            amount=cents.scaleb(-_CENTS_DECIMALS),
            currency=upper_text_of(result.get("currency")),
            is_long_context=_CONTEXTS.get(text_of(result.get("context_window")), False),
            format_note=note,
            raw=raw,
            raw_row_hash=row_hash(window[0].isoformat(), raw),
        )
    ]


def _usage_lines(line: int, window: Window, result: Mapping[str, Any], raw: str) -> list[BillLine]:
    creation, tools = (_nested(result, name) for name in ("cache_creation", "server_tool_use"))
    counts = {
        TokenClass.INPUT_UNCACHED: optional_count(result, "uncached_input_tokens"),
        TokenClass.INPUT_CACHE_READ: optional_count(result, "cache_read_input_tokens"),
        TokenClass.INPUT_CACHE_WRITE_5M: optional_count(creation, "ephemeral_5m_input_tokens"),
        TokenClass.INPUT_CACHE_WRITE_1H: optional_count(creation, "ephemeral_1h_input_tokens"),
        TokenClass.OUTPUT: optional_count(result, "output_tokens"),
        TokenClass.TOOL_CALL: optional_count(tools, "web_search_requests"),
    }
    return by_class(
        counts,
        usage_line(
            line,
            window,
            raw,
            model_name=text_of(result.get("model")),
            tier=text_of(result.get("service_tier")),
            project=text_of(result.get("workspace_id")),
            format_note=_unknown_words(result),
            is_long_context=_CONTEXTS.get(text_of(result.get("context_window")), False),
        ),
    )


def _nested(result: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    nested = result.get(name)
    if nested is None:
        return {}
    if not isinstance(nested, dict):
        raise BadValue("invalid_quantity", f"{name} is no object.")
    return nested


def _unknown_words(result: Mapping[str, Any]) -> str:
    """Say which word of a result we do not know; empty where there is none."""
    tier, context = text_of(result.get("service_tier")), text_of(result.get("context_window"))
    if tier and tier not in _TIERS:
        return f"service_tier {tier!r} is not known."
    return "" if context in _CONTEXTS else f"context_window {context!r} is not known."
