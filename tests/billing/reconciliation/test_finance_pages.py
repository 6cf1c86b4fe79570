"""Finance's pages as people use them: handing in, deciding many at once, closing; odd addresses are no accident."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from accounts.models import StaffRole
from billing.reconciliation.models import Break, BreakState, ColumnMappingRow, InvoiceFile, InvoiceLine
from billing.reconciliation.overview import undecided_by_age
from billing.reconciliation.period_models import PeriodState
from billing.reconciliation.services.matching import match_next_invoice
from billing.reconciliation.services.reading import read_next_file
from tests.billing.reconciliation.kit import ACCOUNT, matched_month, month_of
from tests.harness.clock import Clock
from tests.routing.pages.scenes import staff


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(staff(StaffRole.FINANCE, name=name))
    return client


@pytest.fixture
def fay(db: None) -> Client:
    return signed_in("Fay Finance")


def handed_in(client: Client, content: bytes, report_format: str) -> str:
    """Give where the upload leads, or the page that refused it."""
    form = {
        "file": SimpleUploadedFile("october.csv", content),
        "report_format": report_format,
        "provider": "openai",
        "provider_account": ACCOUNT,
        "period": "2026-10",
        "stated_total": "12.5",
    }
    answer = client.post("/fin/invoices/import", form)
    return answer.headers["Location"] if answer.status_code == 302 else answer.content.decode()


def test_a_file_is_handed_in_followed_and_refused_the_second_time(fay: Client) -> None:
    page = handed_in(fay, month_of().bill, "focus")
    assert 'hx-trigger="every 2s"' in fay.get(page).content.decode()
    while read_next_file() or match_next_invoice():
        pass
    after = fay.get(page).content.decode()
    assert "hx-trigger" not in after.split('id="file"')[1].split(">")[0]
    # The paper says 12.5 USD; the lines add up to something else.
    assert Break.objects.filter(day=None, kind="unexplained").count() == 1
    assert f'href="{page}"' in handed_in(fay, month_of().bill, "focus")
    assert fay.get(f"{page}file").getvalue() == month_of().bill


def test_another_csv_is_mapped_with_a_preview_and_the_mapping_kept(fay: Client) -> None:
    page = handed_in(fay, b"Date;Was;kTok;Cost\n2026-10-05;output;1.5;450\n2026-10-99;output;1;1\n", "mapped_csv")
    mapping = fay.get(page).headers["Location"]
    said = {
        "column_day": "Date", "column_amount": "Cost", "column_token_class": "Was", "column_quantity": "kTok",
        "amount_unit": "micro_usd", "currency": "USD", "zone": "UTC", "tokens_per_unit_count": "1000", "delimiter": ";",
        "save_as": "The other cloud",
    }  # fmt: skip
    preview = fay.post(mapping, {**said, "step": "preview"}).content.decode()
    assert "1,500" in preview
    assert "Day is no time" in preview
    assert fay.post(mapping, {**said, "zone": "Mars", "step": "use"}).status_code == 422
    assert fay.post(mapping, {**said, "step": "use"}).status_code == 302
    assert ColumnMappingRow.objects.get().name == "The other cloud"
    read_next_file()
    line = InvoiceLine.objects.get()
    assert (line.quantity, line.amount_pico_usd) == (1_500, 450_000_000)
    assert InvoiceFile.objects.get().bad_line_count == 1


def test_many_breaks_are_decided_at_once_and_one_is_reopened_alone(fay: Client) -> None:
    matched_month()
    ids = list(Break.objects.exclude(kind="tax").values_list("public_id", flat=True))
    asked = fay.post("/fin/breaks/decide", {"id": ids, "action": "write_off", "back": "/fin/breaks/?state=open"})
    assert f"Write off: {len(ids)} breaks" in asked.content.decode()
    assert not Break.objects.filter(state=BreakState.WRITTEN_OFF).exists()
    form = {"id": ids, "action": "write_off", "confirm": "yes", "back": "https://elsewhere.example/"}
    assert fay.post("/fin/breaks/decide", {**form, "reason": ""}).status_code == 422
    done = fay.post("/fin/breaks/decide", {**form, "reason": "below what it costs to ask"})
    assert done.headers["Location"] == "/fin/breaks/"
    assert Break.objects.filter(state=BreakState.WRITTEN_OFF).count() == len(ids)
    reopen = {"id": ids[:1], "action": "reopen", "confirm": "yes", "reason": "found it"}
    fay.post("/fin/breaks/decide", reopen)
    assert Break.objects.filter(state=BreakState.WRITTEN_OFF).count() == len(ids) - 1
    dispute = fay.get(f"/fin/breaks/dispute.csv?id={ids[1]}").content.decode()
    assert dispute.count("\nbreak,") == 1


def test_many_breaks_that_wait_are_agreed_to_by_another_person_at_once(fay: Client, settings: object) -> None:
    settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = 0  # type: ignore[attr-defined]
    matched_month()
    ids = list(Break.objects.filter(kind__in=["tax", "tier"]).values_list("public_id", flat=True))
    fay.post("/fin/breaks/decide", {"id": ids, "action": "accept", "confirm": "yes", "reason": "as they say"})
    assert 'formaction="/fin/breaks/agree"' in fay.get("/fin/breaks/?state=pending").content.decode()
    assert "somebody else of finance" in fay.post("/fin/breaks/agree", {"id": ids}).content.decode()
    sam = signed_in("Sam Second")
    asked = sam.post("/fin/breaks/agree", {"id": ids}).content.decode()
    assert asked.count("as they say") == len(ids)
    assert sam.post("/fin/breaks/agree", {"id": ids, "agree": "yes", "reason": ""}).status_code == 422
    done = sam.post("/fin/breaks/agree", {"id": ids, "agree": "yes", "reason": "seen", "back": "/fin/breaks/"})
    assert done.headers["Location"] == "/fin/breaks/"
    assert Break.objects.filter(state=BreakState.ACCEPTED).count() == len(ids)


def test_undecided_breaks_age_from_the_day_they_were_found(fay: Client, clock: Clock) -> None:
    clock.freeze(datetime(2026, 11, 9, tzinfo=UTC))
    matched_month()
    clock.freeze(datetime(2026, 11, 17, tzinfo=UTC))
    decided = Break.objects.get(kind="tax")
    form = {"id": [decided.public_id], "action": "dispute", "confirm": "yes", "reason": "sent to them"}
    signed_in("Fae Finance").post("/fin/breaks/decide", form)
    ages = undecided_by_age(datetime(2026, 11, 17, tzinfo=UTC))
    assert [(band.label, band.count) for band in ages.bands] == [
        ("0 to 7 days", 0),
        ("8 to 30 days", Break.objects.count() - 1),
        ("31 to 90 days", 0),
        ("Over 90 days", 0),
    ]
    others = Break.objects.exclude(pk=decided.pk)
    assert ages.total.size_pico_usd == sum(abs(int(each.difference_pico_usd)) for each in others)
    assert ages.total.unexplained_pico_usd == abs(int(others.get(kind="unexplained").difference_pico_usd))


def test_a_month_is_closed_on_its_page_by_two(fay: Client, clock: Clock) -> None:
    matched_month()
    clock.freeze(datetime(2026, 11, 9, tzinfo=UTC))
    fay = signed_in("Fae Finance")
    page = "/fin/periods/2026-10/"
    assert fay.post(page, {"action": "ask"}).status_code == 422
    ids = list(Break.objects.values_list("public_id", flat=True))
    fay.post("/fin/breaks/decide", {"id": ids, "action": "dispute", "confirm": "yes", "reason": "sent to them"})
    assert fay.post(page, {"action": "ask"}).status_code == 302
    assert fay.post(page, {"action": "close"}).status_code == 422
    sam = signed_in("Sam Second")
    assert sam.post(page, {"action": "close"}).status_code == 302
    assert PeriodState.CLOSED.label in sam.get(page).content.decode()
    first = sam.get(f"{page}closing.csv")
    assert first.content == fay.get(f"{page}closing.csv").content
    late = fay.post("/fin/breaks/decide", {"id": ids[:1], "action": "reopen", "confirm": "yes", "reason": "late"})
    assert (late.status_code, "is closed" in late.content.decode()) == (422, True)
    marked = fay.get(f"/fin/breaks/{ids[0]}/").content.decode()
    assert ("Month closed" in marked, 'value="reopen"' in marked) == (True, False)


@pytest.mark.parametrize(
    "path",
    [
        "/fin/breaks/?min_difference=1e400&kind=x&state=y&owner=z&period=2026-13&since=9999-99-99",
        "/fin/breaks/?min_difference=NaN", "/fin/breaks/?owner=-1&period=0001-01&invoice=%00",
        "/fin/breaks/?after=nope",
        "/fin/breaks/brk_x%00/", "/fin/breaks/brk_x/", "/fin/invoices/%00/", "/fin/invoices/?text=%00&period=x",
        "/fin/invoices/import/x/", "/fin/invoices/import/x/mapping", "/fin/periods/2026-13/",
        "/fin/periods/0000-01/", "/fin/breaks/?period=9999-12",
        "/fin/periods/9999-12/", "/fin/periods/2026-01/closing.csv", "/fin/invoices/import?period=x&provider=y",
    ],
)  # fmt: skip
def test_odd_addresses_are_answered(fay: Client, path: str) -> None:
    assert fay.get(path).status_code in {200, 404}
