"""JSON schemas of a request: which of them are taken, and an instance for each."""

from collections.abc import Callable, Mapping

from simulators import prose
from simulators.claude.refusals import Json, RefusedError

_UNSUPPORTED: Mapping[str, frozenset[str]] = {
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "string": frozenset({"minLength", "maxLength"}),
    "array": frozenset({"maxItems", "uniqueItems"}),
}
_FORMATS: Mapping[str, str] = {
    "date": "2026-01-31",
    "time": "12:30:00Z",
    "date-time": "2026-01-31T12:30:00Z",
    "email": "reader@example.com",
    "uri": "https://example.com/page",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}
_MAX_DEPTH = 32


def require_schema(schema: Json, place: str) -> None:
    """Refuse a schema that constrained answers cannot follow.

    Raises:
        RefusedError: an object is open, a constraint is not supported, or the schema is recursive or refers outside.
    """
    _require(schema, schema, place, ())


def _require(schema: object, root: Json, place: str, within: tuple[str, ...]) -> None:
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in within:
            raise RefusedError(f"{place}: Recursive schemas are not supported: '{reference}'")
        _require(_resolved(reference, root, place), root, place, (*within, reference))
    kind = schema.get("type")
    for each in kind if isinstance(kind, list) else [kind]:
        for name in sorted(_UNSUPPORTED.get(str(each), frozenset()) & schema.keys()):
            raise RefusedError(f"{place}: For '{each}' type, property '{name}' is not supported")
        if each == "object" and schema.get("additionalProperties") is not False:
            raise RefusedError(f"{place}: For 'object' type, 'additionalProperties' must be explicitly set to false")
    if isinstance(schema.get("minItems"), int) and schema["minItems"] > 1:
        raise RefusedError(f"{place}: For 'array' type, 'minItems' values other than 0 or 1 are not supported")
    for child in _children(schema):
        _require(child, root, place, within)


def _children(schema: Json) -> list[object]:
    found: list[object] = [schema.get("items")]
    for name in ("properties", "$defs", "definitions"):
        members = schema.get(name)
        # Definitions are judged where they are used: only there can a recursion be seen.
        found += members.values() if isinstance(members, dict) and name == "properties" else ()
    for name in ("anyOf", "allOf", "oneOf"):
        members = schema.get(name)
        found += members if isinstance(members, list) else ()
    return found


def _resolved(reference: str, root: Json, place: str) -> object:
    if not reference.startswith("#/"):
        raise RefusedError(f"{place}: External references are not supported: '{reference}'")
    found: object = root
    for step in reference[2:].split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise RefusedError(f"{place}: Unresolvable reference: '{reference}'")
    return found


def instance_of(schema: Json, seed: int) -> object:
    """A value that follows `schema`, the same for the same seed."""
    return _instance(schema, schema, seed, 0)


def _instance(schema: object, root: Json, seed: int, depth: int) -> object:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    branch = _branch(schema, root, seed)
    if branch is not None:
        return _instance(branch, root, seed, depth + 1)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[seed % len(choices)]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        return _object(schema, root, seed, depth)
    if kind == "array":
        item = schema.get("items", {"type": "string"})
        return [_instance(item, root, seed + index, depth + 1) for index in range(1 + seed % 2)]
    return _SIMPLE.get(str(kind), _text)(seed, schema)


def _branch(schema: Json, root: Json, seed: int) -> object | None:
    """The schema that stands for this one: what it refers to, or one of its alternatives."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _resolved(reference, root, "schema")
    for name in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(name)
        if isinstance(branches, list) and branches:
            found: object = branches[seed % len(branches)]
            return found
    return None


def _object(schema: Json, root: Json, seed: int, depth: int) -> Json:
    properties = schema.get("properties")
    members = properties if isinstance(properties, dict) else {}
    return {
        name: _instance(member, root, prose.seed_of(seed.to_bytes(16, "big"), name.encode()), depth + 1)
        for name, member in members.items()
    }


def _text(seed: int, schema: Json) -> object:
    known = _FORMATS.get(str(schema.get("format")))
    return known if known is not None else "".join(prose.pieces(seed, 3 + seed % 6))


_SIMPLE: Mapping[str, Callable[[int, Json], object]] = {
    "integer": lambda seed, _schema: seed % 100,
    "number": lambda seed, _schema: seed % 1000 / 10,
    "boolean": lambda seed, _schema: seed % 2 == 0,
    "null": lambda _seed, _schema: None,
    "string": _text,
}
