"""Finance's pages of the books: what they show is what the books say, and what they do is done once."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.http import HttpResponseBase, StreamingHttpResponse
from django.test import Client

from accounts.models import Organisation, StaffRole
from billing.adjustments.models import Adjustment
from billing.books.services import prove_when_due
from billing.domain.records import ProviderCost
from billing.models import LedgerLeg, LedgerTransaction
from billing.selectors import wallet
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from tests.billing.kit import AT, fee, hold, make_organisation, settlement, usage
from tests.harness.clock import Clock
from tests.routing.pages.conftest import html_of, signed_in, words_of
from tests.routing.pages.scenes import member, staff

DIALOG = {"HX-Request": "true", "HX-Target": "dialog"}
LIMIT = settings.ADJUSTMENT_APPROVAL_ABOVE_MICRO_USD


@pytest.fixture
def traded(clock: Clock) -> Organisation:
    clock.freeze(AT)
    organisation = make_organisation(money=1_000_000)
    hold(organisation, "batch_2", a=400)
    settle_batch(settlement(organisation, "batch_1", usage("a", 300_001), fees=[fee("a", 20_000)]))
    return organisation


@pytest.fixture
def fay(traded: Organisation) -> Client:
    return signed_in(staff(StaffRole.FINANCE, name="Fay Finance"))


def table_of(answer: HttpResponseBase) -> list[dict[str, str]]:
    assert isinstance(answer, StreamingHttpResponse)
    content = b"".join(answer.streaming_content)  # type: ignore[arg-type]
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def amounts_of(answer: HttpResponseBase) -> list[int]:
    """Every amount on a page, in micro-USD."""
    return [int(value) for value in re.findall(r'<data[^>]* value="(-?[0-9]+)"', html_of(answer))]


def form_of(client: Client, path: str) -> dict[str, str]:
    """The hidden key of a new adjustment's form."""
    (key,) = re.findall(r'name="request_key" value="([^"]+)"', html_of(client.get(path)))
    return {"request_key": key}


def test_a_payment_is_recorded_once_from_the_wallets_page(traded: Organisation, fay: Client) -> None:
    page = fay.get("/fin/wallets/")
    # The proof's two pairs; available, held, settled, owed, liability; the same as the total of one.
    assert amounts_of(page) == [679_999, 679_999, 0, 0, *[679_599, 400, 320_001, 0, 679_999] * 2]
    assert "equals the ledger" in words_of(page)
    path = f"/fin/wallets/{traded.public_id}/top-up/"
    form = {"amount_micro_usd": "12.5", "reference": "SEPA 4471"}
    assert fay.post(path, form, headers=DIALOG)["HX-Redirect"] == "/fin/wallets/"
    assert fay.post(path, form).status_code == 302
    assert "was recorded before" in words_of(fay.get("/fin/wallets/"))
    assert wallet(traded).posted_micro_usd == 679_999 + 12_500_000
    conflict = fay.post(path, {**form, "amount_micro_usd": "13"})
    assert conflict.status_code == 422
    assert "recorded before with another amount" in words_of(conflict)
    assert fay.post(path, {**form, "amount_micro_usd": "1e3"}).status_code == 422


def test_an_adjustment_goes_from_its_form_over_a_second_person_to_its_entry(traded: Organisation, fay: Client) -> None:
    path = f"/fin/adjustments/new/?customer={traded.public_id}"
    usd = f"{LIMIT // 1_000_000}.000001"
    form = {
        **form_of(fay, path),
        "customer": traded.public_id,
        "kind": "credit",
        "amount_micro_usd": usd,
        "reason": "late batch, agreed by mail",
    }
    first, again = fay.post(path, form), fay.post(path, form)
    asked = Adjustment.objects.get()
    assert first["Location"] == again["Location"] == f"/fin/adjustments/{asked.public_id}/"
    assert "somebody else of finance" in words_of(fay.get(first["Location"]))
    decide = f"{first['Location']}decide/"
    own = fay.post(decide, {"approves": "yes", "reason": "my own"})
    assert own.status_code == 422
    assert "somebody else decides it" in words_of(own)
    second = signed_in(staff(StaffRole.FINANCE, name="Sandy Second"))
    assert f"decide-{asked.public_id}" in html_of(second.get("/fin/adjustments/?state=requested"))
    assert second.post(decide, {"approves": "yes", "reason": "seen the mail"}).status_code == 302
    asked.refresh_from_db()
    assert asked.transaction is not None
    entry = fay.get(f"/fin/ledger/entries/{asked.transaction.business_key}/")
    assert "late batch, agreed by mail" in words_of(entry)
    assert amounts_of(entry) == [LIMIT + 1] * 4
    assert 'id="reverse"' in html_of(entry)


