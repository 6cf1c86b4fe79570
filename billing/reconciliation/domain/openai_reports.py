"""OpenAI's costs and usage pages.

Traps (platform.openai.com, Usage API): money is a JSON number of dollars; input tokens include cached and
cache-write ones; times are Unix seconds, the end exclusive; the currency is in lower case; detail is null
unless grouped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO, Final

from billing.reconciliation.domain.pages import Pages
from billing.reconciliation.domain.records import BadLine, BillLine, FileEnd, Item, ReadOptions, TokenClass
from billing.reconciliation.domain.values import (
    BadValue,
    amount_of,
    checked_window,
    count_of,
    lower_text_of,
    optional_count,
    raw_text,
    row_hash,
    text_of,
    unix_instant,
    upper_text_of,
)

Window = tuple[datetime, datetime]
ResultReader = Callable[[int, Window, Mapping[str, Any], str], list[BillLine]]
_TIERS: Final = ("batch", "flex", "priority", "standard")
_OUR_WORDS: Final = frozenset(token_class.value for token_class in TokenClass)
_CLASS_WORDS: Final = (
    # The longer words first: each holds one of the later.
    (re.compile(r"cache[d]?[ _-]?writ|cache creation"), TokenClass.INPUT_CACHE_WRITE_5M),
    (re.compile(r"cache"), TokenClass.INPUT_CACHE_READ),
    (re.compile(r"output|completion"), TokenClass.OUTPUT),
    (re.compile(r"input|prompt"), TokenClass.INPUT_UNCACHED),
    (re.compile(r"search|tool|code interpreter"), TokenClass.TOOL_CALL),
)


def read_costs(stream: BinaryIO, _options: ReadOptions) -> Iterator[Item]:
    """Read the pages of ``GET /v1/organization/costs``."""
    return read_pages(stream, unix_window, _cost_lines)


def read_usage(stream: BinaryIO, _options: ReadOptions) -> Iterator[Item]:
    """Read the pages of ``GET /v1/organization/usage/completions``: quantities without money."""
    return read_pages(stream, unix_window, _usage_lines)


def read_pages(
    stream: BinaryIO, window_of: Callable[[Mapping[str, Any]], Window], lines_of: ResultReader
) -> Iterator[Item]:
    """Read pages of buckets with results; a result that cannot be read is a bad line, and the others are read on."""
    pages = Pages(stream)
    line = 0
    for buckets in pages:
        for bucket in buckets:
            results = bucket.get("results") if isinstance(bucket, dict) else None
            if not isinstance(results, list):
                line += 1
                raw = raw_text(json.dumps(bucket, default=str))
                yield BadLine(line=line, code="invalid_bucket", message="The bucket has no results.", raw=raw)
                continue
            for result in results:
                line += 1
                raw = raw_text(json.dumps(result, default=str, sort_keys=True))
                try:
                    yield from lines_of(line, window_of(bucket), _object(result), raw)
                except BadValue as error:
                    yield BadLine(line=line, code=error.code, message=error.message, raw=raw)
    yield FileEnd(page_count=pages.page_count, incomplete_reason=pages.incomplete_reason())


def _object(result: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- what a file holds
    if not isinstance(result, dict):
        raise BadValue("invalid_result", "The result is no object.")
    return result


def unix_window(bucket: Mapping[str, Any]) -> Window:
    """Give a bucket's window from its Unix seconds."""
    start, end = (unix_instant(bucket.get(name), name=name) for name in ("start_time", "end_time"))
    return checked_window(start, end)


def token_class_in(words: str) -> TokenClass:
    """Give the class that a provider's words mean, ours taken to the letter; ``other`` for words we do not know."""
    lowered = words.lower()
    if lowered in _OUR_WORDS:
        return TokenClass(lowered)
    return next((token_class for word, token_class in _CLASS_WORDS if word.search(lowered)), TokenClass.OTHER)


def tier_in(words: str) -> str:
    """Give the tier among a provider's words; empty where there is none."""
    lowered = words.lower()
    return next((tier for tier in _TIERS if tier in lowered), "")


def _cost_lines(line: int, window: Window, result: Mapping[str, Any], raw: str) -> list[BillLine]:
    money = result.get("amount")
    if not isinstance(money, dict):
        raise BadValue("invalid_amount", "The result has no amount.")
    item = text_of(result.get("line_item"))
    name, _, words = item.rpartition(", ")
    if not name:
        # "web search tool calls", or a model by itself.
        name, words = ("", item) if token_class_in(item) is TokenClass.TOOL_CALL else (item, "")
    quantity = result.get("quantity")
    project = text_of(result.get("project_id"))
    return [
        BillLine(
            line=line,
            account=text_of(result.get("organization_id")),
            window_start=window[0],
            window_end=window[1],
            model_name=name,
            tier=tier_in(words),
            token_class=token_class_in(words),
            project=project,
            quantity=None if quantity is None else count_of(quantity, name="quantity"),
            unit=text_of(result.get("quantity_unit")),
            amount=amount_of(money.get("value"), name="amount.value"),
            currency=upper_text_of(money.get("currency")),
            raw=raw,
            raw_row_hash=row_hash(window[0].isoformat(), raw),
        )
    ]


def _usage_lines(line: int, window: Window, result: Mapping[str, Any], raw: str) -> list[BillLine]:
    input_tokens = count_of(result.get("input_tokens"), name="input_tokens")
    cached = optional_count(result, "input_cached_tokens")
    written = optional_count(result, "input_cache_write_tokens")
    uncached = input_tokens - cached - written
    note = ""
    if uncached < 0:
        note = f"Of {input_tokens} input tokens {cached + written} are said to be cached or written to the cache."
        uncached = 0
    stated = result.get("input_uncached_tokens")
    if stated is not None and count_of(stated, name="input_uncached_tokens") != uncached:
        note = note or f"input_uncached_tokens is {stated}; input less cached and cache-write is {uncached}."
    counts = {
        TokenClass.INPUT_UNCACHED: uncached,
        TokenClass.INPUT_CACHE_READ: cached,
        TokenClass.INPUT_CACHE_WRITE_5M: written,
        TokenClass.OUTPUT: count_of(result.get("output_tokens"), name="output_tokens"),
    }
    tier = "batch" if result.get("batch") is True else lower_text_of(result.get("service_tier"))
    return by_class(
        counts,
        usage_line(
            line,
            window,
            raw,
            model_name=text_of(result.get("model")),
            tier="" if tier == "default" else tier,
            project=text_of(result.get("project_id")),
            format_note=note,
        ),
    )


def usage_line(line: int, window: Window, raw: str, **known: Any) -> BillLine:  # noqa: ANN401 -- fields of a line
    """Give a line of usage without money, of no class yet."""
    return BillLine(
        line=line,
        account="",
        window_start=window[0],
        window_end=window[1],
        token_class=TokenClass.OTHER,
        quantity=0,
        unit="",
        amount=None,
        currency="USD",
        raw=raw,
        raw_row_hash=b"",
        **known,
    )


def by_class(counts: Mapping[TokenClass, int], usage: BillLine) -> list[BillLine]:
    """Give a result of usage as one line for each class that counts something (or the first, where none does)."""
    counted = {each: quantity for each, quantity in counts.items() if quantity} or dict(list(counts.items())[:1])
    return [
        replace(
            usage,
            token_class=token_class,
            quantity=quantity,
            unit="requests" if token_class is TokenClass.TOOL_CALL else "tokens",
            raw_row_hash=row_hash(usage.window_start.isoformat(), token_class.value, usage.raw),
        )
        for token_class, quantity in counted.items()
    ]
