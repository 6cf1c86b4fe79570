"""Build the data file: ``python -m catalog.data.build FACTS.jsonl > catalog/data/catalog.json``.

Run by hand when the facts change; the product reads only the result. Facts are one JSON object a line: provider,
model_id, mode, integer rates in micro-USD per million tokens, limits, ``deprecation_date``, ``successor_model``. What
no fact says stands in ``reviewed.py``: makers, vocabularies, limits, equal snapshots, house slugs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from catalog.data import reviewed

Fact = dict[str, Any]
_KINDS = ("input", "cached_input", "cache_write", "output")
_DATED = re.compile(r"^(?P<family>.+?)-(?P<date>20\d\d-\d\d-\d\d|20\d{6})$")
_BEDROCK_REVISION = re.compile(r"-v\d+:\d+$|-\d+:\d+$")


def main(facts_path: Path) -> None:
    """Print the document."""
    facts = [json.loads(line) for line in facts_path.read_text(encoding="utf-8").splitlines() if line]
    print(json.dumps(build_document(facts), indent=1))  # noqa: T201 -- the result


def build_document(facts: list[Fact]) -> dict[str, Any]:
    """Give the document: house models first, then every other model on offer, then the retired ones without lanes."""
    models = {model["slug"]: model for model in reviewed.house_models()}
    taken = {name["name"] for model in models.values() for name in model["names"]}
    for entry in _offered(facts):
        if not taken & {entry["snapshot"], entry["slug"], *entry["names"]}:
            _add(models, entry)
    _retire(models, facts)
    return {
        "facts_as_of": reviewed.AS_OF,
        "providers_with_adapter": ["openai", "anthropic", "bedrock"],
        "providers": [{"slug": slug, "name": name} for slug, name in reviewed.PROVIDERS.items()],
        "models": [_finished(models[slug]) for slug in sorted(models)],
    }


def _offered(facts: list[Fact]) -> Iterator[dict[str, Any]]:
    """Give the lanes on offer: a batch rate, one of our providers, not retired, not ruled out by review."""
    on_offer = [
        fact
        for fact in facts
        if fact["provider"] in reviewed.PROVIDERS
        and "batch_input_rate_micro_usd_per_mtok" in fact
        and fact.get("deprecation_date", "9999") > reviewed.AS_OF
        and not reviewed.EXCLUDED.search(fact["model_id"])
    ]
    # An undated id beside a dated one of its provider only repeats it: the dated one is the pin, the other its alias.
    dated = {(fact["provider"], match["family"]) for fact in on_offer if (match := _DATED.match(_spelling(fact)))}
    for fact in on_offer:
        if fact["provider"] == "bedrock":
            yield _bedrock_entry(fact)
        elif (fact["provider"], _spelling(fact)) not in dated:
            yield _direct_entry(fact)


def _spelling(fact: Fact) -> str:
    return str(fact["model_id"]).removeprefix("azure/")


def _direct_entry(fact: Fact) -> dict[str, Any]:
    """Give the entry of an id spelled the maker's way (OpenAI, Anthropic, Azure)."""
    spelling = _spelling(fact)
    snapshot = reviewed.PINNED_BY.get(spelling, spelling)
    match = _DATED.match(snapshot)
    slug = match["family"] if match and snapshot not in reviewed.OLDER_SNAPSHOTS else snapshot
    maker = "anthropic" if fact["provider"] == "anthropic" else "openai"
    azure = fact["provider"] == "azure"
    return {
        "fact": fact,
        "slug": slug,
        "snapshot": snapshot,
        "maker": maker,
        "names": {slug: "slug", **({snapshot: "dated"} if snapshot != slug else {})},
        "provider": fact["provider"],
        "region": "global",
        "lane_id": "openai-azure-global" if azure else f"{maker}-direct",
        "model_id": spelling,
    }


def _bedrock_entry(fact: Fact) -> dict[str, Any]:
    """Give the entry of a Bedrock id: its region prefix is the lane's region; Claude shares the maker's snapshot."""
    prefix, _, rest = fact["model_id"].partition(".")
    region, base = (prefix, rest) if prefix in reviewed.BEDROCK_PREFIXES else ("us-east-1", fact["model_id"])
    maker, _, _ = base.partition(".")
    plain = _BEDROCK_REVISION.sub("", base)
    if maker == "anthropic":
        snapshot = plain.removeprefix("anthropic.")
        match = _DATED.match(snapshot)
        slug = match["family"] if match else snapshot
        names = {slug: "slug", snapshot: "dated" if match else "slug", base: "alias"}
    else:
        snapshot, slug = base, plain
        names = {plain: "slug", **({base: "dated"} if base != plain else {})}
    return {
        "fact": fact,
        "slug": slug,
        "snapshot": snapshot,
        "maker": maker,
        "names": names,
        "provider": "bedrock",
        "region": region,
        "lane_id": f"{maker}-bedrock-{region}",
        "model_id": fact["model_id"],
    }


