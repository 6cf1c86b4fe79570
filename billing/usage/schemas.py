"""Usage in ``/v1``: OpenAI's buckets and results, with what we add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ninja import Schema

from accounts.models import ApiKey
from billing.usage.reading import Dimension, UsageSums


class UsageResultAnswer(Schema):
    """The usage of one group in one bucket. What it is not grouped by is null.

    `input_tokens` are all input tokens, as OpenAI counts them; the three kinds beside it are its parts.
    """

    object: Literal["organization.usage.completions.result"] = "organization.usage.completions.result"
    input_tokens: int
    input_uncached_tokens: int
    input_cached_tokens: int
    input_cache_write_tokens: int
    output_tokens: int
    num_model_requests: int
    usage_charge_micro_usd: int
    fee_micro_usd: int
    charge_micro_usd: int
    project_id: None = None
    user_id: None = None
    api_key_id: str | None = None
    model: str | None = None
    lane_id: str | None = None
    batch_id: str | None = None

    @classmethod
    def of(cls, sums: UsageSums, group: Mapping[Dimension, Any], keys: Mapping[int, ApiKey]) -> UsageResultAnswer:
        """Shape a group; a batch that was accepted without a key has none."""
        key = keys.get(group.get(Dimension.KEY, 0))
        return cls(
            input_tokens=sums.prompt_tokens,
            input_uncached_tokens=sums.input_tokens,
            input_cached_tokens=sums.cached_input_tokens,
            input_cache_write_tokens=sums.cache_write_tokens,
            output_tokens=sums.output_tokens,
            num_model_requests=sums.request_count,
            usage_charge_micro_usd=sums.usage_charge_micro_usd,
            fee_micro_usd=sums.fee_micro_usd,
            charge_micro_usd=sums.charge_micro_usd,
            api_key_id=key.public_id if key else None,
            model=group.get(Dimension.MODEL),
            lane_id=group.get(Dimension.LANE),
            batch_id=group.get(Dimension.BATCH),
        )


class UsageBucketAnswer(Schema):
    """A bucket: from `start_time` to before `end_time`, in Unix seconds. Without usage it has no results."""

    object: Literal["bucket"] = "bucket"
    start_time: int
    end_time: int
    results: list[UsageResultAnswer]


class UsagePageAnswer(Schema):
    """A page of buckets, oldest first. `zone` says whose days and hours they are."""

    object: Literal["page"] = "page"
    data: list[UsageBucketAnswer]
    has_more: bool
    next_page: str | None
    zone: str
