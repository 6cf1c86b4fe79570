"""Breaks: the list with its total and bulk bar, one break with both sides, and deciding."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.audit import record_reading
from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from billing.domain.cells import plain_amount
from billing.exports.scope import ExportKind
from billing.reconciliation import selectors
from billing.reconciliation.dispute_file import dispute_file
from billing.reconciliation.domain.decisions import POSTING, SAID, Action
from billing.reconciliation.forms import BreakFilterForm, DecisionForm, ReasonForm, count_of, ids_of
from billing.reconciliation.models import Break, BreakState, ProviderInvoice
from billing.reconciliation.services.decisions import (
    AT_ONCE_MAX_COUNT,
    Decision,
    decide_breaks,
    needs_second_person,
    settle_pending,
)
from billing.reconciliation.views import shown
from billing.reconciliation.views.invoices import closed_months, import_deed, may_write
from billing.views.shown import house_export_url
from ground import clock
from ground.errors import LanehouseError


@require_safe
@staff_page(StaffRole.FINANCE, StaffRole.OPERATOR)
def break_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show breaks with the total of the filter; alone: the region ``list``."""
    form = BreakFilterForm(request.GET)
    at = clock.now()
    page: list[Break] = []
    has_more = False
    totals = None
    if form.is_valid():
        found = selectors.breaks(form.choice())
        totals = selectors.totals_of(found)
        page, has_more = selectors.page_after(found, request.GET.get("after", ""), ROWS_PER_PAGE)
    closed = closed_months()
    return show_list(
        request,
        ListPage(
            nav="breaks",
            title="Breaks",
            heading="Reconciliation breaks",
            lead="Every difference between a provider's invoice and our books, with the cause that explains it.",
            what="Breaks",
            table="billing/reconciliation/_break_table.html",
            empty_title="No breaks",
            empty_text="Either every invoice agrees with our books to the last digit, or none was imported yet.",
            empty_deed=import_deed() if may_write(user) else None,
            deeds=[
                Deed(
                    key="dispute-file",
                    label="Dispute file",
                    url=reverse("reconciliation:dispute-file") + form.query(),
                    icon="download",
                ),
                Deed(key="periods", label="Periods", url=reverse("reconciliation:period-list")),
            ],
            above="billing/reconciliation/_headline.html",
            bulk="billing/reconciliation/_break_bulk.html",
        ),
        form,
        [shown.break_row(each, at, is_closed=each.invoice.period in closed) for each in page],
        next_after=page[-1].public_id if has_more else "",
        totals=totals,
        export_url=house_export_url(ExportKind.BREAKS, form.chosen(), ZoneInfo("UTC")),
        cards=shown.headline_cards(selectors.headline(_in_scope(form)), at),
        here=request.get_full_path(),
        actions=[(each.value, SAID[each]) for each in Action if each not in {Action.LINK, Action.REOPEN}],
        may_write=may_write(user),
        has_pending=any(each.state == BreakState.PENDING for each in page),
    )


def _in_scope(form: BreakFilterForm) -> QuerySet[ProviderInvoice]:
    """Give the invoices that the headline is about: the chosen one, those of the chosen month, or all."""
    chosen = form.cleaned_data if form.is_valid() else {}
    found = ProviderInvoice.objects.all()
    if chosen.get("invoice"):
        return found.filter(public_id=chosen["invoice"])
    return found.filter(period=chosen["period"]) if chosen.get("period") else found


@require_safe
@staff_page(StaffRole.FINANCE, StaffRole.OPERATOR)
def break_detail(request: HttpRequest, user: User, break_id: str) -> HttpResponse:
    """Show one break: both sides field by field, the evidence, and what has been done."""
    found = _break(break_id)
    row = shown.break_row(found, clock.now(), is_closed=found.invoice.period in closed_months())
    url = reverse("reconciliation:break-list")
    context = {
        "active_nav": "breaks",
        "row": row,
        "found": found,
        "fields": _fields(found, row),
        "lines": _amounts(found.evidence.get("lines", [])),
        "jobs": _amounts(found.evidence.get("jobs", [])),
        "currency": found.evidence.get("currency", "USD"),
        "foreign": _foreign(found),
        "siblings": [
            shown.break_row(each, clock.now(), is_closed=row.is_closed) for each in selectors.siblings_of(found)
        ],
        "events": found.events.select_related("by").order_by("-at", "-pk"),
        "actions": [(each.value, SAID[each]) for each in Action if each is not Action.REOPEN],
        "may_write": may_write(user) and not row.is_closed,
        "is_own_request": found.decided_by_id == user.pk,
        "asked_word": _asked_word(found),
        "here": request.path,
        "crumbs": [
            {"label": "Breaks", "url": url},
            {
                "label": f"{found.invoice.provider}, {found.invoice.period:%B %Y}",
                "url": f"{url}?invoice={found.invoice.public_id}",
            },
        ],
    }
    return render(request, "billing/reconciliation/break_detail.html", context)


