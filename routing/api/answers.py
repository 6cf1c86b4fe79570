"""What routing's endpoints share: who calls, JSON, the errors they publish."""

from __future__ import annotations

from typing import Any, cast

import orjson
from django.http import HttpRequest, HttpResponse

from accounts.selectors import Caller
from routing.schemas import ErrorOut

# OpenAPI's content of what is not one JSON document.
JSON_LINES: dict[str, Any] = {"application/jsonl": {"schema": {"type": "string", "format": "binary"}}}


def caller_of(request: HttpRequest) -> Caller:
    """Give who makes this call; authentication has put it there."""
    return cast(Caller, request.auth)  # type: ignore[attr-defined]  # django-ninja adds it


def errors_of(*statuses: int) -> dict[Any, Any]:
    """Give OpenAPI's error answers of an operation, beside those that every operation has."""
    return dict.fromkeys(statuses, ErrorOut)


def json_answer(content: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """Give a JSON answer."""
    return HttpResponse(orjson.dumps(content), content_type="application/json", status=status)
