"""What ``GET /v1/batches`` may be narrowed by: status, time of creation, metadata; read from a query string."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import QuerySet
from django.http import QueryDict

from ground.errors import InvalidRequest
from routing.models import Batch, BatchStatus

_STATUSES: Final = frozenset(BatchStatus.values)
_CREATED: Final = re.compile(r"created_at\[(gte|gt|lte|lt)\]")
_METADATA: Final = re.compile(r"metadata\[(.{1,64})\]", re.DOTALL)
_PAIRS_MAX_COUNT: Final = 16
_YEAR_10_000: Final = 253_402_300_800

# The query's parameters in OpenAPI's words: OpenAI writes maps in brackets.
PUBLISHED: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "status",
            "in": "query",
            "required": False,
            "description": "Only batches in this state; named several times, in one of these.",
            "schema": {"type": "array", "items": {"type": "string", "enum": sorted(_STATUSES)}},
        },
        {
            "name": "created_at",
            "in": "query",
            "required": False,
            "style": "deepObject",
            "description": "Bounds of `created_at` in Unix seconds, such as `created_at[gte]=1767225600`.",
            "schema": {
                "type": "object",
                "properties": {name: {"type": "integer"} for name in ("gte", "gt", "lte", "lt")},
                "additionalProperties": False,
            },
        },
        {
            "name": "metadata",
            "in": "query",
            "required": False,
            "style": "deepObject",
            "description": "Pairs that the batch's metadata must have, such as `metadata[run]=7`.",
            "schema": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": _PAIRS_MAX_COUNT},
        },
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChoice:
    """Which batches a program asks for; what is empty leaves all.

    Args:
        statuses: The states it wants.
        bounds: Bounds of the time of creation by Django's name; ``created_at`` is shown in whole seconds, so that is
            what they are compared with.
        metadata: Pairs that must be there.
    """

    statuses: tuple[str, ...] = ()
    bounds: tuple[tuple[str, datetime], ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def applied_to(self, batches: QuerySet[Batch]) -> QuerySet[Batch]:
        """Give those of the batches that match everything."""
        if self.statuses:
            batches = batches.filter(status__in=self.statuses)
        for name, at in self.bounds:
            batches = batches.filter(**{f"created_at__{name}": at})
        if self.metadata:
            batches = batches.filter(metadata__contains=dict(self.metadata))
        return batches


def batch_choice(query: QueryDict) -> BatchChoice:
    """Read what a query asks for.

    Raises:
        InvalidRequest: A state that no batch has, a bound that is no instant, or a name in brackets that is none.
    """
    # The stock SDK writes a list with brackets behind its name.
    statuses = tuple(query.getlist("status") + query.getlist("status[]"))
    unknown = [status for status in statuses if status not in _STATUSES]
    if unknown:
        raise InvalidRequest(f"'status' is one of {', '.join(sorted(_STATUSES))}.", param="status")
    bounds: list[tuple[str, datetime]] = []
    metadata: dict[str, str] = {}
    for name, value in query.items():
        if name.startswith("created_at"):
            bounds.append(_bound(name, str(value)))
        elif name.startswith("metadata"):
            match = _METADATA.fullmatch(name)
            if match is None:
                raise InvalidRequest("Metadata is asked for as 'metadata[key]=value'.", param="metadata")
            metadata[match[1]] = str(value)
    if len(metadata) > _PAIRS_MAX_COUNT:
        raise InvalidRequest(f"Metadata has at most {_PAIRS_MAX_COUNT} pairs.", param="metadata")
    return BatchChoice(statuses=statuses, bounds=tuple(bounds), metadata=metadata)


def _bound(name: str, value: str) -> tuple[str, datetime]:
    match = _CREATED.fullmatch(name)
    if match is None:
        raise InvalidRequest("Bounds are 'created_at[gte]', '[gt]', '[lte]' and '[lt]'.", param="created_at")
    if not re.fullmatch(r"[0-9]{1,12}", value, re.ASCII) or int(value) >= _YEAR_10_000 - 1:
        raise InvalidRequest(f"'{name}' is an instant in whole Unix seconds.", code="invalid_type", param=name)
    # Up to a second's end is before the next second's beginning.
    seconds = int(value) + (match[1] in {"gt", "lte"})
    return {"gt": "gte", "lte": "lt"}.get(match[1], match[1]), datetime.fromtimestamp(seconds, UTC)
