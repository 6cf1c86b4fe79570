"""Which JSON schemas Claude can hold an answer to, and such a schema with its objects closed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Constraints that constrained answers do not keep, by the type they stand beside.
_UNKEPT = frozenset(
    {
        # Branches of allOf cannot each be closed, for a value must follow all of them.
        "allOf",
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "maxItems", "uniqueItems"),
        *("contains", "not", "if", "patternProperties", "propertyNames", "dependentSchemas", "prefixItems"),
    }
)
_LISTS = ("anyOf", "oneOf")
_MAPS = ("properties", "$defs", "definitions")
_MAXIMUM_DEPTH = 64


def can_be_kept(schema: object) -> bool:
    """Tell whether an answer can be held to a schema: an object without recursion, open objects and unkept constraints.

    References:
        The limits that the provider's page on structured outputs lists.
    """
    return isinstance(schema, Mapping) and schema.get("type") == "object" and _is_kept(schema, schema, ())


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the schema with ``additionalProperties: false`` on each object that says nothing of it.

    Whatever follows the result follows ``schema`` too.
    """
    result = {name: _closed_member(name, value) for name, value in schema.items()}
    if _is_object(schema):
        result.setdefault("additionalProperties", False)
    return result


def _closed_member(name: str, value: object) -> object:
    if name in _MAPS and isinstance(value, Mapping):
        return {key: closed(each) if isinstance(each, Mapping) else each for key, each in value.items()}
    if name in _LISTS and isinstance(value, list):
        return [closed(each) if isinstance(each, Mapping) else each for each in value]
    return closed(value) if name == "items" and isinstance(value, Mapping) else value


def _is_kept(schema: object, root: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    if not isinstance(schema, Mapping) or len(within) > _MAXIMUM_DEPTH or _UNKEPT & schema.keys():
        return False
    if schema.get("minItems", 0) not in (0, 1) or (_is_object(schema) and schema.get("additionalProperties")):
        return False
    reference = schema.get("$ref")
    if reference is not None:
        is_inside = isinstance(reference, str) and reference not in within
        return is_inside and _is_kept(_resolved(reference, root), root, (*within, reference))
    return all(_is_kept(child, root, (*within, "")) for child in _children(schema))


def _children(schema: Mapping[str, Any]) -> Iterator[object]:
    properties = schema.get("properties", {})
    # Definitions are judged where they are used: only there can a recursion be seen.
    yield from properties.values() if isinstance(properties, Mapping) else (None,)
    for name in _LISTS:
        branches = schema.get(name, [])
        yield from branches if isinstance(branches, list) else (None,)
    if "items" in schema:
        yield schema["items"]


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def _resolved(reference: str, root: Mapping[str, Any]) -> object:
    if not reference.startswith("#/"):
        return None
    found: object = root
    for step in reference[2:].split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found
