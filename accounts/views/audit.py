"""The audit log: all of it for staff, the part about money for finance, an organisation's own for its members."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_safe

from accounts.audit import SYSTEM_NAME, record_reading
from accounts.audit_pages import AuditChoice, audit_lines, audit_page
from accounts.domain.audit import OF_FINANCE
from accounts.forms import AuditFilterForm
from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import AuditEntry, MemberRole, Membership, StaffRole, User
from accounts.pages import role_page, staff_page
from accounts.zones import zone_of
from ground.cells import csv_lines, text_cell
from ground.money_fields import usd_text

OWN_READERS = (MemberRole.ADMIN, MemberRole.BILLING)
_HEADER = ("entry_id", "at_utc", "actor_kind", "actor", "role", "organisation_id", "action", "object_type", "object_id")
_MICRO_USD = "_micro_usd"
_HEADER_END = ("changes", "reason", "request_id", "address")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """One reader's view of the log: what of it, under which names, and whether the reader is a customer."""

    nav: str
    title: str
    lead: str
    choice: AuditChoice
    is_own: bool


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.FINANCE)
def staff_log(request: HttpRequest, _user: User) -> HttpResponseBase:
    """Show or export every entry. Alone: the region ``list``."""
    log = _Log(
        nav="audit",
        title="Audit log",
        lead="Every action of staff, members, keys and the system.",
        choice=AuditChoice(),
        is_own=False,
    )
    return _answer(request, log, zone_of(request, None))


@require_safe
@staff_page(StaffRole.FINANCE)
def finance_log(request: HttpRequest, _user: User) -> HttpResponseBase:
    """Show or export the entries about money. Alone: the region ``list``."""
    log = _Log(
        nav="finance-audit",
        title="Audit log of finance",
        lead="Every action on money, rates, limits, invoices and exports.",
        choice=AuditChoice(areas=OF_FINANCE),
        is_own=False,
    )
    return _answer(request, log, zone_of(request, None))


@require_safe
@role_page(*OWN_READERS)
def own_log(request: HttpRequest, membership: Membership) -> HttpResponseBase:
    """Show or export an organisation's own entries. Alone: the region ``list``."""
    log = _Log(
        nav="own-audit",
        title="Audit log of your organisation",
        lead="Who changed what in your organisation: members, keys and Lanehouse.",
        choice=AuditChoice(owner=membership.organisation),
        is_own=True,
    )
    return _answer(request, log, zone_of(request, membership.organisation))


def _answer(request: HttpRequest, log: _Log, zone: ZoneInfo) -> HttpResponseBase:
    form = AuditFilterForm(request.GET, is_own=log.is_own, areas=log.choice.areas)
    choice = form.choice(log.choice, zone) if form.is_valid() else None
    if request.path.endswith("/csv"):
        return _export(log, choice or log.choice)
    return _page(request, log, form, choice)


def _page(request: HttpRequest, log: _Log, form: AuditFilterForm, choice: AuditChoice | None) -> HttpResponse:
    entries: list[AuditEntry] = []
    has_more = False
    if choice is not None:
        entries, has_more = audit_page(choice, after=request.GET.get("after") or None, limit=ROWS_PER_PAGE)
    return show_list(
        request,
        ListPage(
            nav=log.nav,
            title=log.title,
            heading="Audit log",
            lead=f"{log.lead} Entries are never changed or removed.",
            what="Entries",
            table="accounts/_audit_table.html",
            empty_title="Nothing has been done yet",
            empty_text="What staff, members and keys change is written here, with their reason.",
            deeds=[Deed(key="csv", label="CSV", url=f"{request.path}csv{form.query()}", icon="download")],
        ),
        form,
        [_row(entry, is_own=log.is_own) for entry in entries],
        next_after=entries[-1].public_id if has_more else "",
        is_own=log.is_own,
    )


def _row(entry: AuditEntry, *, is_own: bool) -> dict[str, object]:
    name, role, address = _actor(entry, is_own=is_own)
    return {
        "entry": entry,
        "actor_name": name,
        "actor_role": role,
        "address": address,
        "changes": [
            (field.removesuffix(_MICRO_USD).replace("_", " "), _said(field, before), _said(field, after))
            for field, (before, after) in entry.changes.items()
        ],
    }


def _actor(entry: AuditEntry, *, is_own: bool) -> tuple[str, str, str]:
    """Give who it was, in which role and from where; to customers our staff is one house."""
    if is_own and entry.is_staff:
        return SYSTEM_NAME, "staff", ""
    return entry.actor_name, entry.actor_role or entry.get_actor_kind_display(), entry.address


def _said(field: str, value: object) -> str:
    if value is None or value == "":
        return "none"
    if field.endswith(_MICRO_USD) and isinstance(value, int):
        return f"{'-' if value < 0 else ''}${usd_text(abs(value))}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _export(log: _Log, choice: AuditChoice) -> HttpResponseBase:
    record_reading("audit.exported", object_type="audit_log", object_id=log.nav, organisation=log.choice.owner)
    lines = csv_lines((*_HEADER, *_HEADER_END), _cells(choice, is_own=log.is_own))
    return StreamingHttpResponse(
        lines,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="lanehouse-{log.nav}.csv"'},
    )


def _cells(choice: AuditChoice, *, is_own: bool) -> Iterator[list[str]]:
    for entry in audit_lines(choice):
        name, role, address = _actor(entry, is_own=is_own)
        yield [
            entry.public_id,
            entry.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            entry.actor_kind,
            text_cell(name),
            role,
            entry.organisation.public_id if entry.organisation else "",
            entry.action,
            entry.object_type,
            text_cell(entry.object_id),
            text_cell(json.dumps(entry.changes, ensure_ascii=False)),
            text_cell(entry.reason),
            entry.request_id,
            address,
        ]
