"""Quotes: price a file, the list, one quote with its reasons, and accepting it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.models import MemberRole, Membership
from accounts.pages import member_page, region_asked_for, role_page
from accounts.selectors import Caller
from accounts.zones import zone_of
from ground import clock
from ground.errors import LanehouseError, NotFound, RowErrors
from routing.domain.scoring import WorkflowProfile
from routing.models import Quote
from routing.offers_shown import QuotePage, quote_page
from routing.quote_forms import STATE_WORDS, PriceForm, QuoteFilterForm
from routing.selectors import quote_by_id
from routing.services.batches import accept_quote
from routing.services.quotes import create_quote, quote_answer
from routing.services.quotes_by_file import price_upload
from routing.services.retries import request_retry
from routing.views.lists import REGION, ROWS_PER_PAGE
from routing.workflows import newest_versions, workflow_named

WRITERS = (MemberRole.ADMIN, MemberRole.DEVELOPER)
_LIVE = "quote"
_POLL_MS = 2_000
_TONES = {"open": "ok", "accepted": "run", "expired": "off", "pending": "idle", "failed": "bad"}


@require_safe
@member_page
def quote_list(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show an organisation's quotes, newest first. Alone: the region ``list``."""
    form = QuoteFilterForm(request.GET)
    page = QuotePage(quotes=(), has_more=False)
    after = request.GET.get("after") or ""
    if form.is_valid():
        page = quote_page(
            organisation=membership.organisation,
            after=after or None,
            limit=ROWS_PER_PAGE,
            state=form.cleaned_data["state"],
            text=form.cleaned_data["text"],
            span=form.span(zone_of(request, membership.organisation)),
        )
    chosen = form.chosen()
    kept = {name: value for name, value in chosen.items() if name != "state"}
    context = {
        "active_nav": "quotes",
        "may_write": membership.role in WRITERS,
        "form": form,
        "rows": [{"listed": each, "tone": _TONES[each.state], "word": STATE_WORDS[each.state]} for each in page.quotes],
        "tabs": [
            {"key": key, "label": label, "url": f"{request.path}?{urlencode({**kept, 'state': key} if key else kept)}"}
            for key, label in STATE_WORDS.items()
        ],
        "active_tab": chosen.get("state", ""),
        "chips": form.chips(without=frozenset({"state"})),
        "is_filtered": bool(chosen),
        "is_first_page": not after,
        "newest_url": request.path + form.query(),
        "older_url": request.path + form.query(after=page.quotes[-1].quote.public_id) if page.has_more else "",
        "at": clock.now(),
    }
    is_region = region_asked_for(request) == REGION
    return render(request, f"routing/{'_' if is_region else ''}quote_list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@role_page(*WRITERS)
def quote_new(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Ask for a file, and price it; what is wrong with its rows is shown in a table."""
    organisation = membership.organisation
    names = [version.workflow.name for version in newest_versions(organisation, with_archived=False)]
    sent = (request.POST, request.FILES) if request.method == "POST" else (None, None)
    form = PriceForm(*sent, workflows=names)
    context: dict[str, Any] = {"active_nav": "quotes", "form": form}
    if request.method == "POST" and form.is_valid():
        try:
            workflow = workflow_named(organisation, form.cleaned_data["workflow"])
            quote_id = _priced(Caller(organisation=organisation, api_key=None), form, workflow)
        except RowErrors as error:
            context["row_errors"] = error
        except LanehouseError as error:
            form.add_error(None, error.message)
            context["rejected_lanes"] = error.extra.get("rejected_lanes")
        else:
            return redirect("routing:quote-detail", quote_id)
    is_wrong = bool(form.errors) or "row_errors" in context
    return render(request, "routing/quote_new.html", context, status=422 if is_wrong else 200)


def _priced(caller: Caller, form: PriceForm, workflow: WorkflowProfile) -> str:
    """Price what a valid form holds, at once or, where it is long, in the background; give the quote's id."""
    file = form.long_file()
    if file is not None:
        filename = file.name or "upload"
        return price_upload(caller=caller, filename=filename, chunks=file.chunks(), workflow=workflow)
    made = create_quote(caller=caller, body=form.body(), workflow=workflow)
    return str(made.answer["id"])


@require_safe
@member_page
def quote_detail(request: HttpRequest, membership: Membership, quote_id: str) -> HttpResponse:
    """Show one quote: what it promises, why, and whether it can still be accepted.

    Alone: the region ``quote``, which asks again until its file was read (204: nothing more was).
    """
    context = _detail(membership, _found(membership, quote_id))
    is_region = region_asked_for(request) == _LIVE
    if is_region and context["version"] == request.GET.get("v"):
        return HttpResponse(status=204)
    return render(request, "routing/_quote_alone.html" if is_region else "routing/quote_detail.html", context)


@require_POST
@role_page(*WRITERS)
def quote_accept(request: HttpRequest, membership: Membership, quote_id: str) -> HttpResponse:
    """Accept a quote and lead to its batch; where that is refused, the quote's page says why."""
    quote = _found(membership, quote_id)
    caller = Caller(organisation=membership.organisation, api_key=None)
    name = request.POST.get("name", "").strip()
    try:
        accepted = accept_quote(caller=caller, quote_id=quote_id, metadata={"name": name} if name else None)
    except LanehouseError as error:
        offer = error.extra.get("quote")
        context = _detail(membership, quote) | {
            "refusal": error.message,
            "new_quote_id": offer["id"] if offer else None,
            "batch_name": name,
        }
        return render(request, "routing/quote_detail.html", context, status=422)
    messages.success(request, "The quote was accepted. Its reservation is held until the batch has ended.")
    return redirect("routing:batch-detail", accepted.batch.public_id)


@require_POST
@role_page(*WRITERS)
def batch_retry(request: HttpRequest, membership: Membership, batch_id: str) -> HttpResponse:
    """Ask for a quote of a batch's failed rows and lead to it; where there are none to do again, say why."""
    caller = Caller(organisation=membership.organisation, api_key=None)
    try:
        quote = request_retry(caller=caller, public_id=batch_id)
    except NotFound as error:
        raise Http404(error.message) from error
    except LanehouseError as error:
        messages.error(request, error.message)
        return redirect("routing:batch-detail", batch_id)
    return redirect("routing:quote-detail", quote.public_id)


def _found(membership: Membership, quote_id: str) -> Quote:
    return quote_by_id(organisation=membership.organisation, public_id=quote_id)


def _detail(membership: Membership, quote: Quote) -> dict[str, Any]:
    answer = quote_answer(Caller(organisation=membership.organisation, api_key=None), quote)
    progress = answer.get("progress")
    state = "open" if answer["status"] == "ready" else answer["status"]
    is_priced = "estimate" in answer
    may_write = membership.role in WRITERS
    return {
        "active_nav": "quotes",
        "crumbs": [{"label": "Quotes", "url": reverse("routing:quote-list")}],
        "quote": answer,
        "state": state,
        "tone": _TONES.get(state, "idle"),
        "word": STATE_WORDS.get(state, state),
        "is_priced": is_priced,
        "version": str(progress["read_bytes"]) if progress else "",
        "every_ms": (settings.PAGE_POLL_MILLISECONDS or _POLL_MS) if progress else None,
        "created_at": quote.created_at,
        "expires_at": quote.expires_at,
        "health_at": datetime.fromtimestamp(answer["sla_snapshot_at"], UTC) if is_priced else None,
        "lanes": [
            # The fraction is for reading; parts per million are exact again.
            {**lane, "error_ppm": round(lane["recent_error_rate_24h"] * 1_000_000)}
            for lane in answer.get("lanes", ())
        ],
        "groups": [_group(answer, group) for group in answer.get("explanation", ())],
        "short_micro_usd": _short_by(answer) if is_priced and state == "open" else 0,
        "may_write": may_write,
        "may_accept": may_write and state == "open",
        "at": clock.now(),
    }


def _group(answer: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    chosen = group["chosen_lane_ids"]
    return {
        **group,
        "rows": [
            {**each, "is_chosen": each["lane_id"] in chosen, "is_primary": each["lane_id"] == chosen[0]}
            for each in group["candidates"]
        ],
        "scoring": answer.get("scoring"),
    }


def _short_by(answer: dict[str, Any]) -> int:
    """Give how much credit is missing, in micro-USD; 0 where it is enough, also while the account is blocked."""
    if answer["sufficient_credit"]:
        return 0
    missing_micro_usd: int = answer["estimate"]["reservation_micro_usd"] - answer["available_micro_usd"]
    return max(0, missing_micro_usd)
