"""Pages of provider invoices, breaks and periods."""

from __future__ import annotations

from datetime import UTC, datetime

from playwright.sync_api import Page, expect

from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.domain.records import ColumnMapping, Format
from billing.reconciliation.models import Break, ProviderInvoice
from billing.reconciliation.services.decisions import Decision, decide_breaks
from billing.reconciliation.services.files import take_file
from billing.reconciliation.services.periods import ask_to_close, close
from tests.billing.reconciliation.kit import MONTH, matched_month, report, taken
from tests.browser.cases import PageCase, Role, World

_FIN = "/fin"
_READERS: dict[Role, int] = {"nobody": 302, "admin": 404, "operator": 200, "support": 403}
_WRITERS: dict[Role, int] = {"nobody": 302, "admin": 404, "operator": 403}


def _matched(world: World) -> ProviderInvoice:
    world.clock.freeze(datetime(2026, 11, 9, 10, 0, tzinfo=UTC))
    return matched_month()


def _invoices(world: World) -> str:
    _matched(world)
    return f"{_FIN}/invoices/"


def _invoice(world: World) -> str:
    return f"{_FIN}/invoices/{_matched(world).public_id}/?state=break"


def _file(world: World) -> str:
    return f"{_FIN}/invoices/import/{_matched(world).files.get().public_id}/"


def _file_with_bad_lines(_world: World) -> str:
    content = b"Date,Cost\n2026-10-01,1.5\n2026-10-33,2\n"
    mapping = ColumnMapping(columns={"day": "Date", "amount": "Cost"})
    file = taken(content, report_format=Format.MAPPED_CSV, mapping=mapping)
    return f"{_FIN}/invoices/import/{file.public_id}/"


def _file_being_read(_world: World) -> str:
    return f"{_FIN}/invoices/import/{take_file(report(), [b'BilledCost'], by=None).public_id}/"


def _draft(_world: World) -> str:
    content = b"Date,Model,What,kTok,Cost\n2026-10-01,m-1,output,1.5,0.5\n2026-10-33,m-1,output,1,2\n"
    file = take_file(report(report_format=Format.MAPPED_CSV, file_name="other.csv"), [content], by=None)
    return f"{_FIN}/invoices/import/{file.public_id}/mapping"


def _preview(page: Page) -> None:
    page.get_by_label("Day or start").select_option("Date")
    page.get_by_label("Amount", exact=True).select_option("Cost")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="As this mapping reads it")).to_be_visible()


def _breaks(world: World) -> str:
    _matched(world)
    return f"{_FIN}/breaks/"


def _write_off(page: Page) -> None:
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Write off").click()
    expect(page.get_by_role("heading", name="Write off: 23 breaks")).to_be_visible()


def _break(world: World, kind: str) -> Break:
    _matched(world)
    return Break.objects.filter(kind=kind).order_by("pk")[0]


def _pending(world: World) -> str:
    found = _break(world, "tax")
    Break.objects.filter(pk=found.pk).update(
        state="pending", asked_action="adjust", decided_by=world.person("finance"), decided_at=world.clock.now()
    )
    return f"{_FIN}/breaks/{found.public_id}/agree"


def _periods(world: World) -> str:
    _matched(world)
    return f"{_FIN}/periods/"


def _period(world: World) -> str:
    _matched(world)
    return f"{_FIN}/periods/2026-10/"


def _closed(world: World) -> str:
    _matched(world)
    fay, sam = world.person("finance"), world.person("superadmin")
    assert fay is not None
    assert sam is not None
    ids = list(Break.objects.values_list("public_id", flat=True))
    decide_breaks(ids, Decision(action=Action.DISPUTE, reason="sent to them"), by=fay)
    ask_to_close(MONTH, by=fay)
    close(MONTH, by=sam)
    return f"{_FIN}/periods/2026-10/"


def _case(name: str, page: str, make: object, **more: object) -> PageCase:
    return PageCase(name=name, url_name=f"reconciliation:{page}", seen_by="finance", make=make, **more)  # type: ignore[arg-type]


OF_RECONCILIATION = (
    _case("no invoices", "invoice-list", lambda _world: f"{_FIN}/invoices/", others=_READERS),
    _case("invoices", "invoice-list", _invoices),
    _case("import a report", "invoice-import", lambda _world: f"{_FIN}/invoices/import", others=_WRITERS),
    _case("file of an invoice", "invoice-file", _file, others=_READERS),
    _case("file with bad lines", "invoice-file", _file_with_bad_lines),
    _case("file being read", "invoice-file", _file_being_read),
    _case("mapping a file", "invoice-mapping", _draft, act=_preview),
    _case("invoice", "invoice-detail", _invoice, others=_READERS),
    _case("no breaks", "break-list", lambda _world: f"{_FIN}/breaks/?state=undecided", others=_READERS),
    _case("breaks", "break-list", _breaks),
    _case("decide breaks", "break-decide", _breaks, act=_write_off),
    _case("break", "break-detail", lambda w: f"{_FIN}/breaks/{_break(w, 'cache_class').public_id}/", others=_READERS),
    _case("agree to a break", "break-agree", _pending, others=_WRITERS),
    _case("periods", "period-list", _periods, others=_WRITERS),
    _case("period", "period-detail", _period, others=_WRITERS),
    _case("closed period", "period-detail", _closed),
)
NOT_OF_RECONCILIATION = {
    "reconciliation:file-cancel": "takes a POST",
    "reconciliation:breaks-agree": "takes a POST",
    "reconciliation:invoice-match": "takes a POST",
    "reconciliation:file-download": "a download",
    "reconciliation:dispute-file": "a download",
    "reconciliation:period-file": "a download",
}