def _fields(found: Break, row: shown.BreakRow) -> list[dict[str, Any]]:
    """Give both sides field by field; ``differs`` marks the cells."""
    lines, jobs = found.evidence.get("lines", []), found.evidence.get("jobs", [])
    invoiced_rate = shown.rate_of(row.invoiced_pico_usd, found.invoiced_quantity)
    ours_rate = shown.rate_of(row.ours_pico_usd, found.ours_quantity)
    theirs = {
        name: ", ".join(dict.fromkeys(str(line[name]) for line in lines)) for name in ("model", "tier", "project")
    }
    sides = [
        ("Model", "text", theirs["model"] or None, (found.model or None) if jobs else None),
        ("Tier", "text", theirs["tier"] or None, (found.tier or None) if jobs else None),
        ("Project", "text", theirs["project"] or None, (found.project or None) if jobs else None),
        ("Tokens", "count", found.invoiced_quantity, found.ours_quantity if jobs else None),
        ("Rate, $ / 1M tokens", "rate", invoiced_rate, ours_rate),
        ("Amount", "text", foreign, None)
        if (foreign := _foreign(found))
        else ("Amount", "pico", row.invoiced_pico_usd if lines else None, row.ours_pico_usd if jobs else None),
    ]
    return [
        {"label": label, "form": form, "invoice": invoice, "ours": ours, "differs": invoice != ours}
        for label, form, invoice, ours in sides
    ]


def _amounts(evidence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **each,
            "amount_pico_usd": int(each["pico_usd"]),
            "amount": plain_amount(int(each["pico_usd"])),
            "class_word": shown.CLASS_WORDS.get(each.get("token_class", ""), ""),
        }
        for each in evidence
    ]


def _foreign(found: Break) -> str:
    """Give what an invoice bills in another currency, which is not compared with USD; empty for USD."""
    currency = found.evidence.get("currency", "USD")
    if currency == "USD":
        return ""
    amount = plain_amount(sum(int(line["pico_usd"]) for line in found.evidence.get("lines", [])))
    return f"{amount} {currency}"


@require_POST
@staff_page(StaffRole.FINANCE)
def break_decide(request: HttpRequest, user: User) -> HttpResponse:
    """Ask for the reason of a decision about the breaks that were ticked, then make it. Alone: the ``dialog``."""
    ids = ids_of(request.POST.getlist("id"))
    back = _back(request)
    try:
        action = Action(request.POST.get("action", ""))
    except ValueError:
        raise Http404("There is no such decision.") from None
    if not 0 < len(ids) <= AT_ONCE_MAX_COUNT:
        messages.error(request, f"Tick 1 to {AT_ONCE_MAX_COUNT} breaks first.")
        return redirect(back)
    found = list(Break.objects.select_related("invoice").filter(public_id__in=ids).order_by("pk"))
    if len(found) != len(ids):
        raise Http404("There is no such break.")
    if "confirm" not in request.POST:
        return _decision_page(
            request, action, found, DecisionForm(action=action, initial={"action": action.value}), back
        )
    form = DecisionForm(request.POST, action=action)
    if form.is_valid():
        cleaned = form.cleaned_data
        decision = Decision(
            action=action,
            reason=cleaned["reason"],
            owner=cleaned.get("owner"),
            entry_key=cleaned.get("entry_key", ""),
        )
        try:
            decided = decide_breaks(ids, decision, by=user)
        except LanehouseError as error:
            form.add_error(error.param if error.param in form.fields else None, error.message)
        else:
            pending = [each for each in decided if each.state == BreakState.PENDING]
            messages.success(request, f"{SAID[action]}: {count_of(decided)}.")
            if pending:
                messages.warning(request, f"{count_of(pending)} above the limit: a second person has to agree.")
            return redirect(back)
    return _decision_page(request, action, found, form, back, status=422)


