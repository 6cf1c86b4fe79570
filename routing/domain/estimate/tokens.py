"""Input, output and worst-case tokens of each row of one model group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from routing.domain.estimate.images import ImagePart, ImageRule, ceiling_image_tokens, estimated_image_tokens
from routing.domain.estimate.tables import WEIGHT_SCALE, Vocabulary
from routing.domain.estimate.tools import ToolCost, tool_cost
from routing.domain.estimate.weights import Literal, weigh_rows

TokenCounts = npt.NDArray[np.int64]

OUTPUT_BASE_TOKENS = 100
PUBLIC_BAND_PERCENT = 5
CLOSED_BAND_PERCENT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExtras:
    """What a row holds beside strings: tools (parsed), images, token lists, and constants."""

    tools: tuple[Any, ...] = ()
    tools_key: bytes = b""
    images: tuple[ImagePart, ...] = ()
    listed_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInput:
    """What the estimator needs to know of a group's rows, each sequence in row order.

    ``literals``: JSON string literals that count as text. ``message_counts``: messages (0 for embeddings, which have
    no framing). ``limits``: output tokens allowed, 0 where the row sets none. ``choices``: ``n``. ``extras``: by
    position within the group, only for rows that have any.
    """

    literals: Sequence[Sequence[Literal]]
    message_counts: TokenCounts
    limits: TokenCounts
    choices: TokenCounts
    extras: dict[int, RowExtras] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTokens:
    """Tokens per row; each array has one entry a row. ``*_high`` and ``*_low`` are the stated band, not a bound."""

    input_tokens: TokenCounts
    output_tokens: TokenCounts
    output_high_tokens: TokenCounts
    ceiling_input_tokens: TokenCounts
    ceiling_output_tokens: TokenCounts


def estimate_rows(
    group: GroupInput, vocabulary: Vocabulary, rule: ImageRule, *, max_output_tokens: int, makes_output: bool
) -> RowTokens:
    """Estimate the tokens of a group's rows and bound them.

    Input: weights clipped to the vocabulary's band, framing, tool constants, images. Output before any history:
    ``min(limit, input / 2 + 100)`` per choice. Ceiling: one token a byte, the same constants, and the limit.

    Args:
        group: The rows.
        vocabulary: Of the group's model.
        rule: Image formula of the group's model.
        max_output_tokens: The model's own limit, used where a row sets none and as a cap.
        makes_output: False for embeddings.
    """
    literals, constant, bound = _with_extras(group, vocabulary, rule)
    weighed = weigh_rows(literals, vocabulary)
    text = (weighed.scaled_tokens + WEIGHT_SCALE // 2) // WEIGHT_SCALE
    low = -(-weighed.text_bytes * vocabulary.band_low_per_mille // 1_000)
    high = weighed.text_bytes * vocabulary.band_high_per_mille // 1_000
    framing = np.where(
        group.message_counts > 0, group.message_counts * vocabulary.message_tokens + vocabulary.request_tokens, 0
    )
    input_tokens = np.clip(text, low, np.maximum(low, high)) + framing + constant
    ceiling_input = weighed.text_bytes + framing + bound
    output, output_high, ceiling_output = _outputs(group, input_tokens, max_output_tokens, makes_output=makes_output)
    return RowTokens(
        input_tokens=input_tokens,
        output_tokens=output,
        output_high_tokens=output_high,
        ceiling_input_tokens=np.maximum(ceiling_input, input_tokens),
        ceiling_output_tokens=ceiling_output,
    )


def band_percent(*, vocabulary_is_public: bool) -> int:
    """Give the stated half-width of the input estimate in percent, before a model has 50 settled rows."""
    return PUBLIC_BAND_PERCENT if vocabulary_is_public else CLOSED_BAND_PERCENT


def _outputs(
    group: GroupInput, input_tokens: TokenCounts, max_output_tokens: int, *, makes_output: bool
) -> tuple[TokenCounts, TokenCounts, TokenCounts]:
    if not makes_output:
        none = np.zeros_like(input_tokens)
        return none, none, none
    limit = np.where(group.limits > 0, np.minimum(group.limits, max_output_tokens), max_output_tokens)
    one = np.minimum(limit, input_tokens // 2 + OUTPUT_BASE_TOKENS)
    one_high = np.where(group.limits > 0, limit, np.minimum(limit, 2 * one))
    return one * group.choices, one_high * group.choices, limit * group.choices


def _with_extras(
    group: GroupInput, vocabulary: Vocabulary, rule: ImageRule
) -> tuple[Sequence[Sequence[Literal]], TokenCounts, TokenCounts]:
    """Give the literals with the tools' text, and the constants of estimate and ceiling per row."""
    constant = np.zeros(len(group.literals), dtype=np.int64)
    if not group.extras:
        return group.literals, constant, constant
    bound = constant.copy()
    literals = list(group.literals)
    costs: dict[bytes, ToolCost] = {}
    for position, extras in group.extras.items():
        constant[position] += extras.listed_tokens + sum(estimated_image_tokens(image, rule) for image in extras.images)
        bound[position] += extras.listed_tokens + sum(ceiling_image_tokens(image, rule) for image in extras.images)
        if extras.tools:
            cost = costs.get(extras.tools_key)
            if cost is None:
                cost = costs[extras.tools_key] = tool_cost(extras.tools, vocabulary)
            literals[position] = (*literals[position], cost.literal)
            constant[position] += cost.constant_tokens
            bound[position] += cost.ceiling_tokens
    return literals, constant, bound
