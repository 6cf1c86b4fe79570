"""Staff's customers and their limits, finance's first page."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from accounts.models import AuditEntry, Organisation, StaffRole
from billing.books.services import prove_when_due
from billing.services.settlement import settle_batch
from ground import clock
from tests.billing.kit import settlement, usage
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages.conftest import html_of, signed_in, words_of
from tests.routing.pages.scenes import accepted, rows, staff
from webhooks.services.endpoints import create_endpoint


@pytest.fixture
def tenant(db: None) -> Tenant:
    made = make_tenant()
    settle_batch(settlement(made.organisation, "batch_1", usage("a", 1_250_000), settled_at=clock.now()))
    accepted(made, count=3)
    return made


def test_customers_are_listed_with_money_work_and_limits(tenant: Tenant) -> None:
    make_tenant("zeta", credit_micro_usd=0)
    operator = signed_in(staff())
    page = words_of(operator.get("/ops/customers/"))
    assert page.index("Acme") < page.index("Zeta")
    assert "$1.25" in page
    assert "600 calls, 60 accepts" in page
    assert "(test)" not in page
    poor = words_of(operator.get("/ops/customers/?below_micro_usd=1"))
    assert ("Zeta" in poor, "Acme" in poor) == (True, False)
    assert operator.get("/ops/customers/?after=org_none").status_code == 404


def test_an_operator_changes_limits_with_a_reason_and_the_next_call_goes_by_them(tenant: Tenant) -> None:
    operator = signed_in(staff())
    path = f"/ops/customers/{tenant.organisation.public_id}/limits/"
    wanted = {"calls_per_minute": "7", "input_tokens_per_minute": "50000000", "accepts_per_minute": "60"}
    assert operator.post(path, {**wanted, "reason": ""}).status_code == 422
    assert operator.post(path, {**wanted, "calls_per_minute": "0", "reason": "slower"}).status_code == 422
    assert operator.post(path, {**wanted, "reason": "floods us"}).status_code == 302
    entry = AuditEntry.objects.get(action="organisation.limits_set")
    assert (entry.changes, entry.reason) == ({"calls_per_minute": [600, 7]}, "floods us")
    assert Client(headers=tenant.headers).get("/v1/models")["x-ratelimit-limit-requests"] == "7"
    assert operator.post(path, {**wanted, "reason": "floods us"}).status_code == 302
    assert AuditEntry.objects.filter(action="organisation.limits_set").count() == 1
    assert signed_in(staff(StaffRole.SUPPORT, name="Sue Support")).get(path).status_code == 403


def test_one_customer_is_shown_with_money_work_keys_and_endpoints(tenant: Tenant) -> None:
    create_endpoint(tenant.organisation, url="https://hooks.example.com/x", name="Nightly", event_types=())
    path = f"/ops/customers/{tenant.organisation.public_id}/"
    operator = signed_in(staff())
    assert f'href="{path}"' in html_of(operator.get("/ops/customers/"))
    page = words_of(operator.get(path))
    # 100 dollars were put in, 1.25 charged; three rows wait under a hold.
    for words in ("$1.25", "settled in all", "1 batch running", "600 calls, 60 accepts", "…", "hooks.example.com"):
        assert words in page
    twin = Organisation.objects.get(twin_of=tenant.organisation)
    for unknown in ("org_none", twin.public_id):
        assert operator.get(f"/ops/customers/{unknown}/").status_code == 404


def test_a_customer_is_blocked_with_a_reason_once_and_let_go_again(tenant: Tenant) -> None:
    finance = signed_in(staff(StaffRole.FINANCE))
    path = f"/ops/customers/{tenant.organisation.public_id}/block/"
    caller = Client(headers=tenant.headers)
    quote = caller.post("/v1/quotes/model", rows(count=3), content_type="application/jsonl").json()
    wanted = {"quote_id": quote["id"]}
    assert finance.post(path, {"reason": ""}).status_code == 422
    for _ in range(2):
        assert finance.post(path, {"reason": "bounced payment"}).status_code == 302
        refused = caller.post("/v1/batches", wanted, content_type="application/json")
        assert refused.json()["error"]["code"] == "billing_blocked"
    assert AuditEntry.objects.get(action="organisation.blocked").reason == "bounced payment"
    for _ in range(2):
        assert finance.post(f"{path}?lift", {"reason": "it was paid"}).status_code == 302
    assert AuditEntry.objects.filter(action="organisation.unblocked").count() == 1
    accepted_now = caller.post("/v1/batches", wanted, content_type="application/json")
    assert (accepted_now.status_code, accepted_now.json()["object"]) == (200, "batch")
    assert signed_in(staff(StaffRole.SUPPORT, name="Sue Support")).get(path).status_code == 403
    twin = Organisation.objects.get(twin_of=tenant.organisation)
    answer = finance.post(f"/ops/customers/{twin.public_id}/block/", {"reason": "it floods us"}, follow=True)
    assert answer.redirect_chain == [(path.removesuffix("block/"), 302)]
    assert answer.status_code == 200


def test_finance_sees_whether_the_books_hold_and_what_is_owed_and_held(tenant: Tenant) -> None:
    owing = make_tenant("owing", credit_micro_usd=0)
    settle_batch(settlement(owing.organisation, "batch_2", usage("a", 40_000), settled_at=clock.now()))
    prove_when_due()
    page = signed_in(staff(StaffRole.FINANCE)).get("/fin/")
    assert "balanced" in words_of(page)
    assert "1 customer blocked until paid" in words_of(page)
    amounts = [int(value) for value in re.findall(r'<data[^>]* value="(-?[0-9]+)"', html_of(page))]
    held = Organisation.objects.raw(
        "SELECT o.*, b.held_micro_usd AS held FROM accounts_organisation o JOIN billing_customerbalance b"
        " ON b.organisation_id = o.id WHERE o.id = %s",
        [tenant.organisation.pk],
    )[0].held  # type: ignore[attr-defined]
    # Behind them comes what providers' invoices say.
    assert amounts[:4] == [98_750_000, 40_000, held, 100_000_000]
