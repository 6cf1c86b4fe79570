"""``GET /v1/models`` and ``/v1/models/{id}``: what may be named in a row, at which rates."""

from __future__ import annotations

from collections import defaultdict

from django.http import HttpRequest
from ninja import Router

from catalog.domain.records import Catalog, Model
from catalog.schemas import ModelListOut, ModelOut, model_out
from catalog.selectors import current_catalog
from ground import clock
from ground.errors import NotFound

router = Router(tags=["models"])


@router.get("/models", response=ModelListOut)
def list_models(request: HttpRequest) -> ModelListOut:  # noqa: ARG001 -- ninja hands it to every operation
    """Give all models that have not retired, by slug."""
    catalog = current_catalog()
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name in catalog.names.values():
        names[name.model_slug].append(name.name)
    return ModelListOut(
        object="list",
        data=[
            model_out(model, names[model.slug], catalog.sla, model.slug)
            for model in catalog.models.values()
            if _is_offered(model)
        ],
    )


@router.get("/models/{path:model_name}", response=ModelOut)
def retrieve_model(request: HttpRequest, model_name: str) -> ModelOut:  # noqa: ARG001 -- as above
    """Give the model that a slug, an alias or a dated id stands for.

    Raises:
        NotFound: No model has this name, or it has retired; then the message and ``successor`` name what follows it.
    """
    catalog = current_catalog()
    name = catalog.names.get(model_name)
    model = catalog.models[name.model_slug] if name else None
    if model is None:
        raise NotFound("There is no model of this name. GET /v1/models lists them all.", param="model")
    if not _is_offered(model):
        raise _retired(model)
    return model_out(model, _names_of(catalog, model), catalog.sla, model_name)


def _is_offered(model: Model) -> bool:
    return bool(model.lanes) and (model.retires_at is None or model.retires_at > clock.now())


def _names_of(catalog: Catalog, model: Model) -> list[str]:
    return [name.name for name in catalog.names.values() if name.model_slug == model.slug]


def _retired(model: Model) -> NotFound:
    follows = f" Use {model.successor_slug}." if model.successor_slug else ""
    return NotFound(
        f"The model {model.slug} has retired.{follows}", param="model", extra={"successor": model.successor_slug}
    )
