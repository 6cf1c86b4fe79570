"""Invoices: the list with its headline, handing in a report step by step, and one invoice."""

from __future__ import annotations

from datetime import date
from typing import cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.audit import record_reading
from accounts.list_pages import ROWS_PER_PAGE, Deed, ListPage, show_list
from accounts.models import StaffRole, User
from accounts.pages import region_asked_for, staff_page
from billing.domain.money import round_pico_to_micro
from billing.reconciliation import selectors
from billing.reconciliation.domain.records import BillLine, ColumnMapping, Format
from billing.reconciliation.domain.registry import REPORTS
from billing.reconciliation.forms import ImportForm, InvoiceFilterForm, MappingForm
from billing.reconciliation.models import FileState, InvoiceFile, ProviderInvoice
from billing.reconciliation.period_models import Period, PeriodState
from billing.reconciliation.services.files import (
    FileTakenBefore,
    Report,
    ask_to_cancel,
    file_by_id,
    map_file,
    take_file,
)
from billing.reconciliation.services.matching import ask_to_match
from billing.reconciliation.views import shown
from ground import clock
from ground.blobs import chunks_of, open_blob
from ground.errors import LanehouseError

_ROWS = 200
_CHUNK_BYTES = 256 * 1024
_POLL_SECONDS = 2


