"""What a row used, from the ``usage`` member of an OpenAI body: chat, responses and embeddings."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from routing.providers.base import TokenUsage, UsageProblem

# More than any row can have; a larger number would break what stores it.
MAXIMUM_TOKENS = 2**31 - 1


class ReadUsage(NamedTuple):
    """Normalised tokens, and what was wrong with the numbers they were read from."""

    usage: TokenUsage
    problem: UsageProblem | None


_NOTHING = TokenUsage()
_Count = Annotated[int, msgspec.Meta(ge=0, le=MAXIMUM_TOKENS)]


class _PromptDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: _Count = 0
    cache_write_tokens: _Count = 0


class _CompletionDetails(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: _Count = 0


class ChatUsage(msgspec.Struct, frozen=True, gc=False):
    """The numbers of the common shape, as the provider says them."""

    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: _PromptDetails = _PromptDetails()
    completion_tokens_details: _CompletionDetails = _CompletionDetails()


_chat_decoder = msgspec.json.Decoder(ChatUsage)
_any_decoder = msgspec.json.Decoder()


def read_raw_usage(member: msgspec.Raw | None, *, has_output: bool) -> ReadUsage:
    """Normalise one ``usage`` member that is still JSON; as :func:`read_usage`.

    The common shape is decoded straight into its numbers, at a third of the time; every other goes the exact way.
    """
    if member is None:
        return ReadUsage(_NOTHING, UsageProblem.ABSENT)
    try:
        chat = _chat_decoder.decode(member)
    except msgspec.DecodeError:
        return _read_exactly(member, has_output=has_output)
    usage = consistent_usage(chat)
    return _read_exactly(member, has_output=has_output) if usage is None else ReadUsage(usage, None)


def consistent_usage(chat: ChatUsage) -> TokenUsage | None:
    """Normalise the common shape; None where a detail is larger than its whole."""
    cached, written = chat.prompt_tokens_details.cached_tokens, chat.prompt_tokens_details.cache_write_tokens
    reasoning = chat.completion_tokens_details.reasoning_tokens
    if cached + written > chat.prompt_tokens or reasoning > chat.completion_tokens:
        return None
    return TokenUsage(
        input_tokens=chat.prompt_tokens - cached - written,
        cached_input_tokens=cached,
        cache_write_5m_tokens=written,
        output_tokens=chat.completion_tokens,
        reasoning_tokens=reasoning,
    )


def normalised_usage(said: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Normalise many rows of the common shape at once, as :func:`consistent_usage` does one.

    Args:
        said: Columns of prompt, completion, cached, cache-written and reasoning tokens, as the provider says them.

    Returns:
        For each row the fields of :class:`TokenUsage` in their order, and whether no detail is larger than its whole.
    """
    prompt, completion, cached, written, reasoning = said
    tokens = np.zeros((len(prompt), 6), dtype=np.int64)
    for column, numbers in enumerate((prompt - cached - written, cached, written, 0, completion, reasoning)):
        tokens[:, column] = numbers
    return tokens, (tokens[:, 0] >= 0) & (reasoning <= completion)


def _read_exactly(member: msgspec.Raw, *, has_output: bool) -> ReadUsage:
    try:
        return read_usage(_any_decoder.decode(member), has_output=has_output)
    except (msgspec.DecodeError, RecursionError):
        return ReadUsage(_NOTHING, UsageProblem.MALFORMED)


def read_usage(member: object, *, has_output: bool) -> ReadUsage:
    """Normalise one ``usage`` member.

    At OpenAI cached and cache-written tokens are part of the input count, reasoning tokens part of the output count.
    So ``input + cached + written = prompt``, and output is taken as it is. A detail that cannot be read counts as
    zero, details larger than their whole are cut to it; both are told. Without readable input and output counts
    nothing is counted.

    Args:
        member: The decoded member; None where the body has none.
        has_output: False for embeddings, which report no output.

    References:
        Usage fields by endpoint: the provider's API reference for chat, responses and embeddings.
    """
    if member is None:
        return ReadUsage(_NOTHING, UsageProblem.ABSENT)
    if not isinstance(member, Mapping):
        return ReadUsage(_NOTHING, UsageProblem.MALFORMED)
    prefix = ("prompt", "completion") if "prompt_tokens" in member else ("input", "output")
    whole_input = _count(member.get(f"{prefix[0]}_tokens"))
    whole_output = _count(member.get(f"{prefix[1]}_tokens", None if has_output else 0))
    if whole_input is None or whole_output is None:
        return ReadUsage(_NOTHING, UsageProblem.MALFORMED)
    input_details = member.get(f"{prefix[0]}_tokens_details")
    output_details = member.get(f"{prefix[1]}_tokens_details")
    details = (
        _detail(input_details, "cached_tokens"),
        _detail(input_details, "cache_write_tokens"),
        _detail(output_details, "reasoning_tokens"),
    )
    cached, written, reasoning = (0 if each is None else each for each in details)
    problem = UsageProblem.MALFORMED if None in details else None
    if cached + written > whole_input or reasoning > whole_output:
        problem = UsageProblem.INCONSISTENT
        cached = min(cached, whole_input)
        written = min(written, whole_input - cached)
        reasoning = min(reasoning, whole_output)
    usage = TokenUsage(
        input_tokens=whole_input - cached - written,
        cached_input_tokens=cached,
        cache_write_5m_tokens=written,
        output_tokens=whole_output,
        reasoning_tokens=reasoning,
    )
    return ReadUsage(usage, problem)


def _count(value: object) -> int | None:
    """Give a token count; None for what is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAXIMUM_TOKENS else None


def _detail(details: object, name: str) -> int | None:
    """Give one detail: zero where it is not given, None where it is no count."""
    if details is None:
        return 0
    if not isinstance(details, Mapping):
        return None
    value = details.get(name)
    return 0 if value is None else _count(value)
