"""``/v1/finance``: the same as the pages, for keys of our own people and for nobody else's."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.domain.staff_scopes import StaffScope
from accounts.models import StaffRole, User
from accounts.services.staff_keys import create_staff_key
from billing.reconciliation.models import Break, Bucket, ProviderInvoice
from billing.reconciliation.services.matching import match_next_invoice
from billing.reconciliation.services.reading import read_next_file
from ground import clock as product_clock
from tests.billing.reconciliation.kit import ACCOUNT, month_of, record
from tests.harness.clock import Clock
from tests.harness.world import make_tenant
from tests.routing.pages.scenes import staff

_FILES = f"/v1/finance/invoice_files?provider=openai&account={ACCOUNT}&month=2026-10"


def key_of(user: User, scope: StaffScope) -> str:
    _, new = create_staff_key(
        user, name="month end", scopes=[scope], at=product_clock.now(), lifetime=timedelta(days=1)
    )
    return new.text


def ask(method: str, path: str, key: str, body: Any = None, status: int = 200, once: str = "") -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    answer = Client().generic(
        method,
        path,
        content,
        content_type="application/octet-stream" if isinstance(body, bytes) else "application/json",
        headers={"Authorization": f"Bearer {key}", **({"Idempotency-Key": once} if once else {})},
    )
    assert answer.status_code == status, answer.content
    return answer.json() if answer.headers["Content-Type"].startswith("application/json") else answer.content


@pytest.fixture
def write_keys(db: None) -> tuple[str, str]:
    people = (staff(StaffRole.FINANCE, name="Fay Finance"), staff(StaffRole.FINANCE, name="Sam Second"))
    fay, sam = (key_of(person, StaffScope.FINANCE_WRITE) for person in people)
    return fay, sam


def test_a_month_is_imported_decided_and_closed_by_programs(write_keys: tuple[str, str], clock: Clock) -> None:
    fay, sam = write_keys
    made = month_of()
    record(made)
    file = ask("POST", f"{_FILES}&format=focus", fay, made.bill)
    while read_next_file() or match_next_invoice():
        pass
    assert ask("GET", f"/v1/finance/invoice_files/{file['id']}", fay)["is_complete"] is True
    again = ask("POST", f"{_FILES}&format=focus", fay, made.bill, status=400)
    assert (again["error"]["code"], again["error"]["file_id"]) == ("invoice_file_taken", file["id"])
    breaks = ask("GET", "/v1/finance/breaks?state=undecided&limit=500", fay)
    difference = sum(sum(differences) for differences in made.expected.values())
    assert breaks["total"] == {"count": Break.objects.count(), "difference_pico_usd": difference}
    page = ask("GET", f"/v1/finance/breaks?limit=2&after={breaks['data'][0]['id']}", fay)["data"]
    assert [each["id"] for each in page] == [each["id"] for each in breaks["data"][1:3]]
    riddle = ask("GET", "/v1/finance/breaks?kind=unexplained", fay)["data"][0]
    assert riddle["difference_pico_usd"] == 1_234_560_000
    assert len(ask("GET", f"/v1/finance/breaks/{riddle['id']}", fay)["evidence"]["lines"]) == 1
    decision = {"ids": [each["id"] for each in breaks["data"]], "action": "dispute", "reason": "sent to them"}
    assert {each["state"] for each in ask("POST", "/v1/finance/break_decisions", fay, decision)["data"]} == {"disputed"}
    clock.freeze(datetime(2026, 11, 9, tzinfo=UTC))
    fay, sam = (key_of(User.objects.get(name=name), StaffScope.FINANCE_WRITE) for name in ("Fay Finance", "Sam Second"))
    ask("POST", "/v1/finance/periods/2026-10/ask", fay)
    ask("POST", "/v1/finance/periods/2026-10/close", fay, status=403)
    closed = ask("POST", "/v1/finance/periods/2026-10/close", sam)
    assert closed["state"] == "closed"
    assert ask("GET", "/v1/finance/periods/2026-10/closing_file", fay).count(b"\nbreak,") == len(breaks["data"])
    refused = ask("POST", "/v1/finance/break_decisions", fay, {**decision, "action": "reopen"}, status=400)
    assert refused["error"]["code"] == "period_closed"


def test_a_key_does_what_it_was_made_for_and_a_customers_does_nothing(write_keys: tuple[str, str]) -> None:
    reader = key_of(User.objects.get(name="Fay Finance"), StaffScope.FINANCE_READ)
    assert ask("GET", "/v1/finance/invoices", reader)["data"] == []
    for path, body in (
        (f"{_FILES}&format=focus", b"x"),
        ("/v1/finance/periods/2026-10/ask", {}),
        ("/v1/finance/break_decisions", {"ids": ["brk_x"], "action": "dispute", "reason": "no"}),
    ):
        assert ask("POST", path, reader, body, status=403)["error"]["code"] == "insufficient_scope"
    customer = make_tenant().key_text
    for key in (customer, "", "sk-lh-staff-nothing"):
        ask("GET", "/v1/finance/invoices", key, status=401)
    User.objects.filter(name="Fay Finance").update(staff_role=StaffRole.SUPPORT)
    ask("GET", "/v1/finance/invoices", reader, status=401)


def test_a_call_with_an_idempotency_key_is_done_once_for_each_person(
    write_keys: tuple[str, str], settings: Any
) -> None:
    fay, sam = write_keys
    settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = 0
    made = month_of()
    record(made)
    file = ask("POST", f"{_FILES}&format=focus", fay, made.bill, once="k-1")
    # Without the key the same file is refused; with it, the first answer comes again.
    assert ask("POST", f"{_FILES}&format=focus", fay, made.bill, once="k-1") == file
    conflict = ask("POST", f"{_FILES}&format=focus", fay, made.bill + b"\n", once="k-1", status=400)
    assert conflict["error"]["code"] == "idempotency_conflict"
    while read_next_file() or match_next_invoice():
        pass
    tax = ask("GET", "/v1/finance/breaks?kind=tax", fay)["data"][0]["id"]
    decision = {"ids": [tax], "action": "accept", "reason": "as they say"}
    first = ask("POST", "/v1/finance/break_decisions", fay, decision, once="k-1")
    assert first["data"][0]["state"] == "pending"
    approval = {"ids": [tax], "agrees": True, "reason": "seen"}
    # The same key of the person who asked is no word of the second person's.
    ask("POST", "/v1/finance/break_approvals", fay, approval, once="k-2", status=403)
    agreed = ask("POST", "/v1/finance/break_approvals", sam, approval, once="k-2")
    assert agreed["data"][0]["state"] == "accepted"
    ask("POST", "/v1/finance/break_decisions", fay, {**decision, "action": "reopen"}, once="k-3")
    assert ask("POST", "/v1/finance/break_approvals", sam, approval, once="k-2") == agreed
    assert Break.objects.get(public_id=tax).state == "pending"
    export = ask("POST", "/v1/finance/exports", fay, {"kind": "breaks"}, once="k-4")
    assert ask("POST", "/v1/finance/exports", fay, {"kind": "breaks"}, once="k-4")["id"] == export["id"]
    assert len(ask("GET", "/v1/finance/exports", fay)["data"]) == 1
    late = ask("POST", "/v1/finance/periods/2026-10/ask", fay, once="k-5", status=400)
    assert ask("POST", "/v1/finance/periods/2026-10/ask", fay, once="k-5", status=400) == late


def test_lists_are_paged_to_their_ends(clock: Clock) -> None:
    clock.freeze(datetime(2026, 12, 31, 23, 59, tzinfo=UTC))
    fay = key_of(staff(StaffRole.FINANCE, name="Fay Finance"), StaffScope.FINANCE_WRITE)
    made = month_of()
    record(made)
    broken = made.bill + b"x\n" * 5
    file = ask("POST", f"{_FILES}&format=focus", fay, broken)["id"]
    for month in ("2026-08", "2026-09", "2027-01"):
        ask("POST", f"{_FILES}&format=focus".replace("2026-10", month), fay, made.bill)
    while read_next_file() or match_next_invoice():
        pass
    invoice = ask("GET", "/v1/finance/invoices?month=2026-10", fay)["data"][0]["id"]
    for path, count in (
        ("/v1/finance/invoices?", 4),
        ("/v1/finance/periods?", 6),  # of each file's month, this one and the one before
        (f"/v1/finance/invoices/{invoice}/places?", Bucket.objects.filter(invoice__public_id=invoice).count()),
        (f"/v1/finance/invoice_files/{file}/bad_lines?", 5),
    ):
        whole = ask("GET", f"{path}limit=500", fay)["data"]
        seen: list[Any] = []
        after, has_more = "", True
        while has_more:
            page = ask("GET", f"{path}limit=3&after={after}", fay)
            seen += page["data"]
            after, has_more = page["last_id"], page["has_more"]
        assert (seen, len(whole)) == (whole, count)
    ask("GET", f"/v1/finance/invoices/{invoice}/places?after=e30", fay, status=404)
    ask("GET", f"/v1/finance/invoice_files/{file}/bad_lines?after=WyJhIiwgMV0", fay, status=404)
    ask("GET", "/v1/finance/invoices?after=inv_x", fay, status=404)
    ask("GET", "/v1/finance/periods?after=x", fay, status=400)


def test_the_published_document_has_every_call_of_finance_and_no_other(db: None) -> None:
    document = Client().get("/v1/finance/openapi.json").json()
    calls = {(method, path) for path, operations in document["paths"].items() for method in operations}
    assert len(calls) == 24
    assert all(path.startswith("/v1/finance/") for _, path in calls)
    assert not any("/finance" in path for path in Client().get("/v1/openapi.json").json()["paths"])
    for method, path in calls:
        operation = document["paths"][path][method]
        has_key = any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", []))
        assert has_key is (method == "post"), path
        assert f"`finance:{'write' if method == 'post' else 'read'}`" in operation["description"]
    # What it says of a break is what a break is.
    assert {"Break", "BreakDetail", "Invoice", "InvoiceFile", "PeriodDetail", "Export"} <= set(
        document["components"]["schemas"]
    )
    assert document["security"] == [{"staff": []}]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/finance/breaks?state=nothing", None, 400),
        ("GET", "/v1/finance/breaks?after=brk_x", None, 404),
        ("GET", "/v1/finance/periods/2026-13", None, 400),
        ("GET", "/v1/finance/invoice_files/invf_x", None, 404),
        ("POST", f"{_FILES}&format=odd", b"x", 400),
        ("POST", f"{_FILES}&format=focus&total=1e99", b"x", 400),
        # Python's own numbers are nobody's amounts.
        ("POST", f"{_FILES}&format=focus&total=1_000", b"x", 400),
        ("POST", f"{_FILES}&format=focus&total=%D9%A1", b"x", 400),
        ("POST", f"{_FILES}&format=focus&total=0.0000001", b"x", 400),
        ("POST", f"{_FILES}&format=focus", b"", 400),
        ("POST", "/v1/finance/break_decisions", {"ids": ["\0"], "action": "dispute", "reason": "why"}, 400),
        (
            "POST",
            "/v1/finance/break_decisions",
            {"ids": ["b"], "action": "link", "reason": "w\0y", "entry_key": "\0"},
            400,
        ),
        ("POST", "/v1/finance/exports", {"kind": "ledger", "format": "csv", "zone": "localtime"}, 400),
        ("POST", "/v1/finance/break_decisions", {"ids": [], "action": "dispute", "reason": "why"}, 400),
        ("POST", "/v1/finance/break_decisions", {"ids": ["brk_x"], "action": "dispute", "reason": "why"}, 404),
    ],
)
def test_what_cannot_be_is_refused_in_the_envelope(
    write_keys: tuple[str, str], method: str, path: str, body: Any, status: int
) -> None:
    assert "code" in ask(method, path, write_keys[0], body, status=status)["error"]


@pytest.mark.parametrize(
    "made_up", ["[1e999, 1]", '["2026-10-05", "\\ud800", "", "", ""]', "[" * 9_000, "[1, 2, 3]", "1"]
)
def test_a_cursor_that_somebody_made_up_is_no_place(write_keys: tuple[str, str], made_up: str) -> None:
    file = ask("POST", f"{_FILES}&format=focus", write_keys[0], b"x")
    after = base64.urlsafe_b64encode(made_up.encode()).decode().rstrip("=")
    invoice = ProviderInvoice.objects.get()
    for path in (f"invoice_files/{file['id']}/bad_lines", f"invoices/{invoice.public_id}/places"):
        refused = ask("GET", f"/v1/finance/{path}?after={after}", write_keys[0], status=404)
        assert refused["error"]["param"] == "after"
