"""All addresses: the API under ``/v1``, pages of customers, operators and finance, health."""

from __future__ import annotations

from django.urls import include, path, re_path

from config import health
from config.api import api
from config.errors import answer
from ground.errors import NotFound

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("v1/", api.urls),
    re_path(r"^v1(?:/|$)", lambda _request: answer(NotFound("There is nothing at this address."))),
    path("", include("accounts.urls")),
    path("", include("console.urls")),
    path("", include("routing.urls")),
    path("", include("catalog.urls")),
]
handler400 = "console.views.bad_request"
handler403 = "console.views.forbidden"
handler404 = "console.views.not_found"
handler500 = "console.views.server_error"
