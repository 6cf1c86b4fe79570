"""Exports on pages: an organisation's own, and the house's at finance's desk; both with the same views behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import MemberRole, Membership, Organisation, StaffRole, User
from accounts.pages import region_asked_for, role_page, staff_page, viewer_of
from accounts.zones import reporting_zone_of, zone_of
from billing.exports import downloads, focus
from billing.exports.forms import FIELD_OF, FILTER_WORDS, FORMAT_WORDS, KIND_WORDS, ExportForm, filter_words
from billing.exports.models import Export, ExportState
from billing.exports.reading import export_by_id, export_page, file_name_of
from billing.exports.scope import ExportFormat, ExportKind
from billing.services.exports import cancel_export, create_export
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.filters import ListFilterForm

_POLL_MS: Final = 2_000
_REGION: Final = "export"
_UNFINISHED: Final = frozenset({ExportState.QUEUED, ExportState.RUNNING})
_TONES: Final = {
    ExportState.QUEUED: "idle",
    ExportState.RUNNING: "run",
    ExportState.COMPLETED: "ok",
    ExportState.FAILED: "bad",
    ExportState.CANCELLED: "off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where exports are made: an organisation's, or the house's without one. ``prefix`` begins its addresses' names."""

    organisation: Organisation | None
    prefix: str

    @property
    def nav(self) -> str:
        """The link of the navigation that leads here."""
        return "exports" if self.organisation else "house-exports"

    def url(self, page: str, *arguments: str) -> str:
        """Give the address of a page of this desk."""
        return reverse(f"billing:{self.prefix}-{page}", args=arguments)


DeskView = Callable[..., HttpResponseBase]
_OF_MEMBERS: Final = role_page(MemberRole.ADMIN, MemberRole.BILLING)
_OF_FINANCE: Final = staff_page(StaffRole.FINANCE)


def _for_members(view: DeskView) -> DeskView:
    def seen(request: HttpRequest, membership: Membership, **parts: str) -> HttpResponse:
        return _found(view, request, Desk(organisation=membership.organisation, prefix="export"), **parts)

    return cast(DeskView, _OF_MEMBERS(seen))


def _for_finance(view: DeskView) -> DeskView:
    def seen(request: HttpRequest, _user: User, **parts: str) -> HttpResponse:
        return _found(view, request, Desk(organisation=None, prefix="house-export"), **parts)

    return cast(DeskView, _OF_FINANCE(seen))


def _found(view: DeskView, request: HttpRequest, desk: Desk, **parts: str) -> HttpResponse:
    return cast(HttpResponse, view(request, desk, **parts))