def _decision_page(
    request: HttpRequest, action: Action, found: list[Break], form: DecisionForm, back: str, status: int = 200
) -> HttpResponse:
    at = clock.now()
    rows = [shown.break_row(each, at) for each in found]
    context = {
        "active_nav": "breaks",
        "title": f"{SAID[action]}: {count_of(found)}",
        "action": action.value,
        "form": form,
        "rows": rows[:20],
        "more_count": max(0, len(rows) - 20),
        "ids": [each.public_id for each in found],
        "is_posting": action in POSTING,
        "is_written_off": action is Action.WRITE_OFF,
        "entry_micro_usd": sum(row.entry_micro_usd for row in rows),
        "second_count": sum(needs_second_person(each, action) for each in found),
        "back": back,
        "submit": SAID[action],
    }
    return render(request, "billing/reconciliation/break_decide.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def break_agree(request: HttpRequest, user: User, break_id: str) -> HttpResponse:
    """Let a second person agree to what waits at one break, or refuse it."""
    found = _break(break_id)
    back = reverse("reconciliation:break-detail", args=[found.public_id])
    return _agree(request, user, [found], back, is_asked="agree" in request.POST or "refuse" in request.POST)


@require_POST
@staff_page(StaffRole.FINANCE)
def breaks_agree(request: HttpRequest, user: User) -> HttpResponse:
    """Let a second person agree to what waits at the breaks that were ticked, or refuse it."""
    ids = ids_of(request.POST.getlist("id"))
    back = _back(request)
    if not 0 < len(ids) <= AT_ONCE_MAX_COUNT:
        messages.error(request, f"Tick 1 to {AT_ONCE_MAX_COUNT} breaks first.")
        return redirect(back)
    found = list(
        Break.objects.select_related("invoice", "decided_by").defer("evidence").filter(public_id__in=ids).order_by("pk")
    )
    if len(found) != len(ids):
        raise Http404("There is no such break.")
    return _agree(request, user, found, back, is_asked="agree" in request.POST or "refuse" in request.POST)


def _agree(request: HttpRequest, user: User, found: list[Break], back: str, *, is_asked: bool) -> HttpResponse:
    form = ReasonForm(request.POST if is_asked else None)
    agrees = "agree" in request.POST
    if is_asked and form.is_valid():
        ids = [each.public_id for each in found]
        try:
            settle_pending(ids, agrees=agrees, reason=form.cleaned_data["reason"], by=user)
        except LanehouseError as error:
            form.add_error(None, error.message)
        else:
            messages.success(request, f"{'Agreed and posted' if agrees else 'Refused'}: {count_of(found)}.")
            return redirect(back)
    at = clock.now()
    waiting = [each for each in found if each.state == BreakState.PENDING]
    context = {
        "active_nav": "breaks",
        "title": f"Agree or refuse: {count_of(found)}",
        "rows": [(shown.break_row(each, at), _asked_word(each)) for each in found],
        "ids": [each.public_id for each in found],
        "is_waiting": len(waiting) == len(found),
        "is_own_request": any(each.decided_by_id == user.pk for each in waiting),
        "form": form,
        "back": back,
    }
    status = 422 if form.is_bound else 200
    return render(request, "billing/reconciliation/break_agree.html", context, status=status)


def _asked_word(found: Break) -> str:
    return SAID[Action(found.asked_action)] if found.asked_action else ""


@require_safe
@staff_page(StaffRole.FINANCE)
def break_dispute_file(request: HttpRequest, _user: User) -> HttpResponse:
    """Give the file that goes to the provider: of one break, or of the list's filter."""
    form = BreakFilterForm(request.GET)
    ids = ids_of(request.GET.getlist("id"))
    found = Break.objects.select_related("invoice").filter(public_id__in=ids).order_by("pk")
    if not ids:
        if not form.is_valid():
            raise Http404("These filters cannot be read.")
        found = selectors.breaks(form.choice()).defer(None)
    record_reading("break.dispute_file_made", object_type="break", object_id=",".join(ids)[:200] or "a filter's")
    response = HttpResponse(dispute_file(found.iterator()), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="dispute.csv"'
    return response


def _break(break_id: str) -> Break:
    return selectors.break_by_id(break_id)


def _back(request: HttpRequest) -> str:
    """Give where one came from, if that is a page of ours."""
    back = request.POST.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(back, allowed_hosts=None) and back.startswith("/fin/")
    return back if is_ours else reverse("reconciliation:break-list")