def _add(models: dict[str, Any], entry: dict[str, Any]) -> None:
    fact = entry["fact"]
    vocabulary, is_public = reviewed.vocabulary(entry["slug"])
    model = models.setdefault(
        entry["slug"],
        {
            "slug": entry["slug"],
            "maker": entry["maker"],
            "model_snapshot": entry["snapshot"],
            "endpoints": reviewed.endpoints(fact["mode"], entry["maker"]),
            "vocabulary": vocabulary,
            "vocabulary_is_public": is_public,
            "max_input_tokens": fact["max_input_tokens"],
            "max_output_tokens": fact.get("max_output_tokens") or 0,
            "successor_slug": fact.get("successor_model"),
            "names": [],
            "lanes": [],
        },
    )
    if model["model_snapshot"] != entry["snapshot"]:
        raise SystemExit(f"{entry['slug']} pins both {model['model_snapshot']} and {entry['snapshot']}")
    known = {name["name"] for name in model["names"]}
    model["names"] += [{"name": name, "kind": kind} for name, kind in entry["names"].items() if name not in known]
    # The narrowest limit of any lane: a row that fits the model fits each of its lanes.
    model["max_input_tokens"] = min(model["max_input_tokens"], fact["max_input_tokens"])
    model["max_output_tokens"] = min(model["max_output_tokens"], fact.get("max_output_tokens") or 0)
    model["lanes"].append(
        {
            "lane_id": entry["lane_id"],
            "provider": entry["provider"],
            "region": entry["region"],
            "model_id": entry["model_id"],
            "retires_on": fact.get("deprecation_date"),
            **reviewed.LIMITS[entry["provider"]],
            **(
                {}
                if reviewed.is_carried(entry["provider"], entry["region"], entry["model_id"])
                else {"is_carried": False}
            ),
            "rates": {"provider_batch": _published(fact, "batch_"), "list": _published(fact, "")},
        }
    )


def _published(fact: Fact, prefix: str) -> dict[str, int]:
    rates = {
        kind: fact[f"{prefix}{kind}_rate_micro_usd_per_mtok"]
        for kind in _KINDS
        if f"{prefix}{kind}_rate_micro_usd_per_mtok" in fact
    }
    if "cache_write" in rates:
        rates["cache_write_5m"] = rates.pop("cache_write")
    return rates


def _retire(models: dict[str, Any], facts: Iterable[Fact]) -> None:
    """Add the retired ids of OpenAI and Anthropic without lanes, so that each can be answered by its successor."""
    taken = {name["name"] for model in models.values() for name in model["names"]}
    for fact in facts:
        spelling, retired_on = fact["model_id"], fact.get("deprecation_date")
        if (
            fact["provider"] not in {"openai", "anthropic"}
            or not retired_on
            or retired_on > reviewed.AS_OF
            or spelling in taken
            or spelling.startswith("ft:")
        ):
            continue
        maker = fact["provider"]
        vocabulary, is_public = reviewed.vocabulary(spelling)
        models[spelling] = {
            "slug": spelling,
            "maker": maker,
            "model_snapshot": spelling,
            "endpoints": reviewed.endpoints(fact["mode"], maker),
            "vocabulary": vocabulary,
            "vocabulary_is_public": is_public,
            "max_input_tokens": fact.get("max_input_tokens") or 0,
            "max_output_tokens": fact.get("max_output_tokens") or 0,
            "retires_on": retired_on,
            "successor_slug": fact.get("successor_model"),
            "names": [{"name": spelling, "kind": "slug"}],
            "lanes": [],
        }
    successor_of = {fact["model_id"]: fact.get("successor_model") for fact in facts}
    names = {name["name"]: slug for slug, model in models.items() for name in model["names"]}
    for model in models.values():
        model["successor_slug"] = _living_successor(model["successor_slug"], successor_of, names, models)


def _living_successor(
    named: str | None, successor_of: dict[str, str | None], names: dict[str, str], models: dict[str, Any]
) -> str | None:
    """Give the first model on offer along the chain of successors."""
    for _ in range(len(successor_of)):
        if named is None or models.get(names.get(named, ""), {}).get("lanes"):
            break
        named = successor_of.get(named)
    return names.get(named) if named else None


def _finished(model: dict[str, Any]) -> dict[str, Any]:
    """Give the model with its lanes in order; it retires with the last of them."""
    lanes = sorted(model["lanes"], key=lambda lane: lane["lane_id"])
    dates = [lane["retires_on"] for lane in lanes]
    retires_on = model.get("retires_on") or (max(dates) if dates and None not in dates else None)
    return {**model, "retires_on": retires_on, "lanes": lanes}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
