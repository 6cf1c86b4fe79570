"""Finance's pages of adjustments: the list, asking for one, deciding one."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.action_pages import Action, ask, done, say_error
from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from accounts.zones import zone_of
from billing.adjustments.forms import AdjustmentFilterForm, AdjustmentForm, DecisionForm
from billing.adjustments.models import Adjustment, AdjustmentKind, AdjustmentState
from billing.adjustments.selectors import adjustment_by_id, adjustment_page, given_back_micro_usd, organisation_named
from billing.adjustments.services import AdjustmentWish, decide_adjustment, request_adjustment
from billing.books.selectors import entry_by_key
from billing.selectors import receipt_by_id
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.money_fields import usd_text

NAV = "adjustments"
TONES = {AdjustmentState.REQUESTED: "warn", AdjustmentState.POSTED: "ok", AdjustmentState.REFUSED: "off"}
_INITIAL = ("customer", "kind", "receipt", "entry", "break_ref")


@require_safe
@staff_page(StaffRole.FINANCE)
def adjustment_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show all adjustments, newest first. Alone: the region ``list``."""
    form = AdjustmentFilterForm(request.GET)
    page: list[Adjustment] = []
    has_more = False
    if form.is_valid():
        page, has_more = adjustment_page(
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            text=form.cleaned_data["text"],
            kind=form.cleaned_data["kind"],
            state=form.cleaned_data["state"],
            span=form.span(zone_of(request, None)),
        )
    return show_list(
        request,
        ListPage(
            nav=NAV,
            title="Adjustments",
            heading="Adjustments",
            lead="Credits, charges, refunds, write-offs, reversals, grants. Each links what it adjusts.",
            what="Adjustments",
            table="billing/fin/_adjustment_table.html",
            empty_title="No adjustments yet",
            empty_text="Settlements and top-ups need none. What corrects them is asked for here.",
            deeds=[
                Deed(
                    key="new-adjustment",
                    label="New adjustment",
                    url=reverse("billing:adjustment-new"),
                    icon="plus",
                    is_dialog=True,
                    is_primary=True,
                )
            ],
        ),
        form,
        [_row(adjustment, user) for adjustment in page],
        next_after=page[-1].public_id if has_more else "",
    )


@require_safe
@staff_page(StaffRole.FINANCE)
def adjustment_detail(request: HttpRequest, user: User, adjustment_id: str) -> HttpResponse:
    """Show one adjustment with what it adjusts, who asked, who decided, and its posting."""
    adjustment = _found(adjustment_id)
    row = _row(adjustment, user)
    context = {
        "active_nav": NAV,
        "crumbs": [{"label": "Adjustments", "url": reverse("billing:adjustment-list")}, {"label": row["kind"]}],
        "row": row,
        "adjustment": adjustment,
        "given_back_micro_usd": given_back_micro_usd(adjustment),
    }
    return render(request, "billing/fin/adjustment.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def adjustment_new(request: HttpRequest, user: User) -> HttpResponse:
    """Ask for an adjustment; what the address names is filled in."""
    initial = {name: request.GET[name] for name in _INITIAL if name in request.GET}
    form = AdjustmentForm(request.POST if request.method == "POST" else None, initial=initial)
    action = Action(
        title="New adjustment",
        submit="Send",
        back_url=reverse("billing:adjustment-list"),
        nav=NAV,
        lead=("Above the limit another person of finance approves it before it is posted.",),
    )
    if form.is_bound and form.is_valid():
        try:
            made = _request(form, user)
        except (InvalidRequest, NotFound) as error:
            say_error(form, error)
        else:
            words = "is posted" if made.state == AdjustmentState.POSTED else "waits for a second person"
            url = reverse("billing:adjustment-detail", args=[made.public_id])
            return done(request, url, f"The adjustment {words}.")
    return ask(request, action, form)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def adjustment_decide(request: HttpRequest, user: User, adjustment_id: str) -> HttpResponse:
    """Approve or refuse an adjustment that another person asked for."""
    adjustment = _found(adjustment_id)
    form = DecisionForm(request.POST if request.method == "POST" else None)
    back_url = reverse("billing:adjustment-detail", args=[adjustment_id])
    if form.is_bound and form.is_valid():
        try:
            decided = decide_adjustment(
                adjustment_id,
                approves=form.cleaned_data["approves"] == "yes",
                reason=form.cleaned_data["reason"],
                decided_by=user,
            )
        except InvalidRequest as error:
            say_error(form, error)
        else:
            return done(request, back_url, f"The adjustment is {decided.state}.")
    kind, usd = AdjustmentKind(adjustment.kind).label, usd_text(adjustment.amount_micro_usd)
    lead = (f"{kind} of {usd} USD, {adjustment.organisation.name}: {adjustment.reason}",)
    return ask(
        request, Action(title="Decide the adjustment", submit="Decide", back_url=back_url, nav=NAV, lead=lead), form
    )


def _request(form: AdjustmentForm, user: User) -> Adjustment:
    cleaned = form.cleaned_data
    organisation = organisation_named(cleaned["customer"].strip())
    lifetime = form.lifetime()
    wish = AdjustmentWish(
        kind=AdjustmentKind(cleaned["kind"]),
        amount_micro_usd=cleaned["amount_micro_usd"] or 0,
        reason=cleaned["reason"],
        receipt=receipt_by_id(organisation, cleaned["receipt"]) if cleaned["receipt"] else None,
        break_ref=cleaned["break_ref"],
        reverses=entry_by_key(cleaned["entry"]) if cleaned["kind"] == AdjustmentKind.REVERSAL else None,
        expires_at=clock.now() + lifetime if lifetime else None,
    )
    return request_adjustment(organisation, wish, request_key=cleaned["request_key"], requested_by=user)


def _row(adjustment: Adjustment, user: User) -> dict[str, object]:
    state = AdjustmentState(adjustment.state)
    return {
        "adjustment": adjustment,
        "kind": AdjustmentKind(adjustment.kind).label,
        "tone": TONES[state],
        "word": state.label,
        "may_decide": state == AdjustmentState.REQUESTED and adjustment.requested_by_id != user.pk,
    }


def _found(adjustment_id: str) -> Adjustment:
    return adjustment_by_id(adjustment_id)
