"""Receipts: the list, and one, which is also its own print sheet and can be downloaded."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import MemberRole, Membership, StaffRole, User
from accounts.pages import role_page, staff_page
from accounts.zones import zone_of
from billing import selectors
from billing.books.shown import provider_and_account
from billing.exports.scope import ExportKind
from billing.forms import ReceiptFilterForm
from billing.models import AccountKind, Receipt
from billing.printing.documents import receipt_sheet
from billing.printing.pdf import pdf_of
from billing.receipt_csv import receipt_csv
from billing.reconciliation.selectors import invoices_of_account
from billing.schemas import ReceiptAnswer
from billing.views import shown


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.BILLING)
def receipt_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show an organisation's receipts, newest first; alone: the region ``list``."""
    form = ReceiptFilterForm(request.GET)
    page: list[Receipt] = []
    has_more = False
    if form.is_valid():
        page, has_more = selectors.receipts(
            membership.organisation,
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            text=form.cleaned_data["text"],
            is_credited=form.is_credited(),
            span=form.span(zone_of(request, membership.organisation)),
        )
    return show_list(
        request,
        ListPage(
            nav="receipts",
            title="Receipts",
            heading="Receipts",
            lead="One for each batch that has ended, newest first. A receipt is final.",
            what="Receipts",
            table="billing/_receipt_table.html",
            empty_title="No receipts yet",
            empty_text="When a batch ends, its receipt says line by line what was charged. It appears here at once.",
            empty_deed=Deed(key="batches", label="Go to batches", url=reverse("routing:batch-list")),
        ),
        form,
        [shown.receipt_row(receipt) for receipt in page],
        next_after=page[-1].public_id if has_more else "",
        export_url=shown.export_url(membership, ExportKind.RECEIPTS, form.chosen()),
    )


@require_safe
@role_page(MemberRole.ADMIN, MemberRole.BILLING, MemberRole.DEVELOPER)
def receipt_detail(request: HttpRequest, membership: Membership, receipt_id: str) -> HttpResponse:
    """Show one receipt."""
    receipt = _found(membership, receipt_id)
    context = {
        **_receipt_context(receipt),
        "active_nav": "receipts",
        "batch_url": reverse("routing:batch-detail", args=[receipt.batch_public_id]),
        "crumbs": [
            {
                "label": "Receipts",
                "url": reverse("billing:receipt-list") if shown.may_read_money(membership) else "",
            },
            {"label": "Receipt"},
        ],
    }
    return render(request, "billing/receipt_detail.html", context)


@require_safe
@staff_page(StaffRole.FINANCE)
def house_receipt(request: HttpRequest, _user: User, receipt_id: str) -> HttpResponse:
    """Show finance a customer's receipt between its entry and the invoices of the providers that ran it."""
    receipt = selectors.any_receipt_by_id(receipt_id)
    costs = _costs(receipt)
    cost_micro_usd = sum(cost["micro_usd"] for cost in costs)
    context = {
        **_receipt_context(receipt),
        "active_nav": "ledger",
        "crumbs": [
            {"label": "Ledger", "url": reverse("billing:ledger")},
            {
                "label": "Batch settled",
                "url": reverse("billing:entry-detail", args=[receipt.transaction.business_key]),
            },
            {"label": "Receipt"},
        ],
        "batch_url": reverse("routing:any-batch-detail", args=[receipt.batch_public_id]),
        "costs": costs,
        "cost_micro_usd": cost_micro_usd,
        "margin_micro_usd": receipt.total_micro_usd - cost_micro_usd,
    }
    return render(request, "billing/fin/receipt.html", context)


def _receipt_context(receipt: Receipt) -> dict[str, Any]:
    return {
        "receipt": receipt,
        "customer": receipt.organisation,
        "accepted_at": selectors.accepted_at_of(receipt),
        "lanes": shown.lines_by_lane(receipt),
        "is_credited": shown.is_credited(receipt.lines.all()),
        "off_estimate_micro_usd": receipt.total_micro_usd - receipt.estimate_total_micro_usd,
    }


def _costs(receipt: Receipt) -> list[dict[str, Any]]:
    """Give what the receipt's posting owes each provider account, with the invoices on which it should stand."""
    since, until = (
        at.astimezone(UTC).date()
        for at in (selectors.accepted_at_of(receipt) or receipt.settled_at, receipt.settled_at)
    )
    legs = receipt.transaction.legs.filter(account__kind=AccountKind.PROVIDER_PAYABLE).select_related("account")
    costs = []
    for leg in legs.order_by("leg_number"):
        provider, account = provider_and_account(leg.account)
        invoices = invoices_of_account(provider, account, since, until)
        costs.append(
            {"provider": provider, "account": account, "micro_usd": leg.amount_micro_usd, "invoices": invoices}
        )
    return costs


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
    return selectors.receipt_by_id(membership.organisation, receipt_id)


def _download(content: str | bytes, content_type: str, name: str) -> HttpResponse:
    return HttpResponse(
        content, content_type=content_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
