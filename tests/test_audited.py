"""Whatever our people change, and whatever they take out of the house, leaves its entry in the audit log.

The walk finds the addresses by itself: a page or call that is new and takes a POST, or gives a file, has to be done
here, or it is said why it leaves nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pytest
from django.core import mail
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponseBase
from django.test import Client, RequestFactory
from django.urls import URLResolver, get_resolver

from accounts.domain.staff_scopes import StaffScope
from accounts.models import AuditEntry, StaffRole, User
from accounts.services.passwords import RESET, send_password_link
from accounts.services.staff_keys import create_staff_key
from billing.adjustments.models import AdjustmentKind
from billing.adjustments.services import AdjustmentWish, request_adjustment
from billing.exports.finance_api import router as exports_router
from billing.reconciliation.api import router as reconciliation_router
from billing.reconciliation.domain.decisions import Action
from billing.reconciliation.domain.records import Format
from billing.reconciliation.models import Break, BreakState
from billing.reconciliation.services.decisions import Decision, decide_breaks
from billing.reconciliation.services.files import take_file
from billing.reconciliation.services.periods import close
from billing.services.exports import ExportWish, create_export
from catalog.domain.records import TokenKind
from catalog.models import Card
from catalog.pricing.services import draft_rates, lane_named
from ground import clock as product_clock
from routing.models import JobState, ProviderJob
from routing.services.dispatch import start_next_sub_lane
from routing.services.learning import learn_from_next_batch
from simulators.running import RunningSimulator
from tests.billing.reconciliation.kit import MONTH, matched_month, month_of, report
from tests.catalog.test_pricing import FILE as PRICE_FILE
from tests.harness.clock import Clock
from tests.harness.world import Tenant, do_due_steps, make_tenant
from tests.routing.conftest import simulator  # noqa: F401 -- a fixture
from tests.routing.engine.lanes import add_lane
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in
from tests.test_architecture import ROOT

LANE = "gpt-4o/openai-direct"
NOTICE_SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"
COLUMNS = {"day": "Date", "amount": "Cost", "token_class": "Was"}
MAPPING = {"amount_unit": "micro_usd", "currency": "USD", "zone": "UTC", "delimiter": ";"}
REASON = {"reason": "agreed on the phone"}
_BATCH_INPUT = b'"batch_input_rate_micro_usd_per_mtok": '
DEARER = PRICE_FILE.replace(_BATCH_INPUT + b"1250000", _BATCH_INPUT + b"1300000")
UNDECIDED = (BreakState.OPEN, BreakState.EXPLAINED)
Act = Callable[[], HttpResponseBase]


class House:
    """Our people, and something for each of them to do."""

    def __init__(self, tenant: Tenant, provider: RunningSimulator, clock: Clock, settings: Any) -> None:
        self.tenant, self.provider, self.clock, self.settings = tenant, provider, clock, settings
        self.olu = scenes.staff(StaffRole.OPERATOR)
        self.fay = scenes.staff(StaffRole.FINANCE, name="Fay Finance")
        self.sam = scenes.staff(StaffRole.FINANCE, name="Sam Second")
        self.operator, self.finance, self.second = (signed_in(each) for each in (self.olu, self.fay, self.sam))
        self._draft_count = 0

    def staff_key(self, person: User | None = None) -> tuple[str, str]:
        """Make a key; give its id and its text."""
        scopes, at = [StaffScope.FINANCE_WRITE], product_clock.now()
        key, new = create_staff_key(
            person or self.fay, name="Month end", scopes=scopes, at=at, lifetime=timedelta(days=9)
        )
        return key.public_id, new.text

    def calling(self, person: User, method: str, path: str, body: Any = None) -> Act:
        """Give a call of ``/v1/finance`` by a program of a person."""
        _, text = self.staff_key(person)
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        return lambda: Client().generic(
            method,
            f"/v1/finance{path}",
            content,
            content_type="application/octet-stream" if isinstance(body, bytes) else "application/json",
            headers={"Authorization": f"Bearer {text}"},
        )

    @cached_property
    def invoice(self) -> str:
        return matched_month().public_id

    def open_break(self) -> str:
        assert self.invoice
        # One that moves money when it is written off.
        return Break.objects.filter(state__in=UNDECIDED, difference_pico_usd__gt=10**6).order_by("pk")[0].public_id

    def waiting_break(self) -> str:
        """Give a break whose decision waits for a second person."""
        self.settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = 0
        public_id = self.open_break()
        decide_breaks([public_id], Decision(action=Action.WRITE_OFF, reason="too old"), by=self.fay)
        return public_id

    def decided_month(self) -> None:
        """Leave nothing open in a month that is over."""
        assert self.invoice
        ids = Break.objects.filter(state__in=UNDECIDED).values_list("public_id", flat=True)
        decide_breaks(list(ids), Decision(action=Action.DISPUTE, reason="sent to them"), by=self.fay)

    def closed_month(self) -> None:
        """Close the month that Fay asked to close."""
        close(MONTH, by=self.sam)

    def drafted_file(self) -> str:
        """Give a file that waits for its mapping."""
        self._draft_count += 1
        content = f"Date;Was;Cost\n2026-10-05;output;{self._draft_count}\n".encode()
        said = report(report_format=Format.MAPPED_CSV, file_name="other.csv")
        return take_file(said, [content], by=self.fay).public_id

    def export(self, *, at_once: bool = True) -> str:
        self.settings.EXPORT_ROWS_AT_ONCE = 10_000 if at_once else 0
        return create_export(None, ExportWish(kind="ledger", file_format="csv"), made_by=self.fay).public_id

    def waiting_adjustment(self) -> str:
        self.settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD = 1
        wish = AdjustmentWish(kind=AdjustmentKind.CREDIT, amount_micro_usd=2, reason="agreed on the phone")
        return request_adjustment(self.tenant.organisation, wish, request_key="k", requested_by=self.fay).public_id

    def drafted_rates(self) -> str:
        published = {TokenKind.INPUT: 1_300_000, TokenKind.CACHED_INPUT: 650_000, TokenKind.OUTPUT: 6_000_000}
        lane = lane_named("gpt-4o", "openai-direct")
        return draft_rates(lane, Card.SELL, published, drafted_by=self.olu, reason="new contract").public_id

    def sent_job(self) -> str:
        batch = scenes.accepted(self.tenant, name="sent")
        do_due_steps()
        job = ProviderJob.objects.get(batch=batch, state=JobState.RUNNING)
        ProviderJob.objects.filter(pk=job.pk).update(due_at=product_clock.now() + timedelta(hours=1))
        return job.token

    def unsent_job(self) -> str:
        add_lane()
        batch = scenes.accepted(self.tenant, name="unsent")
        assert start_next_sub_lane()
        return ProviderJob.objects.get(batch=batch).token

    def unclear_job(self) -> str:
        batch = scenes.accepted(self.tenant, name="unclear")
        return scenes.unclear(batch).token

    def learned(self) -> None:
        scenes.finished(scenes.accepted(self.tenant, "gpt-4o", count=10), self.provider, self.clock)
        assert learn_from_next_batch()

    def link_in_a_mail(self) -> str:
        send_password_link(RequestFactory().get("/"), self.olu, RESET)
        link = re.search(r"http://testserver(/reset/\S+)", str(mail.outbox[-1].body))
        assert link
        return link[1]


def posting(client: Client, path: str, form: dict[str, Any] | None = None) -> Act:
    return lambda: client.post(path, form or {})


def getting(client: Client, path: str) -> Act:
    return lambda: client.get(path)


def _adjusted(house: House) -> Act:
    page = "/fin/adjustments/new/"
    key = re.search(r'name="request_key" value="([^"]+)"', html_of(house.finance.get(page)))
    assert key
    form = {"request_key": key[1], "customer": "acme", "kind": "credit", "amount_micro_usd": "0.000001", **REASON}
    return posting(house.finance, page, form)


def _password_chosen(house: House) -> Act:
    client = Client()
    page = client.get(house.link_in_a_mail())["Location"]
    words = "a long new password 77"
    return posting(client, page, {"new_password1": words, "new_password2": words})


def _handed_in(house: House) -> Act:
    form = {"report_format": "focus", "provider": "openai", "provider_account": "another", "period": "2026-10"}
    return posting(
        house.finance, "/fin/invoices/import", {**form, "file": SimpleUploadedFile("october.csv", month_of().bill)}
    )


def _limited(house: House) -> Act:
    form = {"calls_per_minute": "70", "input_tokens_per_minute": "50000000", "accepts_per_minute": "60"}
    path = f"/ops/customers/{house.tenant.organisation.public_id}/limits/"
    return posting(house.operator, path, {**form, **REASON})


def _blocked(house: House) -> Act:
    path = f"/ops/customers/{house.tenant.organisation.public_id}/block/"
    block, lift = posting(house.finance, path, REASON), posting(house.finance, f"{path}?lift", REASON)
    return lambda: (block(), lift())[1]


def _drafted(house: House) -> Act:
    form = {"model": "gpt-4o", "lane": "openai-direct", "card": "sell", "input": "1.3", "output": "6"}
    return posting(house.operator, "/ops/rates/new/", {**form, "discount_percent": "0", **REASON})


def _mapped(house: House) -> Act:
    columns = {f"column_{name}": column for name, column in COLUMNS.items()}
    form = {**MAPPING, **columns, "tokens_per_unit_count": "1", "save_as": "", "step": "use"}
    return posting(house.finance, f"/fin/invoices/import/{house.drafted_file()}/mapping", form)


def _asked_to_close(house: House) -> Act:
    house.decided_month()
    return posting(house.finance, "/fin/periods/2026-10/", {"action": "ask"})


def _closing_file(house: House) -> Act:
    house.closed_month()
    return getting(house.finance, "/fin/periods/2026-10/closing.csv")


def _asked_to_close_by_a_program(house: House) -> Act:
    house.decided_month()
    return house.calling(house.fay, "POST", "/periods/2026-10/ask")


def _closing_file_by_a_program(house: House) -> Act:
    house.closed_month()
    return house.calling(house.fay, "GET", "/periods/2026-10/closing_file")


def _asked_about_all(house: House) -> Act:
    house.sent_job()
    return posting(house.operator, "/ops/jobs/look/", {"state": "later"})


def _learning_off(house: House) -> Act:
    house.learned()
    return posting(house.operator, "/ops/accuracy/gpt-4o/", {"choice": "off", **REASON})


# Name of the address -> what is done, after what has to be there; and the entries that it leaves.
Deeds = dict[str, tuple[Callable[[House], Act], list[str]]]
OF_OPERATORS: Deeds = {
    "console:customer-limits": (_limited, ["organisation.limits_set"]),
    "console:customer-block": (_blocked, ["organisation.blocked", "organisation.unblocked"]),
    "routing:learning": (_learning_off, ["learning.decided"]),
    "routing:any-batch-cancel": (
        lambda h: posting(h.operator, f"/ops/batches/{scenes.accepted(h.tenant).public_id}/cancel/"),
        ["batch.cancelled"],
    ),
    "routing:job-look": (lambda h: posting(h.operator, f"/ops/jobs/{h.sent_job()}/look/"), ["job.looked_at"]),
    "routing:polls-look": (
        _asked_about_all,
        ["job.looked_at"],
    ),
    "routing:notice-secret": (
        lambda h: posting(h.operator, "/ops/accounts/openai/customer/notices/", {"secret": NOTICE_SECRET, **REASON}),
        ["provider.account_set"],
    ),
    "routing:unclear-job-decide": (
        lambda h: posting(h.operator, f"/ops/jobs/{h.unclear_job()}/decide/", {"choice": "give_up", **REASON}),
        ["job.decided"],
    ),
    # One a draft: what the file says otherwise, for the provider's card and for ours.
    "catalog:price-import": (
        lambda h: posting(h.operator, "/ops/rates/import/", {"price_file": SimpleUploadedFile("prices.jsonl", DEARER)}),
        ["rates.drafted", "rates.drafted"],
    ),
    "catalog:draft-new": (_drafted, ["rates.drafted"]),
    "catalog:draft-decide": (
        lambda h: posting(h.finance, f"/ops/rates/drafts/{h.drafted_rates()}/decide/", {"approves": "yes", **REASON}),
        ["rates.approved"],
    ),
    "catalog:lane-rotate": (
        lambda h: posting(h.operator, f"/ops/lanes/{LANE}/rotate/", {"rotation": "drain", **REASON}),
        ["lane.rotated"],
    ),
    # Behind the import of prices, which would find those of its second lane.
    "routing:job-move": (
        lambda h: posting(h.operator, f"/ops/jobs/{h.unsent_job()}/move/", REASON),
        ["job.moved"],
    ),
    "accounts:audit-csv": (lambda h: getting(h.operator, "/ops/audit/csv"), ["audit.exported"]),
    "accounts:password-forgotten": (
        lambda h: posting(Client(), "/reset/", {"email": h.olu.email}),
        ["sign_in.link_asked"],
    ),
    "accounts:login": (
        lambda h: posting(Client(), "/login", {"username": h.olu.email, "password": "wrong"}),
        ["sign_in.refused"],
    ),
    "accounts:password-choose": (_password_chosen, ["sign_in.password_chosen"]),
    "accounts:logout": (lambda h: posting(signed_in(h.fay), "/logout"), ["sign_in.ended"]),
}
OF_FINANCE: Deeds = {
    "accounts:finance-audit-csv": (lambda h: getting(h.finance, "/fin/audit/csv"), ["audit.exported"]),
    "accounts:staff-key-new": (
        lambda h: posting(
            h.finance, "/fin/keys/new/", {"name": "Month end", "scope": "finance:read", "lifetime_days": "90"}
        ),
        ["key.created"],
    ),
    "accounts:staff-key-revoke": (
        lambda h: posting(h.finance, f"/fin/keys/{h.staff_key()[0]}/revoke/"),
        ["key.revoked"],
    ),
    "billing:adjustment-new": (_adjusted, ["adjustment.posted"]),
    "billing:adjustment-decide": (
        lambda h: posting(
            h.second, f"/fin/adjustments/{h.waiting_adjustment()}/decide/", {"approves": "yes", **REASON}
        ),
        ["adjustment.posted"],
    ),
    "billing:ledger-health": (lambda h: posting(h.finance, "/fin/ledger/health/"), ["ledger.proof_requested"]),
    "billing:wallet-top-up": (
        lambda h: posting(
            h.finance,
            f"/fin/wallets/{h.tenant.organisation.public_id}/top-up/",
            {"amount_micro_usd": "1", "reference": "SEPA 1"},
        ),
        ["top_up.recorded"],
    ),
    "billing:house-export-new": (
        lambda h: posting(h.finance, "/fin/exports/new", {"of": "ledger", "written_as": "csv", "zone": "UTC"}),
        ["export.made"],
    ),
    "billing:house-export-cancel": (
        lambda h: posting(h.finance, f"/fin/exports/{h.export(at_once=False)}/cancel"),
        ["export.cancelled"],
    ),
    "billing:house-export-file": (
        lambda h: getting(h.finance, f"/fin/exports/{h.export()}/file"),
        ["export.downloaded"],
    ),
    "reconciliation:invoice-import": (_handed_in, ["invoice.file_taken"]),
    "reconciliation:invoice-mapping": (_mapped, ["invoice.file_mapped"]),
    "reconciliation:file-cancel": (
        lambda h: posting(h.finance, f"/fin/invoices/import/{h.drafted_file()}/cancel"),
        ["invoice.file_cancelled"],
    ),
    "reconciliation:file-download": (
        lambda h: getting(h.finance, f"/fin/invoices/import/{h.drafted_file()}/file"),
        ["invoice.file_downloaded"],
    ),
    "reconciliation:invoice-match": (
        lambda h: posting(h.finance, f"/fin/invoices/{h.invoice}/match"),
        ["invoice.match_asked"],
    ),
}
OF_BREAKS: Deeds = {
    "reconciliation:dispute-file": (
        lambda h: getting(h.finance, f"/fin/breaks/dispute.csv?id={h.open_break()}"),
        ["break.dispute_file_made"],
    ),
    "reconciliation:break-decide": (
        lambda h: posting(
            h.finance,
            "/fin/breaks/decide",
            {"id": [h.open_break()], "action": "dispute", "confirm": "yes", **REASON},
        ),
        ["break.dispute"],
    ),
    "reconciliation:break-agree": (
        lambda h: posting(h.second, f"/fin/breaks/{h.waiting_break()}/agree", {"agree": "yes", **REASON}),
        ["break.write_off"],
    ),
    # One each.
    "reconciliation:breaks-agree": (
        lambda h: posting(
            h.second,
            "/fin/breaks/agree",
            {"id": [h.waiting_break(), h.waiting_break()], "agree": "yes", **REASON},
        ),
        ["break.write_off", "break.write_off"],
    ),
    "reconciliation:period-detail": (_asked_to_close, ["period.asked"]),
    "reconciliation:period-file": (_closing_file, ["period.file_downloaded"]),
}
BY_PROGRAMS: Deeds = {
    "hand_in_invoice_file": (
        lambda h: h.calling(
            h.fay, "POST", "/invoice_files?provider=openai&account=x&month=2026-10&format=focus", month_of().bill
        ),
        ["invoice.file_taken"],
    ),
    "map_invoice_file": (
        lambda h: h.calling(
            h.fay, "POST", f"/invoice_files/{h.drafted_file()}/mapping", {"columns": COLUMNS, **MAPPING}
        ),
        ["invoice.file_mapped"],
    ),
    "cancel_invoice_file": (
        lambda h: h.calling(h.fay, "POST", f"/invoice_files/{h.drafted_file()}/cancel"),
        ["invoice.file_cancelled"],
    ),
    "match_invoice": (lambda h: h.calling(h.fay, "POST", f"/invoices/{h.invoice}/match"), ["invoice.match_asked"]),
    "create_house_export": (
        lambda h: h.calling(h.fay, "POST", "/exports", {"kind": "ledger", "format": "csv"}),
        ["export.made"],
    ),
    "cancel_house_export": (
        lambda h: h.calling(h.fay, "POST", f"/exports/{h.export(at_once=False)}/cancel"),
        ["export.cancelled"],
    ),
    "get_house_export_content": (
        lambda h: h.calling(h.fay, "GET", f"/exports/{h.export()}/content"),
        ["export.downloaded"],
    ),
}
BREAKS_BY_PROGRAMS: Deeds = {
    "decide": (
        lambda h: h.calling(
            h.fay, "POST", "/break_decisions", {"ids": [h.open_break()], "action": "dispute", **REASON}
        ),
        ["break.dispute"],
    ),
    "approve": (
        lambda h: h.calling(h.sam, "POST", f"/breaks/{h.waiting_break()}/approval", {"agrees": True, **REASON}),
        ["break.write_off"],
    ),
    "approve_many": (
        lambda h: h.calling(
            h.sam,
            "POST",
            "/break_approvals",
            {"ids": [h.waiting_break(), h.waiting_break()], "agrees": True, **REASON},
        ),
        ["break.write_off", "break.write_off"],
    ),
    "act_on_period": (
        _asked_to_close_by_a_program,
        ["period.asked"],
    ),
    "get_closing_file": (
        _closing_file_by_a_program,
        ["period.file_downloaded"],
    ),
}
FILES = {
    *("accounts:audit-csv", "accounts:finance-audit-csv", "billing:house-export-file"),
    *("reconciliation:file-download", "reconciliation:dispute-file", "reconciliation:period-file"),
}
NO_ENTRY = {
    "console:preferences": "one's own zone and theme",
    "billing:house-export-metadata": "the names of columns; no customer's figure is in it",
}
COMMANDS = {
    "make_staff_key": "key.created, as everywhere",
    "import_invoice": "invoice.file_taken, as everywhere",
    "load_catalog": "catalog.loaded, where it changed something",
    "rotate_encryption": "encryption.rotated",
    "backup": "backup.made",
    "restore": "backup.restored, in the restored log",
    "bootstrap_sample": "what it makes, by the services that make it",
    "show_sample": "it is a customer of its own sample, by the public API",
}


@pytest.fixture
def house(db: None, clock: Clock, settings: Any, request: pytest.FixtureRequest) -> House:
    return House(make_tenant(), request.getfixturevalue("simulator"), clock, settings)


def _addresses(resolver: URLResolver, space: str = "", route: str = "") -> Iterator[tuple[str, str]]:
    for pattern in resolver.url_patterns:
        here = route + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _addresses(pattern, pattern.namespace or space, here)
        elif pattern.name:
            yield f"{space}:{pattern.name}", here


def _of_staff() -> dict[str, str]:
    """Give the addresses that our people use: name -> a path that leads to nothing."""
    return {
        name: "/" + re.sub(r"<[^>]+>", "x", route.replace("<str:month>", "2026-10"))
        for name, route in _addresses(get_resolver())
        if route.startswith(("ops/", "fin/", "me/", "login", "logout", "reset/"))
    }


def test_every_page_that_takes_a_post_and_every_file_of_ours_is_done_below(db: None) -> None:
    chief, visitor = signed_in(scenes.staff(StaffRole.SUPERADMIN, name="Sue Super")), Client()
    takes_a_post = {
        name
        for name, path in _of_staff().items()
        # Most pages say so before they ask who it is.
        if visitor.post(path).status_code != 405
        and (not path.startswith("/fin/") or chief.post(path).status_code != 405)
    }
    gives_a_file = {name for name, path in _of_staff().items() if re.search(r"(csv|file|data|json|pdf|content)$", path)}
    done = OF_OPERATORS.keys() | OF_FINANCE.keys() | OF_BREAKS.keys()
    assert takes_a_post | gives_a_file == done | NO_ENTRY.keys()
    assert gives_a_file - NO_ENTRY.keys() == FILES


def test_every_call_of_finances_programs_is_done_below() -> None:
    operations = [
        operation
        for router in (reconciliation_router, exports_router)
        for view in router.path_operations.values()
        for operation in view.operations
    ]
    acts = {each.view_func.__name__ for each in operations if "POST" in each.methods}
    gives_a_file = {each.view_func.__name__ for each in operations if re.search("(content|_file)$", each.path)}
    assert acts | gives_a_file == BY_PROGRAMS.keys() | BREAKS_BY_PROGRAMS.keys()


def test_every_command_says_what_it_leaves() -> None:
    assert {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")} == COMMANDS.keys()


@pytest.mark.parametrize("deeds", [OF_OPERATORS, OF_FINANCE, OF_BREAKS, BY_PROGRAMS, BREAKS_BY_PROGRAMS])
def test_each_deed_leaves_exactly_its_entry(house: House, deeds: Deeds) -> None:
    if deeds is not OF_OPERATORS:
        # October is over; the catalog's rates begin when it is loaded, so quotes are not asked for then.
        house.clock.freeze(datetime(2026, 11, 9, tzinfo=UTC))
    ours = {(person.name, True) for person in (house.olu, house.fay, house.sam)}
    left = {}
    for name, (prepared, _) in deeds.items():
        act = prepared(house)
        before = AuditEntry.objects.count()
        answer = act()
        assert answer.status_code in {200, 302} or name == "accounts:login", (name, answer.status_code)
        b"".join(answer)  # whole or in pieces, and then its file is closed
        answer.close()
        made = list(AuditEntry.objects.order_by("pk")[before:])
        left[name] = [entry.action for entry in made]
        hands = {(entry.actor_name, entry.is_staff) for entry in made}
        is_nobody_yet = name in {"accounts:login", "accounts:password-forgotten"}
        assert hands <= ({("A visitor", False)} if is_nobody_yet else ours), name
    assert left == {name: entries for name, (_, entries) in deeds.items()}
