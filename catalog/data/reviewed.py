"""What people decided about the catalog, because no file of facts says it."""

from __future__ import annotations

import re
from typing import Any

# The day the facts were gathered: what had retired by then is not offered.
AS_OF = "2026-11-29"
PROVIDERS = {"openai": "OpenAI", "anthropic": "Anthropic", "bedrock": "AWS Bedrock", "azure": "Azure OpenAI"}

# Cross-region inference profiles. GovCloud (us-gov.) is left out: it needs an account of its own kind.
BEDROCK_PREFIXES = frozenset({"us", "eu", "apac", "au", "jp", "global"})

# Fine-tuning bases (a customer's own model id is needed), GovCloud, a Bedrock id without its maker, aliases whose
# dated snapshot has retired, and the billing name of an embedding model that no call takes.
EXCLUDED = re.compile(r"^ft:|^us-gov\.|^claude-sonnet-4-5-20250929-v1:0$|search-preview|text-embedding-ada-002-v2")

# Undated ids of a provider that dates only elsewhere: the one snapshot that ever stood behind each.
PINNED_BY = {"gpt-5-pro": "gpt-5-pro-2025-10-06"}

# Dated ids that the undated name does not mean; each is a model of its own. Azure and OpenAI date gpt-5.5 a day apart;
# until one of them says that it is one snapshot, they are two.
OLDER_SNAPSHOTS = frozenset({"gpt-4o-2024-05-13", "gpt-5.5-2026-04-24"})

# Job limits are published; the ceilings of enqueued tokens depend on the account's tier and are our working figures.
LIMITS: dict[str, dict[str, int]] = {
    "openai": {
        "enqueued_tokens_limit": 5_000_000_000,
        "minimum_rows": 1,
        "maximum_rows_per_job": 50_000,
        "maximum_bytes_per_job": 200_000_000,
    },
    "azure": {
        "enqueued_tokens_limit": 1_000_000_000,
        "minimum_rows": 1,
        "maximum_rows_per_job": 100_000,
        "maximum_bytes_per_job": 200_000_000,
    },
    "anthropic": {
        "enqueued_tokens_limit": 2_000_000_000,
        "minimum_rows": 1,
        "maximum_rows_per_job": 100_000,
        "maximum_bytes_per_job": 256_000_000,
    },
    "bedrock": {
        "enqueued_tokens_limit": 1_000_000_000,
        "minimum_rows": 100,
        "maximum_rows_per_job": 50_000,
        "maximum_bytes_per_job": 1_000_000_000,
    },
}

# Where our Bedrock account stands: an account sends to one region.
BEDROCK_REGION = "us-east-1"

# First match wins. Public: the maker publishes the tokenizer and the table was fitted to it. Everything else borrows
# the nearest table and gets the wide band.
_VOCABULARIES: tuple[tuple[str, str, bool], ...] = (
    (r"^gpt-4o|^gpt-4\.1|^o[134](-|$)|^gpt-5(-|$)|^openai\.gpt-oss", "o200k", True),
    (r"^text-embedding|^gpt-4(-|$)|^gpt-3\.5", "cl100k", True),
    (r"claude", "claude_legacy", False),
    (r"llama3", "llama3", True),
    (r"llama4", "llama3", False),
    (r"^qwen\.qwen3", "qwen3", True),
    (r"^deepseek\.v3", "deepseek3", True),
    (r"^google\.gemma-3", "gemma3", True),
    (r"ministral-3|mistral-large-3|devstral-2|magistral|voxtral", "tekken", True),
    (r"^mistral", "tekken", False),
)


def vocabulary(slug: str) -> tuple[str, bool]:
    """Give the token table for a model and whether it is the model's own."""
    for pattern, name, is_public in _VOCABULARIES:
        if re.search(pattern, slug):
            return name, is_public
    return "o200k", False


def endpoints(mode: str, maker: str) -> list[str]:
    """Give the endpoints that a model answers, by the mode that the facts state."""
    if mode == "embedding":
        return ["/v1/embeddings"]
    if mode == "responses":
        return ["/v1/responses"]
    return ["/v1/chat/completions", "/v1/responses"] if maker == "openai" else ["/v1/chat/completions"]


def is_carried(provider: str, region: str, model_id: str) -> bool:
    """Say whether the provider's adapter can carry a lane; Bedrock's speaks Claude's bodies and no other maker's."""
    return provider != "bedrock" or (region == BEDROCK_REGION and model_id.startswith("anthropic.claude-"))