@require_safe
@staff_page(StaffRole.FINANCE, StaffRole.OPERATOR)
def invoice_list(request: HttpRequest, user: User) -> HttpResponse:
    """Show invoices and how well they agree with our books; alone: the region ``list``."""
    form = InvoiceFilterForm(request.GET)
    chosen = form.cleaned_data if form.is_valid() else {}
    wanted = {"text": chosen.get("text", ""), "period": chosen.get("period")}
    found = selectors.invoices(**wanted)
    page: list[ProviderInvoice] = []
    has_more = False
    if form.is_valid():
        page, has_more = selectors.invoice_page(after=request.GET.get("after", ""), limit=ROWS_PER_PAGE, **wanted)
    closed = closed_months()
    month = chosen.get("period") or _last_month(clock.now().date())
    return show_list(
        request,
        ListPage(
            nav="invoices",
            title="Provider invoices",
            heading="Provider invoices",
            lead="What providers bill our accounts, month by month, against every attempt that we recorded.",
            what="Invoices",
            table="billing/reconciliation/_invoice_table.html",
            empty_title="No invoices yet",
            empty_text="Import a provider's cost report: it is read line by line and compared with our attempts, and "
            "every difference gets a name.",
            empty_deed=import_deed() if may_write(user) else None,
            deeds=[import_deed()] if may_write(user) else [],
            above="billing/reconciliation/_invoices_above.html",
        ),
        form,
        [shown.invoice_row(each, is_closed=each.period in closed) for each in page],
        next_after=page[-1].public_id if has_more else "",
        totals=selectors.totals_of(found),
        cards=shown.headline_cards(selectors.headline(found), clock.now()),
        missing=selectors.missing_invoices(month),
        missing_month=month,
        may_write=may_write(user),
        scope_query=f"&period={month:%Y-%m}" if chosen.get("period") else "",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def invoice_import(request: HttpRequest, user: User) -> HttpResponse:
    """Take a report: the first step."""
    if request.method != "POST":
        initial = {
            name: request.GET.get(name, "") for name in ("provider", "provider_account", "period", "report_format")
        }
        return _import_page(request, ImportForm(initial={name: value for name, value in initial.items() if value}))
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _import_page(request, form, status=422)
    try:
        file = take_file(_report(form), form.cleaned_data["file"].chunks(_CHUNK_BYTES), by=user)
    except FileTakenBefore as error:
        form.add_error("file", error.message)
        return _import_page(request, form, status=422, taken=error.file)
    except LanehouseError as error:
        form.add_error(error.param if error.param in form.fields else None, error.message)
        return _import_page(request, form, status=422)
    return redirect("reconciliation:invoice-file", file.public_id)


def _import_page(
    request: HttpRequest, form: ImportForm, *, status: int = 200, taken: InvoiceFile | None = None
) -> HttpResponse:
    context = {
        "active_nav": "invoices",
        "form": form,
        "taken": taken,
        "steps": [
            {"word": "Uploaded", "is_current": True},
            *({"word": w} for w in ("Read", "Matched", "Reviewed", "Closed")),
        ],
        "crumbs": [{"label": "Invoices", "url": reverse("reconciliation:invoice-list")}, {"label": "Import"}],
    }
    return render(request, "billing/reconciliation/invoice_import.html", context, status=status)


def _report(form: ImportForm) -> Report:
    cleaned = form.cleaned_data
    return Report(
        provider=cleaned["provider"],
        provider_account=cleaned["provider_account"],
        period=form.report_period(),
        report_format=form.format(),
        file_name=str(cleaned["file"].name),
        invoice_number=cleaned["number"],
        stated_total_micro_usd=form.stated_total_micro_usd(),
        request_parameters=cleaned["request_parameters"],
        fetched_at=clock.now(),
    )


@require_safe
@staff_page(StaffRole.FINANCE, StaffRole.OPERATOR)
def invoice_file(request: HttpRequest, user: User, file_id: str) -> HttpResponse:
    """Show a file and how far it is; alone: the region ``file``, which asks again until it is read and matched."""
    file = _file(file_id)
    if file.state == FileState.DRAFT and may_write(user):
        return redirect("reconciliation:invoice-mapping", file.public_id)
    invoice = selectors.invoice_by_id(file.invoice.public_id)
    undecided_count = int(getattr(invoice, "undecided_count", 0))
    is_busy = file.state == FileState.UPLOADED or (file.state == FileState.READ and invoice.match_state == "due")
    tone, word = shown.FILE_BADGES[FileState(file.state)]
    context = {
        "active_nav": "invoices",
        "file": file,
        "report": REPORTS[Format(file.report_format)].name,
        "tone": tone,
        "word": word,
        "sha256": bytes(file.sha256).hex(),
        "row": shown.invoice_row(invoice, is_closed=invoice.period in closed_months()),
        "steps": shown.steps_of(file, invoice, undecided_count, is_closed=invoice.period in closed_months()),
        **_bad_lines(request, file),
        "total_micro_usd": round_pico_to_micro(int(file.total_pico_usd)),
        "is_busy": is_busy,
        "poll_seconds": _POLL_SECONDS,
        "at": clock.now(),
        "may_write": may_write(user),
        "crumbs": [
            {"label": "Invoices", "url": reverse("reconciliation:invoice-list")},
            {
                "label": f"{invoice.provider_account}, {invoice.period:%B %Y}",
                "url": reverse("reconciliation:invoice-detail", args=[invoice.public_id]),
            },
            {"label": "File"},
        ],
    }
    is_region = region_asked_for(request) == "file"
    return render(request, f"billing/reconciliation/{'_' if is_region else ''}invoice_file.html", context)


def _bad_lines(request: HttpRequest, file: InvoiceFile) -> dict[str, object]:
    """Give a page of a file's bad lines, and where the next one is."""
    lines, has_more = selectors.bad_line_page(file, after=request.GET.get("after", ""), limit=_ROWS)
    more = urlencode({"after": selectors.bad_line_cursor(lines[-1])}) if has_more else ""
    return {"bad_lines": lines, "more_bad_lines_url": f"{request.path}?{more}#h-bad" if more else ""}


@require_http_methods(["GET", "HEAD", "POST"])
@staff_page(StaffRole.FINANCE)
def invoice_mapping(request: HttpRequest, user: User, file_id: str) -> HttpResponse:
    """Say which column is what: the second step of another CSV, with the first 20 rows as they are read."""
    file = _file(file_id)
    if file.state != FileState.DRAFT:
        return redirect("reconciliation:invoice-file", file.public_id)
    raw = selectors.preview(file, ColumnMapping(columns={}, delimiter=request.POST.get("delimiter") or ","))
    if request.method != "POST":
        return _mapping_page(request, file, MappingForm(header=raw.header), raw)
    form = MappingForm(request.POST, header=raw.header)
    step = request.POST.get("step")
    saved = form.fields["saved"].clean(request.POST.get("saved") or None) if step == "load" else None
    if saved is not None:
        return _mapping_page(request, file, MappingForm(header=raw.header, initial=_initial(saved.mapping)), raw)
    if not form.is_valid():
        return _mapping_page(request, file, form, raw, status=422)
    if step == "use":
        return _mapped(request, file, form, raw, user)
    return _mapping_page(request, file, form, selectors.preview(file, form.mapping()))


def _mapped(
    request: HttpRequest, file: InvoiceFile, form: MappingForm, raw: selectors.Preview, user: User
) -> HttpResponse:
    try:
        map_file(file.public_id, form.mapping(), save_as=form.cleaned_data["save_as"], by=user)
    except LanehouseError as error:
        form.add_error(None, error.message)
        return _mapping_page(request, file, form, raw, status=422)
    return redirect("reconciliation:invoice-file", file.public_id)


def _initial(mapping: dict[str, object]) -> dict[str, object]:
    columns = cast("dict[str, str]", mapping.get("columns", {}))
    return {**mapping, **{f"column_{name}": column for name, column in columns.items()}}


def _mapping_page(
    request: HttpRequest, file: InvoiceFile, form: MappingForm, preview: selectors.Preview, status: int = 200
) -> HttpResponse:
    context = {
        "active_nav": "invoices",
        "file": file,
        "form": form,
        "preview": preview,
        "read": [
            {
                "line": item,
                "is_bad": not isinstance(item, BillLine),
                "class_word": shown.CLASS_WORDS.get(item.token_class.value, "") if isinstance(item, BillLine) else "",
            }
            for item in preview.read
        ],
        "steps": shown.steps_of(file, file.invoice, 0, is_closed=False),
        "crumbs": [
            {"label": "Invoices", "url": reverse("reconciliation:invoice-list")},
            {"label": "Mapping"},
        ],
    }
    return render(request, "billing/reconciliation/invoice_mapping.html", context, status=status)


@require_POST
@staff_page(StaffRole.FINANCE)
def file_cancel(request: HttpRequest, _user: User, file_id: str) -> HttpResponse:
    """Stop reading a file."""
    file = ask_to_cancel(file_id)
    messages.info(request, "The file is read no further, and nothing of it counts.")
    return redirect("reconciliation:invoice-file", file.public_id)


@require_safe
@staff_page(StaffRole.FINANCE)
def file_download(_request: HttpRequest, _user: User, file_id: str) -> HttpResponseBase:
    """Give a file back as it was handed in."""
    file = _file(file_id)
    record_reading("invoice.file_downloaded", object_type="invoice_file", object_id=file.public_id)
    response = StreamingHttpResponse(chunks_of(open_blob(file.blob_name)), content_type="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="{file.public_id}"'
    response.headers["Content-Length"] = str(file.size_bytes)
    return response


@require_safe
@staff_page(StaffRole.FINANCE, StaffRole.OPERATOR)
def invoice_detail(request: HttpRequest, user: User, invoice_id: str) -> HttpResponse:
    """Show an invoice: its headline, its places on both sides, and its files. Alone: the region ``list``."""
    invoice = _invoice(invoice_id)
    is_closed = invoice.period in closed_months()
    row = shown.invoice_row(invoice, is_closed=is_closed)
    state = request.GET.get("state", "")
    state = state if state in {"exact", "break", "waiting"} else ""
    places, has_more = selectors.place_page(invoice, after=request.GET.get("after", ""), limit=_ROWS, state=state)
    totals = selectors.place_totals(invoice, state=state)
    beyond_pico_usd = 0 if state or row.invoiced_pico_usd is None else row.invoiced_pico_usd - totals.invoiced_pico_usd
    files = list(invoice.files.order_by("-pk"))
    current = next(
        (file for file in files if file.state == FileState.READ and file.has_money), files[0] if files else None
    )
    url = reverse("reconciliation:invoice-detail", args=[invoice.public_id])
    context = {
        "active_nav": "invoices",
        "invoice": invoice,
        "scope_query": f"&invoice={invoice.public_id}",
        "row": row,
        "cards": shown.headline_cards(selectors.headline(ProviderInvoice.objects.filter(pk=invoice.pk)), clock.now()),
        "places": [shown.bucket_row(each) for each in places],
        "more_places_url": f"{url}?{urlencode({'state': state, 'after': selectors.place_cursor(places[-1])})}"
        if has_more
        else "",
        "beyond_pico_usd": beyond_pico_usd,
        "totals": totals if state else row,
        "files": [(file, *shown.FILE_BADGES[FileState(file.state)]) for file in files],
        "current": current,
        "steps": shown.steps_of(current, invoice, row.undecided_count, is_closed=is_closed),
        "tabs": [
            {"key": key, "label": label, "url": f"{url}?state={key}" if key else url, "count": count}
            for key, label, count in (
                ("", "All places", invoice.bucket_count),
                ("break", "Differing", invoice.bucket_count - invoice.exact_bucket_count),
                ("exact", "Exact", invoice.exact_bucket_count),
                ("waiting", "Waiting", None),
            )
        ],
        "active_tab": state,
        "breaks_url": f"{reverse('reconciliation:break-list')}?invoice={invoice.public_id}&state=undecided",
        "may_write": may_write(user) and not is_closed,
        "crumbs": [{"label": "Invoices", "url": reverse("reconciliation:invoice-list")}, {"label": invoice.provider}],
    }
    return render(request, "billing/reconciliation/invoice_detail.html", context)


@require_POST
@staff_page(StaffRole.FINANCE)
def invoice_match(request: HttpRequest, _user: User, invoice_id: str) -> HttpResponse:
    """Ask for a match."""
    invoice = _invoice(invoice_id)
    try:
        ask_to_match(invoice)
    except LanehouseError as error:
        messages.error(request, error.message)
    else:
        messages.info(request, "The invoice is matched again; decisions stay.")
    return redirect("reconciliation:invoice-detail", invoice.public_id)


def import_deed() -> Deed:
    """Give the button that leads to handing in a report."""
    return Deed(
        key="import",
        label="Import a report",
        url=reverse("reconciliation:invoice-import"),
        icon="upload",
        is_primary=True,
    )


def closed_months() -> set[date]:
    """Give the months that are closed."""
    return set(Period.objects.filter(state=PeriodState.CLOSED).values_list("month", flat=True))


def may_write(user: User) -> bool:
    """Say whether somebody may import and decide."""
    return user.staff_role in {StaffRole.FINANCE, StaffRole.SUPERADMIN}


def _last_month(day: date) -> date:
    return (day.replace(day=1) - date.resolution).replace(day=1)


def _file(file_id: str) -> InvoiceFile:
    return file_by_id(file_id)


def _invoice(invoice_id: str) -> ProviderInvoice:
    return selectors.invoice_by_id(invoice_id)