def test_a_bad_adjustment_comes_back_with_what_is_wrong(traded: Organisation, fay: Client) -> None:
    path = "/fin/adjustments/new/"
    form = {**form_of(fay, path), "customer": "nobody", "kind": "refund", "amount_micro_usd": "1", "reason": "ok then"}
    assert "There is no such customer" in words_of(fay.post(path, form))
    assert "balance does not carry it" in words_of(fay.post(path, {**form, "customer": traded.public_id}))
    reversal = {**form, "customer": traded.public_id, "kind": "reversal", "amount_micro_usd": ""}
    assert "Name the entry" in words_of(fay.post(path, reversal))
    assert "There is no such entry" in words_of(fay.post(path, {**reversal, "entry": "settle:none"}))
    assert "cannot be reversed" in words_of(fay.post(path, {**reversal, "entry": "settle:batch_1"}))
    assert not Adjustment.objects.exists()


def test_the_ledger_lists_filters_and_sums(traded: Organisation, fay: Client) -> None:
    assert amounts_of(fay.get("/fin/ledger/"))[-2:] == [1_320_001, 1_320_001]
    assert amounts_of(fay.get("/fin/ledger/?account_kind=revenue_fee")) == [20_000, 0, 20_000]
    # A leg's number is no number of thousands of digits; another account's leg is no place in this one's statement.
    digits = "9" * 5_000
    wallet_path = f"/fin/ledger/accounts/wallet:{traded.public_id}/"
    for after in ("nothing", "settle:batch_1%23", "settle:batch_1%2399999", f"settle:batch_1%23{digits}"):
        assert fay.get(f"/fin/ledger/?after={after}").status_code == 404
        assert fay.get(f"{wallet_path}?after={after}").status_code == 404
    (fee_leg,) = LedgerLeg.objects.filter(account__kind="revenue_fee")
    assert fay.get(f"{wallet_path}?after=settle:batch_1%23{fee_leg.leg_number}").status_code == 404
    for said in (digits, "\u0663", "-1", "x"):
        assert fay.get("/fin/exports/new", {"of": "ledger", "least_micro_usd": said}).status_code == 200
    assert "cannot be read" in words_of(fay.get("/fin/ledger/?least_micro_usd=x"))
    # What a link says of a filter is what was typed: the same page, not one of a million times as much.
    assert '?account_kind=revenue_fee&amp;least_micro_usd=0.02"' in html_of(
        fay.get("/fin/ledger/?account_kind=revenue_fee&least_micro_usd=0.02&kind=settlement")
    )
    balance = fay.get("/fin/ledger/accounts/?by=effective&until=2026-11-03")
    # Wallet, receivable, clearing (the only debit), usage, fee; then both columns' sums.
    assert amounts_of(balance) == [679_999, 0, 1_000_000, 300_001, 20_000, 1_000_000, 1_000_000]
    assert amounts_of(fay.get("/fin/ledger/accounts/?account_kind=revenue_fee")) == [20_000, 0, 20_000]
    assert set(amounts_of(fay.get("/fin/ledger/accounts/?until=2026-11-02"))) == {0}
    statement = amounts_of(fay.get(f"/fin/ledger/accounts/wallet:{traded.public_id}/?since=2026-11-03"))
    assert statement == [0, 1_000_000, 1_000_000, 320_001, 679_999, 320_001, 1_000_000, 679_999]
    rows = table_of(fay.get(f"/fin/ledger/accounts/wallet:{traded.public_id}/?since=2026-11-03&format=csv"))
    assert [(row["kind"], row["debit_usd"], row["credit_usd"], row["balance_usd"]) for row in rows] == [
        ("opening", "", "", "0.000000"),
        ("top_up", "", "1.000000", "1.000000"),
        ("settlement", "0.320001", "", "0.679999"),
        ("closing", "", "", "0.679999"),
    ]
    assert fay.get("/fin/ledger/accounts/wallet:none/").status_code == 404


def test_a_receipt_stands_between_its_entry_and_what_the_providers_are_owed(clock: Clock) -> None:
    clock.freeze(AT)
    customer = make_organisation(money=1_000_000)
    costs = [ProviderCost(provider="openai", provider_account="main", cost_pico_usd=120_500_001)]
    receipt = settle_batch(settlement(customer, "batch_1", usage("a", 300), fees=[fee("a", 20)], costs=costs))
    fay = signed_in(staff(StaffRole.FINANCE))
    assert f'href="/fin/receipts/{receipt.public_id}/"' in html_of(fay.get("/fin/ledger/entries/settle:batch_1/"))
    page = fay.get(f"/fin/receipts/{receipt.public_id}/")
    assert 'href="/fin/ledger/entries/settle:batch_1/"' in html_of(page)
    # The account's cost as it was posted, their sum, the charge, the margin.
    assert amounts_of(page)[-10:-6] == [121, 121, 320, 199]
    assert "openai main none yet" in words_of(page)
    assert fay.get("/fin/receipts/rcpt_0/").status_code == 404


