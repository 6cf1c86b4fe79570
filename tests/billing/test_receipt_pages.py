"""Receipts as customers read, print and download them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from accounts.models import MemberRole, Organisation
from billing.models import Receipt, ReceiptLine
from billing.receipt_csv import receipt_csv
from billing.services.settlement import settle_batch
from catalog.domain.records import TokenKind
from ground.ids import new_public_id
from tests.billing.kit import AT, fee, group, hold, make_organisation, settlement, usage
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of

PAGE = "/app/receipts/"
LIST = {"HX-Request": "true", "HX-Target": "list"}


def client_of(organisation: Organisation, role: str = MemberRole.ADMIN) -> Client:
    return signed_in(scenes.member(organisation, role, name=f"{role.title()} {organisation.slug}"))


def settled(organisation: Organisation, micro_usd: int = 5, settled_at: datetime = AT, **terms: object) -> Receipt:
    batch = new_public_id("batch_", settled_at)
    return settle_batch(settlement(organisation, batch, usage("a", micro_usd), settled_at=settled_at, **terms))  # type: ignore[arg-type]


@pytest.fixture
def customer(organisation: Organisation) -> Client:
    return client_of(organisation)


@pytest.fixture
def receipt(db: None) -> Receipt:
    """Two lanes with a fee each, of which 0.090000 + 0.300000 + 0.020000 = 0.410000 and 0.125000 + 0.020000."""
    organisation = make_organisation(money=10_000_000)
    batch = new_public_id("batch_", AT)
    hold(organisation, batch, mini=500_000, large=200_000)
    mini = group("mini", (TokenKind.INPUT, 75_000, 1_200_000), (TokenKind.OUTPUT, 300_000, 1_000_000), lane="openai-us")
    large = group("large", (TokenKind.INPUT, 1_250_000, 100_000), lane="=openai-eu")
    fees = [fee("mini", 20_000, "openai-us"), fee("large", 20_000, "=openai-eu")]
    return settle_batch(settlement(organisation, batch, mini, large, fees=fees))


def address(receipt: Receipt, tail: str = "") -> str:
    return f"{PAGE}{receipt.public_id}/{tail}"


def test_a_receipt_says_every_line_and_adds_up(receipt: Receipt) -> None:
    page = words_of(client_of(receipt.organisation).get(address(receipt)))
    for said in (
        "openai-us model-mini $0.41 0000",
        "Input tokens 1,200,000 $0.075 $0.09 0000",
        "Output tokens 1,000,000 $0.30 $0.30 0000",
        "=openai-eu model-large $0.14 5000",
        "Input tokens 100,000 $1.25 $0.12 5000",
        "Control plane fee $0.02 0000",
        "Usage $0.51 5000 Fees $0.04 0000 Total $0.55 5000",
        "Held at accept $0.70 0000 Charged $0.55 5000 Released $0.14 5000",
        "Acme",
        receipt.public_id,
        receipt.batch_public_id,
        "Settled 3 Nov 2026, 12:00:00 UTC",
    ):
        assert said in page


def test_an_amount_has_its_micro_usd_in_the_title_and_for_the_copy(receipt: Receipt) -> None:
    page = client_of(receipt.organisation).get(address(receipt)).content.decode()
    assert '<data class="money" value="555000" title="$0.555000 · 555,000 micro-USD"' in page


def test_a_credit_above_the_ceiling_is_a_line_of_its_own(organisation: Organisation, customer: Client) -> None:
    receipt = settled(organisation, 900, ceiling_micro_usd=700)
    page = words_of(customer.get(address(receipt)))
    assert "Credited" in page
    assert "Credit above the ceiling \N{MINUS SIGN}$0.00 0200" in page
    assert "Total $0.00 0700" in page


def test_what_the_wallet_could_not_carry_is_owed(organisation: Organisation, customer: Client) -> None:
    page = words_of(customer.get(address(settled(organisation, 1_300))))
    assert "$0.00 0300 of this receipt is owed" in page


def test_a_batch_that_was_charged_nothing_has_a_receipt(organisation: Organisation, customer: Client) -> None:
    batch = new_public_id("batch_", AT)
    receipt = settle_batch(settlement(organisation, batch))
    assert "No request was delivered, so nothing was charged." in words_of(customer.get(address(receipt)))


def test_the_csv_has_numbers_and_no_formula(receipt: Receipt) -> None:
    client = client_of(receipt.organisation)
    client.cookies["zone"] = "Asia%2FKolkata"
    answer = client.get(address(receipt, "csv"))
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert answer["Content-Disposition"] == f'attachment; filename="{receipt.public_id}_Asia-Kolkata.csv"'
    assert [(row["lane_id"], row["kind"], row["tokens"], row["amount_usd"]) for row in rows] == [
        ("openai-us", "input", "1200000", "0.090000"),
        ("openai-us", "output", "1000000", "0.300000"),
        ("'=openai-eu", "input", "100000", "0.125000"),
        ("openai-us", "control_plane_fee", "", "0.020000"),
        ("'=openai-eu", "control_plane_fee", "", "0.020000"),
    ]
    assert rows[0]["usd_per_1m_tokens"] == "0.075000"
    assert rows[0]["exact_usd"] == "0.090000000000"
    assert rows[0]["settled_at_utc"] == "2026-11-03 12:00:00"
    assert rows[0]["settled_at Asia/Kolkata"] == "2026-11-03 17:30:00"


@pytest.mark.parametrize("beginning", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_of_a_csv_begins_a_formula(receipt: Receipt, beginning: str) -> None:
    lines: list[ReceiptLine] = list(receipt.lines.all())
    lines[0].model_slug = f"{beginning}cmd"
    receipt._prefetched_objects_cache = {"lines": lines}  # type: ignore[attr-defined]
    row = next(csv.DictReader(io.StringIO(receipt_csv(receipt, ZoneInfo("UTC")), newline="")))
    assert row["model"] == f"'{beginning}cmd"


def test_a_negative_amount_stays_a_number(organisation: Organisation, customer: Client) -> None:
    receipt = settled(organisation, 900, ceiling_micro_usd=700)
    rows = list(csv.DictReader(io.StringIO(customer.get(address(receipt, "csv")).content.decode())))
    assert rows[-1]["amount_usd"] == "-0.000200"


def test_the_json_is_what_the_api_gives(receipt: Receipt) -> None:
    answer = client_of(receipt.organisation).get(address(receipt, "json"))
    assert answer.json()["total_micro_usd"] == 555_000
    assert len(answer.json()["lines"]) == 5
    assert answer["Content-Disposition"] == f'attachment; filename="{receipt.public_id}.json"'


def test_the_list_says_what_a_person_looks_for(receipt: Receipt) -> None:
    page = client_of(receipt.organisation).get(PAGE)
    assert f'href="{address(receipt)}"' in page.content.decode()
    assert "Final" in words_of(page)
    assert "3 Nov 2026, 12:00 UTC 2 2,300,000 $0.55 5000" in words_of(page)


def test_the_region_alone_is_the_region_of_the_page(organisation: Organisation, customer: Client) -> None:
    settled(organisation)
    region = customer.get(f"{PAGE}?state=final", headers=LIST).content.decode()
    assert region.strip() in customer.get(f"{PAGE}?state=final").content.decode()
    assert "<html" not in region


def shown_ids(client: Client, query: str) -> list[str]:
    return re.findall(r'href="/app/receipts/(rcpt_\w+)/"', client.get(PAGE + query).content.decode())


def test_a_filter_by_days_counts_them_in_the_viewers_zone(organisation: Organisation, customer: Client) -> None:
    # 20:00 UTC is half past one of the next day in Kolkata.
    late = settled(organisation, settled_at=datetime(2026, 11, 3, 20, tzinfo=UTC))
    early = settled(organisation, settled_at=datetime(2026, 11, 3, 18, 29, tzinfo=UTC))
    assert shown_ids(customer, "?since=2026-11-04") == []
    customer.cookies["zone"] = "Asia%2FKolkata"
    assert shown_ids(customer, "?since=2026-11-04&until=2026-11-04") == [late.public_id]
    assert shown_ids(customer, "?until=2026-11-03") == [early.public_id]


def test_a_filter_by_text_or_state_finds_what_it_names(organisation: Organisation, customer: Client) -> None:
    plain, credited = settled(organisation), settled(organisation, 90, ceiling_micro_usd=70)
    assert shown_ids(customer, "?state=credited") == [credited.public_id]
    assert shown_ids(customer, "?state=final") == [plain.public_id]
    assert shown_ids(customer, f"?text={plain.batch_public_id[-8:].lower()}") == [plain.public_id]
    assert "No receipts match these filters" in words_of(customer.get(f"{PAGE}?text=nothing"))


@pytest.mark.parametrize("query", ["?since=yesterday", "?since=2026-02-01&until=2026-01-01", "?since=0001-01-01"])
def test_a_filter_that_cannot_be_read_lists_nothing(organisation: Organisation, customer: Client, query: str) -> None:
    settled(organisation)
    assert "These filters cannot be read" in words_of(customer.get(PAGE + query))
    assert shown_ids(customer, query) == []


def test_older_receipts_follow_without_gap_or_double(organisation: Organisation, customer: Client) -> None:
    made = [settled(organisation, 1, settled_at=AT - timedelta(minutes=number // 3)) for number in range(61)]
    seen: list[str] = []
    query = "?state=final"
    while query:
        page = customer.get(PAGE + query).content.decode()
        seen += re.findall(r'href="/app/receipts/(rcpt_\w+)/"', page)
        older = re.search(r'rel="next"\s+href="/app/receipts/([^"]+)"', page)
        query = older.group(1).replace("&amp;", "&") if older else ""
    assert len(seen) == 61
    assert set(seen) == {receipt.public_id for receipt in made}


def test_first_use_says_when_receipts_come(customer: Client) -> None:
    assert "No receipts yet" in words_of(customer.get(PAGE))


def test_two_and_twenty_receipts_take_the_same_queries(
    organisation: Organisation,
    customer: Client,
    django_assert_num_queries: Callable[[int], AbstractContextManager[object]],
) -> None:
    for count in (2, 18):
        for _ in range(count):
            settled(organisation, 1)
        # Session, user, membership, receipts, their lines.
        with django_assert_num_queries(5):
            customer.get(PAGE)


@pytest.mark.parametrize(
    ("role", "of_list", "of_one"),
    [
        (MemberRole.ADMIN, 200, 200),
        (MemberRole.BILLING, 200, 200),
        (MemberRole.DEVELOPER, 403, 200),
        (MemberRole.VIEWER, 403, 403),
    ],
)
def test_receipts_are_for_those_who_pay_or_build(
    organisation: Organisation, role: str, of_list: int, of_one: int
) -> None:
    receipt = settled(organisation)
    client = client_of(organisation, role)
    assert client.get(PAGE).status_code == of_list
    for tail in ("", "csv", "json"):
        assert client.get(address(receipt, tail)).status_code == of_one


def test_another_organisations_receipt_is_not_found(receipt: Receipt, customer: Client) -> None:
    for tail in ("", "csv", "json"):
        assert customer.get(address(receipt, tail)).status_code == 404
    assert customer.get(f"{PAGE}?after={receipt.public_id}").status_code == 404


@pytest.mark.parametrize("receipt_id", ["rcpt_1", "x", "%00", "batch_7ZZZZZZZZZZZZZZZZZZZZZZZZZ"])
def test_an_id_that_is_none_is_not_found(customer: Client, receipt_id: str) -> None:
    assert customer.get(f"{PAGE}{receipt_id}/").status_code == 404
    assert customer.get(f"{PAGE}?after={receipt_id}").status_code == 404


def test_staff_and_visitors_find_no_receipts(db: None) -> None:
    assert signed_in(scenes.staff()).get(PAGE).status_code == 404
    assert Client().get(PAGE)["Location"] == f"/login?next={PAGE}"
