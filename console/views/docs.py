"""The customers' documentation: public, in the product's own frame."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.guide import GUIDE, figures

_PAGES = {page.name: page for page in GUIDE}


@require_safe
def docs_page(request: HttpRequest, name: str = GUIDE[0].name) -> HttpResponse:
    """Show one page of the documentation; its first one without a name."""
    if name not in _PAGES:
        raise Http404
    context = figures() | {
        "active_nav": "docs",
        "title": _PAGES[name].label,
        "tabs": [
            {"key": page.name, "label": page.label, "url": reverse("console:docs-page", args=[page.name])}
            for page in GUIDE
        ],
        "active_tab": name,
        "openapi_url": reverse("api:openapi-json"),
        "base_url": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, f"docs/{name}.html", context)
