"""The published OpenAPI: what ninja reads off the views, completed with what all calls share."""

from __future__ import annotations

import re
from http.client import responses
from typing import Any

import orjson

from config import once
from config.scopes import needed_scopes, staff_scope_for

# What any call can answer; the others stand at their views.
_ANSWERED_BY_ALL = (400, 401, 404, 429, 500, 503)
_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
_STAFF_SCHEMES = {"staff": {"type": "http", "scheme": "bearer", "description": "A key `sk-lh-staff-...`."}}
_FINANCE = "/v1/finance/"
_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
# Our shapes end in how they travel; a reader knows them by what they are.
_SHAPE_NAME = re.compile(r'(?<=["/])([A-Z][A-Za-z]+?)(?:Out|Answer)(?=")')
# What a docstring says to programmers only.
_FOR_PROGRAMMERS = re.compile(r"\n+(?:Args|Returns|Raises):.*", re.DOTALL)


def published(schema: dict[str, Any], *, is_finance: bool) -> dict[str, Any]:
    """Give the schema as it is published, of customers or of finance: plain names, every status, authentication."""
    text = orjson.dumps(schema, option=orjson.OPT_NON_STR_KEYS).decode()
    document: dict[str, Any] = orjson.loads(_SHAPE_NAME.sub(r"\1", text.replace("``", "`")))
    shapes = document["components"]["schemas"]
    assert len(shapes) == len(schema["components"]["schemas"]), "each shape keeps a name of its own"
    document["paths"] = {
        path: operations for path, operations in document["paths"].items() if path.startswith(_FINANCE) is is_finance
    }
    schemes = _STAFF_SCHEMES if is_finance else _SECURITY_SCHEMES
    document["components"]["securitySchemes"] = schemes
    document["security"] = [{name: []} for name in schemes]
    if is_finance:
        document["info"]["title"] = "Lanehouse, finance"
    for path, operations in document["paths"].items():
        # As GET, without the bytes.
        operations.pop("head", None)
        for method, operation in operations.items():
            if method != "get":
                once.documented(operation, _ERROR)
            by_body = ((413,) if method != "get" else ()) + ((415,) if "requestBody" in operation else ())
            operation["description"] = _FOR_PROGRAMMERS.sub("", operation["description"]).strip()
            needed = (staff_scope_for(method.upper()),) if is_finance else needed_scopes(method.upper(), path)
            # What a router asks for stands at the top already.
            operation.pop("security", None)
            if needed:
                names = " or ".join(f"`{scope.value}`" for scope in needed)
                operation["description"] += f"\n\nThe key needs the scope {names}."
            for status in (*_ANSWERED_BY_ALL, *by_body, *((403,) if needed else ())):
                operation["responses"].setdefault(str(status), {"description": responses[status], "content": _ERROR})
            operation["responses"] = dict(sorted(operation["responses"].items()))
    return _with_used_shapes(document)


def _with_used_shapes(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out the shapes that no call of the document leads to."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    used: set[str] = set()
    found = set(_REFERENCE.findall(orjson.dumps(document["paths"]).decode()))
    while found:
        used |= found
        found = {name for each in found for name in _REFERENCE.findall(orjson.dumps(schemas[each]).decode())} - used
    document["components"]["schemas"] = {name: shape for name, shape in schemas.items() if name in used}
    return document
