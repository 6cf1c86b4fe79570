"""All addresses: the API under ``/v1``, pages of customers, operators and finance, health."""

from __future__ import annotations

from django.urls import include, path

from config import health
from config.api import api
from config.door import nothing_here
from config.metrics import metrics

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("v1/", api.urls),
    path("v1", nothing_here),
    path("", include("accounts.urls")),
    path("", include("console.urls")),
    path("", include("routing.urls")),
    path("", include("billing.urls")),
    path("", include("billing.reconciliation.urls")),
    path("", include("catalog.urls")),
    path("", include("webhooks.urls")),
]
handler400 = "console.views.errors.bad_request"
handler403 = "console.views.errors.forbidden"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.server_error"
