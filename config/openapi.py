"""The published OpenAPI: what ninja reads off the views, completed with what all calls share."""

from __future__ import annotations

import re
from http.client import responses
from typing import Any

import orjson

from config import once
from config.scopes import needed_scopes

# What any call can answer; the others stand at their views.
_ANSWERED_BY_ALL = (400, 401, 404, 429, 500, 503)
_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
# Our shapes end in how they travel; a reader knows them by what they are.
_SHAPE_NAME = re.compile(r'(?<=["/])([A-Z][A-Za-z]+?)(?:Out|Answer)(?=")')
# What a docstring says to programmers only.
_FOR_PROGRAMMERS = re.compile(r"\n+(?:Args|Returns|Raises):.*", re.DOTALL)


def published(schema: dict[str, Any]) -> dict[str, Any]:
    """Give the schema as it is published: plain names, every status, how to authenticate."""
    text = orjson.dumps(schema, option=orjson.OPT_NON_STR_KEYS).decode()
    document: dict[str, Any] = orjson.loads(_SHAPE_NAME.sub(r"\1", text.replace("``", "`")))
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    document["security"] = [{name: []} for name in _SECURITY_SCHEMES]
    for path, operations in document["paths"].items():
        # As GET, without the bytes.
        operations.pop("head", None)
        for method, operation in operations.items():
            if method != "get":
                once.documented(operation, _ERROR)
            by_body = ((413,) if method != "get" else ()) + ((415,) if "requestBody" in operation else ())
            operation["description"] = _FOR_PROGRAMMERS.sub("", operation["description"]).strip()
            needed = needed_scopes(method.upper(), path)
            if needed:
                names = " or ".join(f"`{scope.value}`" for scope in needed)
                operation["description"] += f"\n\nThe key needs the scope {names}."
            for status in (*_ANSWERED_BY_ALL, *by_body, *((403,) if needed else ())):
                operation["responses"].setdefault(str(status), {"description": responses[status], "content": _ERROR})
            operation["responses"] = dict(sorted(operation["responses"].items()))
    return document
