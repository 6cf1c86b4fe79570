"""Pages of rates: what holds on a day, drafts with what they change, a price file's import."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from accounts.action_pages import Action, ask, done, say_error
from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import StaffRole, User
from accounts.pages import staff_page
from accounts.zones import zone_of
from catalog.models import Card
from catalog.pricing.forms import DraftDecisionForm, DraftFilterForm, DraftForm, PriceFileForm, RateFilterForm
from catalog.pricing.models import DraftState, RateDraft
from catalog.pricing.selectors import RateRow, compared, draft_by_id, draft_page, live_figures, rate_page
from catalog.pricing.services import ImportReport, decide_draft, draft_rates, figures_of, import_prices, lane_named
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.filters import span_of_days

_NAV = "rates"
_TONES = {DraftState.DRAFT: "warn", DraftState.APPROVED: "ok", DraftState.REJECTED: "off"}
_READERS = (StaffRole.OPERATOR, StaffRole.FINANCE, StaffRole.SUPPORT)
_WRITERS = (StaffRole.OPERATOR, StaffRole.FINANCE)


@require_safe
@staff_page(*_READERS)
def rate_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show the cards as they hold on a day. Alone: the region ``list``."""
    form = RateFilterForm(request.GET)
    at = clock.now()
    rows: list[RateRow] = []
    has_more = False
    if form.is_valid():
        day = form.cleaned_data["on"]
        until = span_of_days(None, day, zone_of(request, None)).until if day else None
        rows, has_more = rate_page(
            at=until - timedelta(microseconds=1) if until else at,
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            text=form.cleaned_data["text"],
            card=form.cleaned_data["card"],
        )
    deeds = [Deed(key="drafts", label="Drafts", url=reverse("catalog:draft-list"))]
    if may_draft(user):
        import_url, new_url = reverse("catalog:price-import"), reverse("catalog:draft-new")
        deeds.append(Deed(key="import", label="Import prices", url=import_url, icon="upload"))
        deeds.append(Deed(key="new", label="New version", url=new_url, icon="plus", is_dialog=True, is_primary=True))
    return show_list(
        request,
        ListPage(
            nav=_NAV,
            title="Rates",
            heading="Rates",
            lead="USD per 1M tokens. A version begins when the one before ends; none is edited.",
            what="Cards",
            table="catalog/_rate_table.html",
            empty_title="No rates then",
            empty_text="No card had a version yet at that time.",
            deeds=deeds,
        ),
        form,
        rows,
        next_after=_cursor(rows[-1]) if has_more else "",
    )


