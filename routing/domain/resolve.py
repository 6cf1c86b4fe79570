"""From the model name a row gives to a catalog entry and its pin."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from catalog.domain.records import Catalog, Endpoint, Model
from ground.errors import LanehouseError

NEAR_MATCH_COUNT = 3
SHOWN_NAME_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """A model and the exact snapshot that a spelling stands for."""

    model: Model
    model_snapshot: str


class ModelRefused(LanehouseError):
    """A row names a model that cannot be quoted; ``code`` says why and ``param`` names the field."""

    code = "unsupported_model"


def resolve_model(
    catalog: Catalog, name: str, endpoint: Endpoint, at: datetime, *, with_hints: bool = True
) -> ResolvedModel:
    """Give the model and pin that a name stands for.

    Near matches cost a comparison with every name, so a caller with many unknown names goes without hints.

    Raises:
        ModelRefused: ``unsupported_model`` with near matches, ``model_retired`` with the successor, or
            ``unsupported_endpoint`` when the model is not offered at this endpoint.
    """
    spelling = catalog.names.get(name)
    model = catalog.models.get(spelling.model_slug) if spelling else None
    if spelling is None or model is None:
        raise _unknown(catalog if with_hints else None, name)
    if model.retires_at is not None and model.retires_at <= at:
        raise _retired(model, name)
    if endpoint not in model.endpoints:
        offered = ", ".join(sorted(model.endpoints)) or "none"
        message = f"The model {shown(name)} is not offered at {endpoint.value}; it is offered at: {offered}."
        raise ModelRefused(message, code="unsupported_endpoint", param="url")
    return ResolvedModel(model=model, model_snapshot=spelling.model_snapshot)


def near_matches(names: Iterable[str], wanted: str) -> list[str]:
    """Give up to three known names that look like ``wanted``, best first."""
    return difflib.get_close_matches(wanted[:SHOWN_NAME_CHARACTERS], names, n=NEAR_MATCH_COUNT, cutoff=0.5)


def shown(name: str) -> str:
    """Give a customer's name fit for a message: quoted, shortened, without control characters."""
    cut = name if len(name) <= SHOWN_NAME_CHARACTERS else name[: SHOWN_NAME_CHARACTERS - 1] + "\u2026"
    return "'" + "".join(letter if letter.isprintable() else "\ufffd" for letter in cut) + "'"


def _unknown(catalog: Catalog | None, name: str) -> ModelRefused:
    close = near_matches(catalog.names, name) if catalog else []
    hint = f" Did you mean {', '.join(close)}?" if close else " GET /v1/models lists what is offered."
    return ModelRefused(
        f"The model {shown(name)} does not exist.{hint}", param="body.model", extra={"near_matches": close}
    )


def _retired(model: Model, name: str) -> ModelRefused:
    successor = model.successor_slug
    hint = f" Use {successor} instead." if successor else ""
    return ModelRefused(
        f"The model {shown(name)} is retired.{hint}",
        code="model_retired",
        param="body.model",
        extra={"successor": successor},
    )