@require_safe
def _list(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Show the exports, newest first."""
    page, has_more = export_page(desk.organisation, after=request.GET.get("after") or None, limit=ROWS_PER_PAGE)
    of_whom = "your figures" if desk.organisation else "all customers' figures"
    new = Deed(key="new-export", label="New export", url=desk.url("new"), icon="plus", is_primary=True)
    return show_list(
        request,
        ListPage(
            nav=desk.nav,
            title="Exports" if desk.organisation else "Finance exports",
            heading="Exports",
            lead=f"Files of {of_whom}, with their row count, control totals and SHA-256. Kept for 30 days.",
            what="Exports",
            table="billing/_export_table.html",
            empty_title="No exports yet",
            empty_text="Usage, receipts, statements and the ledger as CSV, JSON Lines or Parquet, and costs as FOCUS.",
            deeds=[new],
            empty_deed=new,
        ),
        ListFilterForm(request.GET),
        [_shown(desk, export) for export in page],
        next_after=page[-1].public_id if has_more else "",
    )


@require_http_methods(["GET", "HEAD", "POST"])
def _new(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Ask what to export; a screen's filters come along in the query string."""
    is_of_the_house = desk.organisation is None
    form = ExportForm(request.POST or None, initial=_asked(request, desk), is_of_the_house=is_of_the_house)
    if request.method == "POST" and form.is_valid():
        try:
            export = create_export(desk.organisation, form.wish(), made_by=viewer_of(request))
        except InvalidRequest as error:
            form.add_error(FIELD_OF.get(error.param or ""), error.message)
        else:
            return HttpResponseRedirect(desk.url("detail", export.public_id))
    status = 422 if form.errors else 200
    return render(request, "billing/export_new.html", {**_frame(desk, "New"), "form": form}, status=status)


@require_safe
def _detail(request: HttpRequest, desk: Desk, export_id: str) -> HttpResponse:
    """Show one export; alone: the region ``export``, which asks again until it is finished (204: nothing moved)."""
    export = export_by_id(desk.organisation, export_id)
    version = f"{export.state}-{export.done_count}"
    is_region = region_asked_for(request) == _REGION
    if is_region and request.GET.get("v") == version:
        return HttpResponse(status=204)
    is_unfinished = export.state in _UNFINISHED
    context = {
        **_frame(desk, KIND_WORDS[ExportKind(export.kind)]),
        "row": _shown(desk, export),
        "poll_url": f"{request.path}?v={version}",
        "every_ms": (settings.PAGE_POLL_MILLISECONDS or _POLL_MS) if is_unfinished else None,
        "at": clock.now(),
        "cancel_url": desk.url("cancel", export_id) if is_unfinished else "",
        "file_name": file_name_of(export),
        "has_metadata": export.kind == ExportKind.FOCUS,
        "metadata_url": desk.url("metadata", export_id),
    }
    return render(request, f"billing/{'_export' if is_region else 'export_detail'}.html", context)


@require_POST
def _cancel(_request: HttpRequest, desk: Desk, export_id: str) -> HttpResponse:
    """End an export that is not finished."""
    cancel_export(export_by_id(desk.organisation, export_id))
    return HttpResponseRedirect(desk.url("detail", export_id))


@require_safe
def _file(_request: HttpRequest, desk: Desk, export_id: str) -> HttpResponseBase:
    """Download an export's file."""
    return downloads.download(export_by_id(desk.organisation, export_id))


@require_safe
def _metadata(_request: HttpRequest, desk: Desk, export_id: str) -> HttpResponse:
    """Download what FOCUS wants beside its file."""
    export = export_by_id(desk.organisation, export_id)
    if export.kind != ExportKind.FOCUS or export.finished_at is None:
        raise NotFound("This export has no metadata.")
    name = file_name_of(export)
    answer = JsonResponse(focus.metadata(made_at=export.finished_at, file_name=name))
    answer["Content-Disposition"] = f'attachment; filename="{name.rpartition(".")[0]}.metadata.json"'
    return answer


def _asked(request: HttpRequest, desk: Desk) -> dict[str, str]:
    """Give what the query string asks for; days are counted as the screen counted them, and finance's in UTC."""
    asked = {
        name: request.GET[name] for name in ("of", "since", "until", "zone", *FILTER_WORDS) if request.GET.get(name)
    }
    if desk.organisation is None:
        zone = "UTC"
    elif asked.get("of") in {ExportKind.RECEIPTS, ExportKind.LEDGER}:
        zone = zone_of(request, desk.organisation).key
    else:
        zone = reporting_zone_of(desk.organisation).key
    return {"zone": zone, **asked}


def _frame(desk: Desk, here: str = "") -> dict[str, Any]:
    return {
        "crumbs": [{"label": "Exports", "url": desk.url("list")}, {"label": here}],
        "active_nav": desk.nav,
        "is_of_the_house": desk.organisation is None,
        "list_url": desk.url("list"),
        "new_url": desk.url("new"),
    }


def _shown(desk: Desk, export: Export) -> dict[str, Any]:
    words = [f"{label}: {value}" for label, value in filter_words(ExportKind(export.kind), export.filters)]
    return {
        "export": export,
        "url": desk.url("detail", export.public_id),
        "file_url": desk.url("file", export.public_id) if _has_file(export) else "",
        "kind": KIND_WORDS[ExportKind(export.kind)],
        "file_format": FORMAT_WORDS[ExportFormat(export.file_format)],
        "filters": words,
        "tone": _TONES[ExportState(export.state)],
        "sha256": bytes(export.sha256).hex() if export.sha256 else "",
        "made_by": export.made_by.name if export.made_by else (export.api_key.name if export.api_key else ""),
        "again_url": f"{desk.url('new')}?{_again(export)}",
    }


def _again(export: Export) -> str:
    days = {"since": export.first_day, "until": export.last_day}
    return urlencode({"of": export.kind, **{name: day for name, day in days.items() if day}, **export.filters})


def _has_file(export: Export) -> bool:
    return export.state == ExportState.COMPLETED and export.swept_at is None and export.expires_at > clock.now()


export_list, house_list = _for_members(_list), _for_finance(_list)
export_new, house_new = _for_members(_new), _for_finance(_new)
export_detail, house_detail = _for_members(_detail), _for_finance(_detail)
export_cancel, house_cancel = _for_members(_cancel), _for_finance(_cancel)
export_file, house_file = _for_members(_file), _for_finance(_file)
export_metadata, house_metadata = _for_members(_metadata), _for_finance(_metadata)