def test_health_is_shown_and_a_proof_asked_for(traded: Organisation, fay: Client) -> None:
    assert "not proven yet" in words_of(fay.get("/fin/ledger/health/"))
    fay.post("/fin/ledger/health/")
    assert "A proof is running" in words_of(fay.get("/fin/ledger/health/"))
    prove_when_due()
    assert "The books hold" in words_of(fay.get("/fin/ledger/health/"))


def test_a_month_opens_with_what_the_one_before_closed_with_in_the_reporting_zone(
    traded: Organisation, clock: Clock
) -> None:
    Organisation.objects.filter(pk=traded.pk).update(reporting_zone="Asia/Kathmandu")
    # 30 November 18:15 UTC is midnight in Kathmandu (+5:45).
    clock.freeze(AT.replace(day=30, hour=18, minute=14))
    settle_batch(settlement(traded, "batch_3", usage("a", 7)))
    clock.advance(minutes=1)
    settle_batch(settlement(traded, "batch_4", usage("a", 11)))
    clock.advance(days=3)
    admin = signed_in(member(traded))
    months = {
        month: json.loads(html_of(admin.get(f"/app/wallet/statements/{month}/?format=json")))
        for month in ("2026-11", "2026-12")
    }
    figures = {
        month: (found["opening_micro_usd"], found["debit_micro_usd"], found["closing_micro_usd"])
        for month, found in months.items()
    }
    assert figures == {"2026-11": (0, 320_008, 679_992), "2026-12": (679_992, 11, 679_981)}
    page = admin.get("/app/wallet/statements/2026-12/")
    assert "Month still open" in words_of(page)
    assert "Days in Asia/Kathmandu" in words_of(page)
    assert amounts_of(page) == [679_992, 0, 11, 679_981, -11, -11, 679_981]
    rows = table_of(admin.get("/app/wallet/statements/2026-11/?format=csv"))
    assert rows[-1]["balance_usd"] == "0.679992"
    assert {admin.get(f"/app/wallet/statements/{month}/").status_code for month in ("2027-01", "2026-13", "x")} == {404}
    other = member(make_organisation(), name="Sam Stranger")
    assert json.loads(html_of(signed_in(other).get("/app/wallet/statements/2026-11/?format=json")))["movements"] == []
    assert LedgerTransaction.objects.count() == 4
    assert clock.now() - AT > timedelta(days=27)


def test_an_accounts_csv_has_each_movement_of_its_days_in_the_order_of_booking(clock: Clock) -> None:
    clock.freeze(AT)
    customer = make_organisation(money=5_000_000)
    # A microsecond before the days that are asked for.
    clock.freeze(AT.replace(day=4, hour=18, minute=14, second=59, microsecond=999_999))
    settle_batch(settlement(customer, "batch_1", usage("a", 300_001), fees=[fee("a", 20_000)]))
    # In Kathmandu (+5:45) the fifth begins at 18:15 UTC.
    clock.freeze(AT.replace(day=4, hour=18, minute=15))
    record_top_up(customer, reference="=SUM(1,2)", amount_micro_usd=1, effective_at=AT.replace(day=1), recorded_by=None)
    settle_batch(settlement(customer, "batch_2", usage("a", 6_000_000)))
    clock.freeze(AT.replace(day=5, hour=18, minute=15))
    record_top_up(customer, reference="after", amount_micro_usd=7, effective_at=AT, recorded_by=None)
    user = staff(StaffRole.FINANCE)
    user.time_zone = "Asia/Kathmandu"
    user.save()
    client = signed_in(user)

    def table(kind: str) -> list[tuple[str, ...]]:
        path = f"/fin/ledger/accounts/{kind}:{customer.public_id}/?since=2026-11-05&until=2026-11-05&format=csv"
        return [tuple(row.values()) for row in table_of(client.get(path))]

    start, end = "2026-11-04T18:15:00.000000Z", "2026-11-05T18:15:00.000000Z"
    settled = "2026-11-03T12:00:00.000000Z"
    entry = f"top_up:{customer.public_id}:=SUM(1,2)"
    # 5 less 0.320001; then a millionth more; then all that is there, of the six that were due.
    assert table("wallet") == [
        (start, "", "", "opening", "", "", "", "4.679999", "Cr"),
        (start, "2026-11-01T12:00:00.000000Z", entry, "top_up", "'=SUM(1,2)", "", "0.000001", "4.680000", "Cr"),
        (start, settled, "settle:batch_2", "settlement", "batch_2", "4.680000", "", "0.000000", ""),
        (end, "", "", "closing", "", "", "", "0.000000", ""),
    ]
    assert table("receivable") == [
        (start, "", "", "opening", "", "", "", "0.000000", ""),
        (start, settled, "settle:batch_2", "settlement", "batch_2", "1.320000", "", "-1.320000", "Dr"),
        (end, "", "", "closing", "", "", "", "-1.320000", "Dr"),
    ]
