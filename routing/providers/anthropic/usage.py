"""Usage as Claude reports it, as each token counted once. Pure."""

from typing import Annotated, NamedTuple

import msgspec

from routing.providers.base import TokenUsage, UsageProblem

MAXIMUM_TOKENS = 10**12
_NOTHING = TokenUsage()
_NULL = b"null"

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAXIMUM_TOKENS)]


class ReadUsage(NamedTuple):
    """A normalised usage, and why it is not what the provider should have said."""

    usage: TokenUsage
    problem: UsageProblem | None


class _Written(msgspec.Struct, frozen=True):
    ephemeral_5m_input_tokens: _Count | None = None
    ephemeral_1h_input_tokens: _Count | None = None


class _Details(msgspec.Struct, frozen=True):
    thinking_tokens: _Count | None = None


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: _Count
    output_tokens: _Count
    cache_read_input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_creation: _Written | None = None
    output_tokens_details: _Details | None = None


class _Whole(msgspec.Struct, frozen=True):
    input_tokens: _Count
    output_tokens: _Count


_decode = msgspec.json.Decoder(_Usage).decode
_decode_whole = msgspec.json.Decoder(_Whole).decode


def read_usage(member: msgspec.Raw) -> ReadUsage:
    """Normalise one ``usage`` member.

    At Claude's sellers cached and cache-written tokens stand beside the input count, thinking tokens inside the output
    count. What was written is split by lifetime; without a split it lives 5 minutes. A split that does not add up to
    the total is brought to it, thinking over the output is cut to it, details that cannot be read count as zero; each
    is told. Without readable input and output counts nothing is counted.

    References:
        ``Usage`` in the provider's Messages reference.
    """
    if bytes(member) == _NULL:
        return ReadUsage(_NOTHING, UsageProblem.ABSENT)
    try:
        read = _decode(member)
    except (msgspec.DecodeError, RecursionError):
        return _read_whole(member)
    split = read.cache_creation or _Written()
    written_5m, written_1h = split.ephemeral_5m_input_tokens or 0, split.ephemeral_1h_input_tokens or 0
    written = read.cache_creation_input_tokens
    thinking = (read.output_tokens_details.thinking_tokens if read.output_tokens_details else None) or 0
    problem = None
    if written is not None and written != written_5m + written_1h:
        problem = UsageProblem.INCONSISTENT if read.cache_creation is not None else None
        written_1h = min(written_1h, written)
        written_5m = written - written_1h
    if thinking > read.output_tokens:
        problem = UsageProblem.INCONSISTENT
        thinking = read.output_tokens
    usage = TokenUsage(
        input_tokens=read.input_tokens,
        cached_input_tokens=read.cache_read_input_tokens or 0,
        cache_write_5m_tokens=written_5m,
        cache_write_1h_tokens=written_1h,
        output_tokens=read.output_tokens,
        reasoning_tokens=thinking,
    )
    return ReadUsage(usage, problem)


def chat_usage(usage: TokenUsage) -> dict[str, object]:
    """Give a usage in the names of OpenAI's chat completions, where all input stands in one count."""
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    whole_input = usage.input_tokens + usage.cached_input_tokens + written
    return {
        "prompt_tokens": whole_input,
        "completion_tokens": usage.output_tokens,
        "total_tokens": whole_input + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _read_whole(member: msgspec.Raw) -> ReadUsage:
    """Read what can be read where a detail is malformed."""
    try:
        whole = _decode_whole(member)
    except (msgspec.DecodeError, RecursionError):
        return ReadUsage(_NOTHING, UsageProblem.MALFORMED)
    usage = TokenUsage(input_tokens=whole.input_tokens, output_tokens=whole.output_tokens)
    return ReadUsage(usage, UsageProblem.MALFORMED)
