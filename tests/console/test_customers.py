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
from tests.routing.pages.scenes import accepted, staff


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
