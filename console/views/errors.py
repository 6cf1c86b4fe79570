"""The pages that say what went wrong."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import get_template


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 -- Django's signature
    """Say that the request cannot be understood."""
    return render(request, "400.html", status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Say why, in the refusing view's own words: they name the role that is needed."""
    return render(request, "403.html", {"reason": str(exception)}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 -- Django's signature
    """Say that there is nothing, also for what belongs to others."""
    return render(request, "404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that it was our fault. Without the context processors: they ask the database, which may be what failed."""
    context = {"request": request, "request_id": request.META.get("lanehouse.request_id", "")}
    return HttpResponse(get_template("500.html").render(context), status=500)
