"""The first page, and the pages that say what went wrong."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from accounts.models import StaffRole, User


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """Lead everybody to their first page: staff to the lanes, customers to their batches."""
    user = cast(User, request.user)
    return redirect("catalog:lane-list" if user.staff_role != StaffRole.NONE else "routing:batch-list")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 -- Django's signature
    """Say that the request cannot be understood."""
    return render(request, "400.html", status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Name the role that is needed."""
    return render(request, "403.html", {"reason": str(exception)}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 -- Django's signature
    """Say that there is nothing, also for what belongs to others."""
    return render(request, "404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that it was our fault; needs neither database nor session."""
    return render(request, "500.html", status=500)
