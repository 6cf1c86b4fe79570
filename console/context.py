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
    sections = [] if membership is None else _customer_sections(membership)
    if user.staff_role != StaffRole.NONE:
        sections.append({"label": "Operate", "links": _operator_links(user)})
    if user.staff_role in {StaffRole.FINANCE, StaffRole.SUPERADMIN}:
        sections.append({"label": "Finance", "links": _finance_links()})
    return _with_chords_once(sections)


def _with_chords_once(sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take a chord away where a link before has it: staff who are members too see more links than there are letters."""
    taken = {""}
    for link in (link for section in sections for link in section["links"]):
        if link["chord"] in taken:
            link["chord"] = ""
        taken.add(link["chord"])
    return sections


def _operator_links(user: User) -> list[dict[str, str]]:
    links = [
        _link("ops-overview", "In flight", "console:operator-overview", "layout-dashboard", "g h"),
        _link("any-batches", "Batches", "routing:any-batch-list", "stack-2", "g b"),
        _link("customers", "Customers", "console:customer-list", "users", "g c"),
        _link("lanes", "Lanes", "catalog:lane-list", "route", "g l"),
        _link("sla", "SLA wall", "catalog:wall", "chart-bar", "g s"),
        _link("rates", "Rates", "catalog:rate-list", "tag", "g r"),
        _link("accuracy", "Accuracy", "routing:any-accuracy", "check", "g y"),
    ]
    if user.staff_role != StaffRole.FINANCE:
        links.insert(2, _link("engine", "Jobs", "routing:engine-list", "refresh", "g j"))
        links.append(_link("accounts", "Provider accounts", "routing:provider-account-list", "key", "g a"))
        links.append(_link("quote-path", "Quote path", "routing:quote-path", "activity", "g q"))
        links.append(_link("retention", "Retention", "console:retention", "clock", "g o"))
    if user.staff_role != StaffRole.SUPPORT:
        links.append(_link("audit", "Audit log", "accounts:audit", "shield-check", "g t"))
    return links


def _finance_links() -> list[dict[str, str]]:
    return [
        _link("finance-overview", "Finance", "console:finance-overview", "layout-dashboard", "g f"),
        _link("ledger", "Ledger", "billing:ledger", "book-2", "g e"),
        _link("wallets", "Wallets", "billing:wallet-list", "wallet", "g w"),
        _link("adjustments", "Adjustments", "billing:adjustment-list", "scale", "g d"),
        _link("invoices", "Invoices", "reconciliation:invoice-list", "file-invoice", "g i"),
        _link("breaks", "Breaks", "reconciliation:break-list", "alert-triangle", "g x"),
        _link("periods", "Periods", "reconciliation:period-list", "check", "g p"),
        _link("house-exports", "Finance exports", "billing:house-export-list", "download", "g v"),
        _link("staff-keys", "Staff keys", "accounts:staff-key-list", "key", "g k"),
        _link("finance-audit", "Finance audit", "accounts:finance-audit", "shield-check", "g u"),
    ]


def _customer_sections(membership: Membership) -> list[dict[str, Any]]:
    work = [
        _link("overview", "Overview", "console:customer-overview", "layout-dashboard", "g h"),
        _link("quotes", "Quotes", "routing:quote-list", "tag", "g q"),
        _link("batches", "Batches", "routing:batch-list", "stack-2", "g b"),
        _link("files", "Files", "routing:file-list", "upload", "g i"),
        _link("accuracy", "Accuracy", "routing:accuracy", "check", "g y"),
    ]
    money = [
        _link("wallet", "Wallet", "billing:wallet", "wallet", "g m"),
        _link("usage", "Usage", "billing:usage", "chart-bar", "g u"),
    ]
    if may_read_money(membership):
        money.append(_link("receipts", "Receipts", "billing:receipt-list", "receipt", "g r"))
        money.append(_link("exports", "Exports", "billing:export-list", "download", "g v"))
    programs = [
        _link("workflows", "Workflows", "routing:workflow-list", "scale", "g f"),
        _link("webhooks", "Webhooks", "webhooks:endpoint-list", "webhook", "g w"),
        _link("docs", "Documentation", "console:docs", "book-2", "g d"),
    ]
    if membership.role in READERS:
        programs.insert(0, _link("keys", "API keys", "accounts:key-list", "key", "g k"))
    house = [_link("settings", "Settings", "accounts:settings", "settings", "g e")]
    if membership.role in OWN_READERS:
        house.append(_link("own-audit", "Audit log", "accounts:own-audit", "shield-check", "g a"))
    return [
        {"label": "", "links": work},
        {"label": "Money", "links": money},
        {"label": "Programs", "links": programs},
        {"label": "Organisation", "links": house},
    ]


def _link(key: str, label: str, url_name: str, icon: str, chord: str) -> dict[str, str]:
    return {"key": key, "label": label, "url": reverse(url_name), "icon": icon, "chord": chord}
