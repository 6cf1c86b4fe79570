"""Staff's list of customers, one of them, and changing its limits; finance's first page."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.action_pages import Action, ask, done, say_error
from accounts.list_pages import ROWS_PER_PAGE, ListPage, show_list
from accounts.models import Organisation, StaffRole, User
from accounts.pages import staff_page
from accounts.services.blocking import set_block
from accounts.services.limits import set_limits
from accounts.views.keys import key_row
from billing.adjustments.selectors import organisation_named
from billing.books.forms import WalletFilterForm
from billing.books.overview import finance_overview
from billing.reconciliation.overview import reconciliation_overview
from console.customers import CustomerRow, customer_by_id, customer_page
from ground import clock
from ground.errors import InvalidRequest
from ground.reasons import REASON_MAX_CHARACTERS
from routing.selectors import batch_page
from routing.views.operators import any_batch_rows
from webhooks.views.endpoints import endpoint_rows

_NAV = "customers"
_SHOWN_COUNT = 10
_MAY_CHANGE = frozenset({StaffRole.OPERATOR, StaffRole.SUPERADMIN})
_MAY_BLOCK = (StaffRole.OPERATOR, StaffRole.FINANCE)


class LimitsForm(forms.Form):
    """A customer's three limits, and why they change."""

    calls_per_minute = forms.IntegerField(label="Calls a minute", min_value=1, max_value=1_000_000)
    input_tokens_per_minute = forms.IntegerField(label="Input tokens priced a minute", min_value=1, max_value=10**12)
    accepts_per_minute = forms.IntegerField(label="Batches accepted a minute", min_value=1, max_value=100_000)
    reason = forms.CharField(label="Reason", max_length=REASON_MAX_CHARACTERS)


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.FINANCE, StaffRole.SUPPORT)
def customer_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show the customers by name. Alone: the region ``list``."""
    form = WalletFilterForm(request.GET)
    rows: list[CustomerRow] = []
    has_more = False
    if form.is_valid():
        rows, has_more = customer_page(
            at=clock.now(),
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            text=form.cleaned_data["text"],
            below_micro_usd=form.cleaned_data["below_micro_usd"],
            is_owing=form.cleaned_data["owing"] == "yes",
        )
    return show_list(
        request,
        ListPage(
            nav=_NAV,
            title="Customers",
            heading="Customers",
            lead="Money, work and limits. Test twins are not customers.",
            what="Customers",
            table="console/_customer_table.html",
            empty_title="No customers yet",
            empty_text="An organisation appears here when it is made.",
        ),
        form,
        rows,
        next_after=rows[-1].organisation.public_id if has_more else "",
        may_change=user.staff_role in _MAY_CHANGE,
    )


@require_safe
@staff_page(StaffRole.OPERATOR, StaffRole.FINANCE, StaffRole.SUPPORT)
def customer_detail(request: HttpRequest, user: User, organisation_id: str) -> HttpResponse:
    """Show one customer: money, work, limits, keys and webhook endpoints."""
    at = clock.now()
    customer = customer_by_id(organisation_id, at=at, limit=_SHOWN_COUNT)
    organisation = customer.row.organisation
    context = {
        "active_nav": _NAV,
        "crumbs": [{"label": "Customers", "url": reverse("console:customer-list")}, {"label": organisation.name}],
        "at": at,
        "customer": customer,
        "batches": any_batch_rows(batch_page(organisation=organisation, after=None, limit=_SHOWN_COUNT).batches),
        "keys": [key_row(key) for key in customer.keys],
        "endpoints": endpoint_rows(customer.endpoints, at),
        "may_change": user.staff_role in _MAY_CHANGE,
        "may_block": user.staff_role in {*_MAY_BLOCK, StaffRole.SUPERADMIN},
        "may_read_books": user.staff_role in {StaffRole.FINANCE, StaffRole.SUPERADMIN},
    }
    return render(request, "console/customer.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.OPERATOR)
def customer_limits(request: HttpRequest, user: User, organisation_id: str) -> HttpResponse:
    """Ask for a customer's new limits, and set them."""
    organisation = organisation_named(organisation_id)
    names = [name for name in LimitsForm.base_fields if name != "reason"]
    initial = {name: getattr(organisation, name) for name in names}
    form = LimitsForm(request.POST if request.method == "POST" else None, initial=initial)
    back_url = _page_of(organisation)
    if form.is_bound and form.is_valid():
        try:
            set_limits(
                organisation,
                **{name: form.cleaned_data[name] for name in names},
                reason=form.cleaned_data["reason"],
                user=user,
            )
        except InvalidRequest as error:
            say_error(form, error)
        else:
            return done(request, back_url, f"The limits of {organisation.name} are set.")
    lead = (f"Customer: {organisation.name}. The next call goes by the new limits.",)
    return ask(
        request, Action(title="Change limits", submit="Set limits", back_url=back_url, nav=_NAV, lead=lead), form
    )


def _page_of(organisation: Organisation) -> str:
    """Give the address of a customer's page; a test twin is shown by its customer's."""
    return reverse("console:customer-detail", args=[(organisation.twin_of or organisation).public_id])


class BlockForm(forms.Form):
    """Why a customer is blocked, or no longer."""

    reason = forms.CharField(label="Reason", max_length=REASON_MAX_CHARACTERS)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(*_MAY_BLOCK)
def customer_block(request: HttpRequest, user: User, organisation_id: str) -> HttpResponse:
    """Block a customer's new batches, or lift the block; which, the form says, so that sent twice it is done once."""
    organisation = organisation_named(organisation_id)
    is_blocked = request.GET.get("lift") is None
    back_url = _page_of(organisation)
    form = BlockForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            set_block(organisation, is_blocked=is_blocked, reason=form.cleaned_data["reason"], user=user)
        except InvalidRequest as error:
            say_error(form, error)
        else:
            said = "is blocked" if is_blocked else "is no longer blocked"
            return done(request, back_url, f"{organisation.name} {said}.")
    action = Action(
        title="Block new batches" if is_blocked else "Lift the block",
        submit="Block" if is_blocked else "Lift",
        back_url=back_url,
        nav=_NAV,
        lead=(
            f"Customer: {organisation.name}. New batches are refused; what runs goes on and is charged."
            if is_blocked
            else f"Customer: {organisation.name}. New batches are accepted again, unless something is owed.",
        ),
        is_danger=is_blocked,
    )
    return ask(request, action, form)


@require_safe
@staff_page(StaffRole.FINANCE)
def finance_page(request: HttpRequest, _user: User) -> HttpResponse:
    """Show finance what needs a look."""
    return render(
        request,
        "console/finance_overview.html",
        {
            "active_nav": "finance-overview",
            "overview": finance_overview(clock.now()),
            "reconciliation": reconciliation_overview(clock.now()),
        },
    )
