"""Receipts: the list, and one, which is also its own print sheet and can be downloaded."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import MemberRole, Membership
from accounts.pages import region_asked_for, role_page
from accounts.zones import zone_of
from billing import selectors
from billing.exports.scope import ExportKind
from billing.forms import ReceiptFilterForm
from billing.models import Receipt
from billing.printing.documents import receipt_sheet
from billing.printing.pdf import pdf_of
from billing.receipt_csv import receipt_csv
from billing.schemas import ReceiptAnswer
from billing.views import shown
from ground.errors import NotFound

_ROWS_PER_PAGE = 50
_REGION = "list"


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.BILLING)
def receipt_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show an organisation's receipts, newest first; alone: the region ``list``."""
    form = ReceiptFilterForm(request.GET)
    after = request.GET.get("after") or None
    page: list[Receipt] = []
    has_more = False
    if form.is_valid():
        try:
            page, has_more = selectors.receipts(
                membership.organisation,
                after=after,
                limit=_ROWS_PER_PAGE,
                text=form.cleaned_data["text"],
                is_credited=form.is_credited(),
                span=form.span(zone_of(request, membership.organisation)),
            )
        except NotFound as error:
            raise Http404(error.message) from error
    context = {
        "active_nav": "receipts",
        "form": form,
        "chips": form.chips(),
        "rows": [shown.receipt_row(receipt) for receipt in page],
        "is_first_page": after is None,
        "newest_url": request.path + form.query(),
        "older_url": request.path + form.query(after=page[-1].public_id) if has_more else "",
        "export_url": shown.export_url(membership, ExportKind.RECEIPTS, form.chosen()),
    }
    is_region = region_asked_for(request) == _REGION
    return render(request, f"billing/{'_' if is_region else ''}receipt_list.html", context)


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.BILLING, MemberRole.DEVELOPER)
def receipt_detail(request: HttpRequest, membership: Membership, receipt_id: str) -> HttpResponse:
    """Show one receipt."""
    receipt = _found(membership, receipt_id)
    context = {
        "active_nav": "receipts",
        "receipt": receipt,
        "customer": membership.organisation,
        "accepted_at": selectors.accepted_at_of(receipt),
        "lanes": shown.lines_by_lane(receipt),
        "is_credited": shown.is_credited(receipt.lines.all()),
        "may_list": shown.may_read_money(membership),
        "off_estimate_micro_usd": receipt.total_micro_usd - receipt.estimate_total_micro_usd,
    }
    return render(request, "billing/receipt_detail.html", context)


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.BILLING, MemberRole.DEVELOPER)
def receipt_as_csv(request: HttpRequest, membership: Membership, receipt_id: str) -> HttpResponse:
    """Download a receipt's lines as CSV; the column of local time and the file name say the zone."""
    receipt = _found(membership, receipt_id)
    zone = zone_of(request, membership.organisation)
    name = f"{receipt.public_id}_{zone.key.replace('/', '-')}.csv"
    return _download(receipt_csv(receipt, zone), "text/csv; charset=utf-8", name)


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.BILLING, MemberRole.DEVELOPER)
def receipt_as_json(_request: HttpRequest, membership: Membership, receipt_id: str) -> HttpResponse:
    """Download a receipt as the API gives it."""
    receipt = _found(membership, receipt_id)
    content = ReceiptAnswer.of(receipt).model_dump_json(indent=2)
    return _download(content, "application/json", f"{receipt.public_id}.json")


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.BILLING, MemberRole.DEVELOPER)
def receipt_as_pdf(request: HttpRequest, membership: Membership, receipt_id: str) -> HttpResponse:
    """Download a receipt as PDF; its instants are in UTC and in the viewer's zone."""
    receipt = _found(membership, receipt_id)
    sheet = receipt_sheet(receipt, membership.organisation, zone_of(request, membership.organisation))
    return _download(pdf_of(sheet, receipt.settled_at), "application/pdf", f"{receipt.public_id}.pdf")


def _found(membership: Membership, receipt_id: str) -> Receipt:
    try:
        return selectors.receipt_by_id(membership.organisation, receipt_id)
    except NotFound as error:
        raise Http404(error.message) from error


def _download(content: str | bytes, content_type: str, name: str) -> HttpResponse:
    return HttpResponse(
        content, content_type=content_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