@require_safe
@staff_page(*_READERS)
def draft_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show drafts, newest first. Alone: the region ``list``."""
    form = DraftFilterForm(request.GET)
    page: list[RateDraft] = []
    has_more = False
    if form.is_valid():
        page, has_more = draft_page(
            after=request.GET.get("after") or None,
            limit=ROWS_PER_PAGE,
            text=form.cleaned_data["text"],
            state=form.cleaned_data["state"],
        )
    return show_list(
        request,
        ListPage(
            nav=_NAV,
            title="Drafts of rates",
            heading="Drafts of rates",
            lead="A draft is quoted with when another person has approved it.",
            what="Drafts",
            table="catalog/_draft_table.html",
            empty_title="No drafts yet",
            empty_text="Draft a new version, or import a price file.",
            crumbs=[{"label": "Rates", "url": reverse("catalog:rate-list")}, {"label": "Drafts"}],
        ),
        form,
        [_row(draft, user) for draft in page],
        next_after=page[-1].public_id if has_more else "",
    )


@require_safe
@staff_page(*_READERS)
def draft_detail(request: HttpRequest, user: User, draft_id: str) -> HttpResponse:
    """Show a draft beside the rates that hold when it begins."""
    draft = _found(draft_id)
    begins_at = max(draft.valid_from, clock.now()) if draft.state == DraftState.DRAFT else draft.valid_from
    # What it replaced, where it is a version already.
    before = begins_at if draft.version is None else draft.version.valid_from - timedelta(microseconds=1)
    rows = compared(figures_of(draft), live_figures(draft.lane, Card(draft.card), before))
    context = {
        "active_nav": _NAV,
        **_row(draft, user),
        "card": Card(draft.card).label,
        "rows": rows,
        "is_extraordinary": any(row.is_extraordinary for row in rows),
    }
    return render(request, "catalog/draft.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(*_WRITERS)
def draft_new(request: HttpRequest, user: User) -> HttpResponse:
    """Ask for new rates, and keep them as a draft."""
    initial = {name: request.GET[name] for name in ("model", "lane", "card") if name in request.GET}
    form = DraftForm(request.POST if request.method == "POST" else None, initial=initial)
    action = Action(title="New version of rates", submit="Save draft", back_url=reverse("catalog:rate-list"), nav=_NAV)
    if form.is_bound and form.is_valid():
        cleaned = form.cleaned_data
        try:
            draft = draft_rates(
                lane_named(cleaned["model"].strip(), cleaned["lane"].strip()),
                Card(cleaned["card"]),
                form.published(),
                valid_from=form.valid_from(clock.now()),
                reason=cleaned["reason"],
                drafted_by=user,
                discount_basis_points=cleaned["discount_percent"] * 100,
            )
        except (InvalidRequest, NotFound) as error:
            if error.param == "valid_from":
                error.param = "starts_on"
            say_error(form, error)
        else:
            url = reverse("catalog:draft-detail", args=[draft.public_id])
            return done(request, url, "The draft is saved. Another person approves it.")
    return ask(request, action, form)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def draft_decide(request: HttpRequest, user: User, draft_id: str) -> HttpResponse:
    """Approve or reject a draft that another person made."""
    draft = _found(draft_id)
    back_url = reverse("catalog:draft-detail", args=[draft_id])
    form = DraftDecisionForm(request.POST if request.method == "POST" else None)
    rows = compared(figures_of(draft), live_figures(draft.lane, Card(draft.card), max(draft.valid_from, clock.now())))
    if not any(row.is_extraordinary for row in rows):
        del form.fields["confirms_extraordinary"]
    if form.is_bound and form.is_valid():
        try:
            decided = decide_draft(
                draft_id,
                approves=form.cleaned_data["approves"] == "yes",
                reason=form.cleaned_data["reason"],
                decided_by=user,
                confirms_extraordinary=form.cleaned_data.get("confirms_extraordinary", False),
            )
        except InvalidRequest as error:
            say_error(form, error)
        else:
            return done(request, back_url, f"The draft is {decided.state}.")
    lead = (f"{Card(draft.card).label} rates of {draft.lane.model.slug} on {draft.lane.lane_id}.",)
    return ask(request, Action(title="Decide the rates", submit="Decide", back_url=back_url, nav=_NAV, lead=lead), form)


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(*_WRITERS)
def price_import(request: HttpRequest, user: User) -> HttpResponse:
    """Take a price file and show what it drafted, and what it could not."""
    form = PriceFileForm(request.POST, request.FILES) if request.method == "POST" else PriceFileForm()
    report: ImportReport | None = None
    if form.is_bound and form.is_valid():
        file = cast("UploadedFile[Any]", form.cleaned_data["price_file"])
        report = import_prices(file.read(), name=file.name or "price file", drafted_by=user)
    context: dict[str, Any] = {
        "active_nav": _NAV,
        "form": form,
        "report": report,
        "rows": [_row(draft, user) for draft in report.drafts] if report else [],
    }
    return render(request, "catalog/price_import.html", context, status=422 if form.errors else 200)


def may_draft(user: User) -> bool:
    """Say whether somebody may draft rates."""
    return user.staff_role in {*_WRITERS, StaffRole.SUPERADMIN}


def _row(draft: RateDraft, user: User) -> dict[str, Any]:
    state = DraftState(draft.state)
    may_decide = state == DraftState.DRAFT and user.staff_role in {StaffRole.FINANCE, StaffRole.SUPERADMIN}
    return {
        "draft": draft,
        "tone": _TONES[state],
        "word": state.label,
        "may_decide": may_decide and draft.drafted_by_id != user.pk,
    }


def _cursor(row: RateRow) -> str:
    lane = row.version.lane
    return f"{lane.model.slug}|{lane.lane_id}|{row.version.card}"


def _found(draft_id: str) -> RateDraft:
    return draft_by_id(draft_id)
