"""What the base page knows of its viewer: navigation by role, name, zone. And the request's id, for error pages."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest
from django.urls import reverse

from accounts.models import Membership, StaffRole, User
from accounts.selectors import membership_of
from accounts.views.audit import OWN_READERS
from accounts.views.keys import READERS
from accounts.zones import zone_of
from billing.views.shown import may_read_money
from ground.errors import NotFound


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Give the base page's variables; for visitors who have not signed in, the request's id alone."""
    request_id = request.META.get("lanehouse.request_id", "")
    user = getattr(request, "user", None)
    if not isinstance(user, User):
        return {"request_id": request_id}
    membership = membership_in(request, user)
    organisation = membership.organisation if membership else None
    return {
        "request_id": request_id,
        "nav_sections": _sections(user, membership),
        "viewer": {
            "name": user.name,
            "role": user.staff_role or (membership.role if membership else ""),
            "organisation": organisation.name if organisation else "",
            "preferences_url": reverse("console:preferences"),
            "sign_out_url": reverse("accounts:logout"),
        },
        "jump_url": reverse("console:go"),
        "shortcuts_off": user.shortcuts_off,
        "zone": zone_of(request, organisation).key,
    }


def membership_in(request: HttpRequest, user: User) -> Membership | None:
    """Give the viewer's membership, read once a request: the view may have put it there."""
    if "lanehouse.membership" not in request.META:
        try:
            request.META["lanehouse.membership"] = membership_of(user)
        except NotFound:
            request.META["lanehouse.membership"] = None
    return cast("Membership | None", request.META["lanehouse.membership"])


def _sections(user: User, membership: Membership | None) -> list[dict[str, Any]]:
    sections = []
    if membership is not None:
        sections.append({"label": "", "links": _customer_links(membership)})
    if user.staff_role != StaffRole.NONE:
        overview = _link("ops-overview", "In flight", "console:operator-overview", "layout-dashboard", "g h")
        batches = _link("any-batches", "Batches", "routing:any-batch-list", "activity", "g o")
        lanes = _link("lanes", "Lanes", "catalog:lane-list", "route", "g l")
        sla = _link("sla", "SLA wall", "catalog:wall", "chart-bar", "g s")
        accuracy = _link("any-accuracy", "Accuracy", "routing:any-accuracy", "scale", "g y")
        rates = _link("rates", "Rates", "catalog:rate-list", "tag", "g j")
        customers = _link("customers", "Customers", "console:customer-list", "users", "g c")
        links = [overview, batches, customers, lanes, sla, rates, accuracy]
        if user.staff_role != StaffRole.FINANCE:
            links.insert(2, _link("engine", "Jobs", "routing:engine-list", "refresh", "g j"))
            links.append(_link("quote-path", "Quote path", "routing:quote-path", "clock", "g p"))
            links.append(_link("retention", "Retention", "console:retention", "refresh", ""))
        if user.staff_role != StaffRole.SUPPORT:
            links.append(_link("audit", "Audit log", "accounts:audit", "shield-check", "g t"))
        sections.append({"label": "Operate", "links": links})
    if user.staff_role in {StaffRole.FINANCE, StaffRole.SUPERADMIN}:
        sections.append({"label": "Finance", "links": _finance_links()})
    return sections


def _finance_links() -> list[dict[str, str]]:
    return [
        _link("finance-overview", "Finance", "console:finance-overview", "layout-dashboard", "g v"),
        _link("ledger", "Ledger", "billing:ledger", "book-2", "g e"),
        _link("wallets", "Wallets", "billing:wallet-list", "wallet", "g i"),
        _link("adjustments", "Adjustments", "billing:adjustment-list", "scale", "g d"),
        _link("invoices", "Invoices", "reconciliation:invoice-list", "file-invoice", "g n"),
        _link("breaks", "Breaks", "reconciliation:break-list", "alert-triangle", "g x"),
        _link("periods", "Periods", "reconciliation:period-list", "check", "g p"),
        _link("house-exports", "Finance exports", "billing:house-export-list", "download", ""),
        _link("staff-keys", "Staff keys", "accounts:staff-key-list", "key", ""),
        _link("finance-audit", "Finance audit", "accounts:finance-audit", "shield-check", ""),
    ]


def _customer_links(membership: Membership) -> list[dict[str, str]]:
    links = [
        _link("overview", "Overview", "console:customer-overview", "layout-dashboard", "g h"),
        _link("quotes", "Quotes", "routing:quote-list", "tag", "g q"),
        _link("batches", "Batches", "routing:batch-list", "stack-2", "g b"),
        _link("files", "Files", "routing:file-list", "upload", "g i"),
    ]
    links.append(_link("usage", "Usage", "billing:usage", "chart-bar", "g u"))
    links.append(_link("accuracy", "Accuracy", "routing:accuracy", "check", "g y"))
    if may_read_money(membership):
        links.append(_link("receipts", "Receipts", "billing:receipt-list", "receipt", "g r"))
        links.append(_link("exports", "Exports", "billing:export-list", "download", "g v"))
    links.append(_link("wallet", "Wallet", "billing:wallet", "wallet", "g m"))
    links.append(_link("workflows", "Workflows", "routing:workflow-list", "scale", "g f"))
    links.append(_link("webhooks", "Webhooks", "webhooks:endpoint-list", "webhook", "g w"))
    if membership.role in READERS:
        links.append(_link("keys", "API keys", "accounts:key-list", "key", "g k"))
    links.append(_link("settings", "Settings", "accounts:settings", "settings", "g e"))
    if membership.role in OWN_READERS:
        links.append(_link("own-audit", "Audit log", "accounts:own-audit", "shield-check", "g a"))
    links.append(_link("docs", "Documentation", "console:docs", "book-2", "g d"))
    return links


def _link(key: str, label: str, url_name: str, icon: str, chord: str) -> dict[str, str]:
    return {"key": key, "label": label, "url": reverse(url_name), "icon": icon, "chord": chord}
