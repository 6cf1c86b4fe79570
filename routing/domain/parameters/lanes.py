"""Families of lanes by how they take a row, and what the models behind them take."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache

from catalog.domain.records import Endpoint

_CLAUDE = re.compile(
    r"""
    claude-(?P<major>\d{1,2})(?:-(?P<minor>\d{1,2}))?-[a-z]                       # claude-3-5-haiku
    | claude-[a-z]+-(?P<new_major>\d{1,2})(?:-(?P<new_minor>\d{1,2}))?(?!\d)      # claude-haiku-4-5, claude-opus-5
    """,
    re.VERBOSE,
)
_ONE_SAMPLING_FROM = (4, 1)
_STRUCTURED_FROM = (4, 5)
_EFFORT_FROM = (4, 6)
_NO_SAMPLING_FROM = (4, 7)


class Family(enum.StrEnum):
    """How a lane wants its rows."""

    OPENAI = "openai"
    AZURE = "azure"
    ANTHROPIC = "anthropic"
    BEDROCK_CLAUDE = "bedrock_claude"


class Sampling(enum.StrEnum):
    """Which of ``temperature`` and ``top_p`` a model takes."""

    BOTH = "both"
    EITHER = "either"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeTraits:
    """What a Claude model takes of what chat rows ask."""

    sampling: Sampling
    structured_outputs: bool
    effort: bool
    highest_effort: bool


_ENDPOINTS = {
    Family.OPENAI: frozenset(Endpoint),
    Family.AZURE: frozenset(Endpoint),
    Family.ANTHROPIC: frozenset({Endpoint.CHAT_COMPLETIONS}),
    Family.BEDROCK_CLAUDE: frozenset({Endpoint.CHAT_COMPLETIONS}),
}


def family_of(provider: str, model_id: str) -> Family | None:
    """Give the family of a lane by its provider and its spelling of the model; None where nobody has looked yet."""
    if provider == "bedrock":
        return Family.BEDROCK_CLAUDE if "anthropic.claude-" in model_id else None
    return {"openai": Family.OPENAI, "azure": Family.AZURE, "anthropic": Family.ANTHROPIC}.get(provider)


def offers(family: Family, endpoint: Endpoint) -> bool:
    """Tell whether lanes of a family can carry rows of an endpoint."""
    return endpoint in _ENDPOINTS[family]


@lru_cache(maxsize=256)
def claude_traits(model_id: str) -> ClaudeTraits:
    """Give what a Claude model takes, by the generation in its name, in whatever spelling.

    From 4.1 on a request may hold one of ``temperature`` and ``top_p``; from 4.7 on neither. Answers held to a schema
    exist from 4.5 on, effort from 4.6 (its highest step from 4.7). A name that says no generation is taken for the
    newest, which takes least.

    References:
        The provider's migration guides for Claude 4.1 and 4.7, and its pages on structured outputs and effort.
    """
    match = _CLAUDE.search(model_id)
    generation = (99, 0)
    if match:
        generation = (
            int(match["major"] or match["new_major"]),
            int(match["minor"] or match["new_minor"] or 0),
        )
    if generation >= _NO_SAMPLING_FROM:
        sampling = Sampling.NEITHER
    else:
        sampling = Sampling.EITHER if generation >= _ONE_SAMPLING_FROM else Sampling.BOTH
    return ClaudeTraits(
        sampling=sampling,
        structured_outputs=generation >= _STRUCTURED_FROM,
        effort=generation >= _EFFORT_FROM,
        highest_effort=generation >= _NO_SAMPLING_FROM,
    )
