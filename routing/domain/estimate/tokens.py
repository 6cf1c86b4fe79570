"""Input, output and worst-case tokens of each row of one model group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from routing.domain.estimate.images import ImagePart, ImageRule, ceiling_image_tokens, estimated_image_tokens
from routing.domain.estimate.tables import WEIGHT_SCALE, Vocabulary
from routing.domain.estimate.tools import ToolCost, schema_constants, tool_cost
from routing.domain.estimate.weights import RowLiterals, RowTexts, prepare_texts, weigh_rows

TokenCounts = npt.NDArray[np.int64]

ONE_PPM = 1_000_000
OUTPUT_BASE_TOKENS = 100
PUBLIC_BAND_PERCENT = 5
CLOSED_BAND_PERCENT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExtras:
    """What a row holds beside strings: tools (parsed), images, token lists, and whether its answer has a schema."""

    tools: tuple[Any, ...] = ()
    tools_key: bytes = b""
    images: tuple[ImagePart, ...] = ()
    listed_tokens: int = 0
    has_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowFacts:
    """What the estimator needs to know of rows besides their strings; one entry a row, in the order of the strings.

    ``message_counts`` is 0 for embeddings, which have no framing. ``limits`` are output tokens allowed, 0 where the row
    sets none. ``choices`` is ``n``. ``extras`` is by position, only for rows that have any.
    """

    message_counts: TokenCounts
    limits: TokenCounts
    choices: TokenCounts
    extras: dict[int, RowExtras] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRules:
    """How a model counts and what it can put out; ``makes_output`` is False for embeddings."""

    vocabulary: Vocabulary
    image_rule: ImageRule
    max_output_tokens: int
    makes_output: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRatios:
    """What settled rows taught, in parts per million of the formula's figures: one for all rows, or one each.

    ``output_ppm`` None: no history, the prior holds; then so does the prior's high.
    """

    input_ppm: int | TokenCounts = ONE_PPM
    output_ppm: int | TokenCounts | None = None
    output_high_ppm: int | None = None


BY_FORMULA = RowRatios()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowInputs:
    """Input tokens per row by the formula alone.

    ``counted_tokens`` are text, framing and tools, ``given_tokens`` images and token lists, which no ratio touches;
    ``lowest_tokens`` and ``ceiling_tokens`` bound both together.
    """

    counted_tokens: TokenCounts
    given_tokens: TokenCounts
    lowest_tokens: TokenCounts
    ceiling_tokens: TokenCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTokens:
    """Tokens per row; each array has one entry a row. ``*_high`` and ``*_low`` are the stated band, not a bound."""

    input_tokens: TokenCounts
    output_tokens: TokenCounts
    output_high_tokens: TokenCounts
    ceiling_input_tokens: TokenCounts
    ceiling_output_tokens: TokenCounts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighed:
    """What the strings of rows weigh: tokens x ``WEIGHT_SCALE`` and UTF-8 bytes, one entry a row."""

    scaled: TokenCounts
    text_bytes: TokenCounts

    @classmethod
    def of(cls, texts: RowTexts, first: int, count: int, vocabulary: Vocabulary) -> Self:
        """Weigh so many rows from position ``first`` on."""
        stop = first + count
        return cls(scaled=weigh_rows(texts, first, stop, vocabulary), text_bytes=texts.text_bytes[first:stop])


def estimate_rows(weighed: Weighed, facts: RowFacts, rules: ModelRules, ratios: RowRatios = BY_FORMULA) -> RowTokens:
    """Estimate the tokens of a group's rows and bound them.

    Input: the formula's, times the ratio. Output: ``min(limit, input / 2 + 100)`` per choice, times the ratio, within
    the limit. The ceiling knows no ratio: one token a byte, the same constants, and the limit.

    Args:
        weighed: The strings of the group's rows, by the model's vocabulary.
        facts: The group's rows, one after the other.
        rules: Of the group's model.
        ratios: What settled rows taught.
    """
    inputs = count_inputs(weighed, facts, rules)
    input_tokens = inputs.counted_tokens
    if ratios is not BY_FORMULA:
        input_tokens = (input_tokens * ratios.input_ppm + ONE_PPM // 2) // ONE_PPM
    input_tokens = np.minimum(input_tokens + inputs.given_tokens, inputs.ceiling_tokens)
    output, output_high, ceiling_output = _outputs(facts, input_tokens, rules, ratios)
    return RowTokens(
        input_tokens=input_tokens,
        output_tokens=output,
        output_high_tokens=output_high,
        ceiling_input_tokens=inputs.ceiling_tokens,
        ceiling_output_tokens=ceiling_output,
    )


def count_inputs(weighed: Weighed, facts: RowFacts, rules: ModelRules) -> RowInputs:
    """Count a group's input by the formula: weights clipped to the vocabulary's band, framing, tools, images."""
    vocabulary, scaled, text_bytes = rules.vocabulary, weighed.scaled, weighed.text_bytes
    constant, given, bound, tools = _extras(facts, rules)
    if tools:
        places = {literal: index for index, literal in enumerate(dict.fromkeys(tools.values()))}
        texts = prepare_texts(RowLiterals.of([(literal,) for literal in places]))
        which = [places[literal] for literal in tools.values()]
        positions = list(tools)
        scaled, text_bytes = scaled.copy(), text_bytes.copy()
        scaled[positions] += weigh_rows(texts, 0, len(texts), vocabulary)[which]
        text_bytes[positions] += texts.text_bytes[which]
    text = (scaled + WEIGHT_SCALE // 2) // WEIGHT_SCALE
    low = -(-text_bytes * vocabulary.band_low_per_mille // 1_000)
    high = text_bytes * vocabulary.band_high_per_mille // 1_000
    framing = facts.message_counts * vocabulary.message_tokens + (facts.message_counts > 0) * vocabulary.request_tokens
    counted = np.clip(text, low, np.maximum(low, high)) + framing + constant
    return RowInputs(
        counted_tokens=counted,
        given_tokens=given,
        lowest_tokens=low + given,
        ceiling_tokens=np.maximum(text_bytes + framing + bound, counted + given),
    )


def band_percent(*, vocabulary_is_public: bool) -> int:
    """Give the stated half-width of the input estimate in percent, before a model has 50 settled rows."""
    return PUBLIC_BAND_PERCENT if vocabulary_is_public else CLOSED_BAND_PERCENT


def output_priors(facts: RowFacts, input_tokens: TokenCounts, rules: ModelRules) -> TokenCounts:
    """Give what a row is taken to put out before any history, per choice: ``min(limit, input / 2 + 100)``."""
    return np.minimum(_output_limits(facts, rules), input_tokens // 2 + OUTPUT_BASE_TOKENS)


def output_ceilings(facts: RowFacts, rules: ModelRules) -> TokenCounts:
    """Give the most that rows can put out, all choices together."""
    return _output_limits(facts, rules) * facts.choices if rules.makes_output else np.zeros_like(facts.limits)


def _output_limits(facts: RowFacts, rules: ModelRules) -> TokenCounts:
    is_limited = facts.limits > 0
    return np.where(is_limited, np.minimum(facts.limits, rules.max_output_tokens), rules.max_output_tokens)


def _outputs(
    facts: RowFacts, input_tokens: TokenCounts, rules: ModelRules, ratios: RowRatios
) -> tuple[TokenCounts, TokenCounts, TokenCounts]:
    """Give estimate, high and ceiling of the output."""
    if not rules.makes_output:
        none = np.zeros_like(input_tokens)
        return none, none, none
    limit = _output_limits(facts, rules)
    one = output_priors(facts, input_tokens, rules)
    if ratios.output_ppm is not None:
        one = np.minimum(limit, np.maximum(1, (one * ratios.output_ppm + ONE_PPM // 2) // ONE_PPM))
    if ratios.output_high_ppm is None:
        one_high = np.where(facts.limits > 0, limit, np.minimum(limit, 2 * one))
    else:
        one_high = np.minimum(limit, -(-one * ratios.output_high_ppm // ONE_PPM))
    return one * facts.choices, one_high * facts.choices, limit * facts.choices


def _extras(facts: RowFacts, rules: ModelRules) -> tuple[TokenCounts, TokenCounts, TokenCounts, dict[int, bytes]]:
    """Give per row the tools' constants, what images and token lists are, the ceiling of both, and the tools' texts.

    The texts are literals by position.
    """
    constant = np.zeros(len(facts.limits), dtype=np.int64)
    if not facts.extras:
        return constant, constant, constant, {}
    given, bound, rule = constant.copy(), constant.copy(), rules.image_rule
    literals: dict[int, bytes] = {}
    costs: dict[bytes, ToolCost] = {}
    schema_constant, schema_bound = schema_constants(rules.vocabulary)
    for position, extras in facts.extras.items():
        if extras.images or extras.listed_tokens:
            given[position] += extras.listed_tokens + sum(
                estimated_image_tokens(image, rule) for image in extras.images
            )
            bound[position] += extras.listed_tokens + sum(ceiling_image_tokens(image, rule) for image in extras.images)
        if extras.tools:
            cost = costs.get(extras.tools_key)
            if cost is None:
                cost = costs[extras.tools_key] = tool_cost(extras.tools, rules.vocabulary)
            literals[position] = cost.literal
            constant[position] += cost.constant_tokens
            bound[position] += cost.ceiling_tokens
        elif extras.has_schema:
            constant[position] += schema_constant
            bound[position] += schema_bound
    return constant, given, bound, literals
