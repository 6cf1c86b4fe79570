"""The address at which providers tell that a job has ended."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from ground.errors import InvalidRequest, NotFound
from routing.services.provider_notices import NoticeRefused, hear_notice

# A notice names one batch.
_MAX_BYTES: Final = 64 * 1024


@csrf_exempt
@require_POST
def provider_notice(request: HttpRequest, provider: str, kind: str) -> HttpResponse:
    """Take one notice; 204 where its signature is good, whatever it changed, so that it is not sent again."""
    body = request.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        return _refused("A notice has at most 64 KiB.", "payload_too_large", 413)
    try:
        hear_notice(
            provider=provider,
            kind=kind,
            event_id=request.headers.get("webhook-id", ""),
            timestamp=request.headers.get("webhook-timestamp", ""),
            signatures=request.headers.get("webhook-signature", ""),
            body=body,
        )
    except NotFound as error:
        return _refused(error.message, error.code, 404)
    except NoticeRefused as error:
        return _refused(error.message, error.code, 401)
    except InvalidRequest as error:
        return _refused(error.message, error.code, 400)
    return HttpResponse(status=204)


def _refused(message: str, code: str, status: int) -> JsonResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return JsonResponse({"error": error}, status=status)