def house_models() -> list[dict[str, Any]]:
    """Give the house slugs: fixed batch rates, no retirement date; tests, the sample and the docs use only these.

    The undated OpenAI names mean the snapshot that OpenAI's own alias means; the other dated id of ``gpt-4o`` at the
    same rate is a model of its own, so that a row that names it gets it.
    """
    gpt_4o = {"input": 1_250_000, "cached_input": 625_000, "output": 5_000_000}
    gpt_4o_list = {"input": 2_500_000, "cached_input": 1_250_000, "output": 10_000_000}
    mini = {"input": 75_000, "cached_input": 37_500, "output": 300_000}
    mini_list = {"input": 150_000, "cached_input": 75_000, "output": 600_000}
    return [
        _house_openai("gpt-4o", "gpt-4o-2024-08-06", gpt_4o, gpt_4o_list),
        _house_openai("gpt-4o-2024-11-20", "gpt-4o-2024-11-20", gpt_4o, gpt_4o_list),
        _house_openai("gpt-4o-mini", "gpt-4o-mini-2024-07-18", mini, mini_list),
        _house_haiku(),
        _house_sonnet(),
    ]


def _house(slug: str, maker: str, snapshot: str, names: dict[str, str], limits: tuple[int, int]) -> dict[str, Any]:
    table, is_public = vocabulary(slug)
    return {
        "slug": slug,
        "maker": maker,
        "model_snapshot": snapshot,
        "endpoints": endpoints("chat", maker),
        "vocabulary": table,
        "vocabulary_is_public": is_public,
        "max_input_tokens": limits[0],
        "max_output_tokens": limits[1],
        "successor_slug": None,
        "names": [{"name": name, "kind": kind} for name, kind in names.items()],
    }


def _house_lane(
    lane_id: str, provider: str, region: str, model_id: str, rates: dict[str, dict[str, int]]
) -> dict[str, Any]:
    return {
        "lane_id": lane_id,
        "provider": provider,
        "region": region,
        "model_id": model_id,
        "retires_on": None,
        **LIMITS[provider],
        **({} if is_carried(provider, region, model_id) else {"is_carried": False}),
        "rates": rates,
    }


def _house_openai(slug: str, snapshot: str, batch: dict[str, int], published: dict[str, int]) -> dict[str, Any]:
    names = {slug: "slug", **({snapshot: "dated"} if snapshot != slug else {})}
    rates = {"provider_batch": batch, "list": published}
    return {
        **_house(slug, "openai", snapshot, names, (128_000, 16_384)),
        "lanes": [_house_lane("openai-direct", "openai", "global", snapshot, rates)],
    }


def _house_haiku() -> dict[str, Any]:
    snapshot = "claude-3-5-haiku-20241022"
    names = {"claude-3-5-haiku": "slug", snapshot: "dated", "claude-3-5-haiku-latest": "alias"}
    batch = {"input": 400_000, "cached_input": 40_000, "cache_write_5m": 500_000, "output": 2_000_000}
    return {
        **_house("claude-3-5-haiku", "anthropic", snapshot, names, (200_000, 8_192)),
        "lanes": [_house_lane("anthropic-direct", "anthropic", "global", snapshot, {"provider_batch": batch})],
    }


def _house_sonnet() -> dict[str, Any]:
    """Give the two-lane house model; its health figures are the published example's, and no more than that."""
    snapshot = "claude-3-5-sonnet-20241022"
    on_bedrock = "anthropic.claude-3-5-sonnet-20241022-v2:0"
    names = {
        "anthropic.claude-3-5-sonnet": "slug",
        snapshot: "dated",
        "claude-3-5-sonnet": "alias",
        "claude-3-5-sonnet-latest": "alias",
        on_bedrock: "alias",
    }
    batch = {"input": 1_500_000, "output": 7_500_000}
    published = {"input": 3_000_000, "cached_input": 300_000, "cache_write_5m": 3_750_000, "output": 15_000_000}
    return {
        **_house("anthropic.claude-3-5-sonnet", "anthropic", snapshot, names, (200_000, 8_192)),
        "lanes": [
            {
                **_house_lane("anthropic-direct", "anthropic", "global", snapshot, {"provider_batch": batch}),
                "health": {"error_ppm": 3_000, "p95_dispatch_ms": 480, "p95_completion_minutes": 47},
            },
            {
                **_house_lane(
                    "anthropic-bedrock-us-east-1",
                    "bedrock",
                    "us-east-1",
                    on_bedrock,
                    {"provider_batch": batch, "list": published},
                ),
                "health": {"error_ppm": 11_000, "p95_dispatch_ms": 720, "p95_completion_minutes": 112},
            },
        ],
    }
