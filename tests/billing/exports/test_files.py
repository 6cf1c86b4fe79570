"""What export files hold: exact, guarded, tied to the ledger, and the same bytes whenever they are asked for."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from beancount import loader
from django.db import connection
from django.db.models import Sum

from accounts.models import Organisation, User
from billing.adjustments.models import AdjustmentKind
from billing.adjustments.services import AdjustmentWish, request_adjustment
from billing.books.selectors import account_statement
from billing.exports.columns import ColumnKind, csv_lines
from billing.exports.focus_rules import RULES, RuleBroken, check_row
from billing.exports.models import Export
from billing.exports.writing import _csv_sql
from billing.models import LedgerAccount, LedgerLeg, Receipt
from billing.reconciliation.models import Break, ProviderInvoice
from billing.services.exports import ExportWish, create_export
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from ground.blobs import read_blob
from ground.cells import text_cell
from ground.errors import InvalidRequest
from tests.billing.exports.conftest import FIRST
from tests.billing.kit import make_organisation, settlement, usage
from tests.harness.clock import Clock

CASES = Path(__file__).resolve().parents[2] / "cases" / "billing"


def exported(organisation: Organisation | None, kind: str, file_format: str, **terms: Any) -> Export:
    export = create_export(organisation, ExportWish(kind=kind, file_format=file_format, **terms))
    assert export.state == "completed", export.failure
    assert hashlib.sha256(read_blob(export.blob_name)).digest() == bytes(export.sha256 or b"")
    return export


def table(export: Export) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_blob(export.blob_name).decode(), newline="")))


def charged_micro_usd(organisation: Organisation) -> int:
    return sum(receipt.total_micro_usd for receipt in Receipt.objects.filter(organisation=organisation))


def test_228_numbers_stay_numbers_and_texts_are_guarded() -> None:
    case = json.loads((CASES / "228-csv-numbers-stay.json").read_text())
    line = csv_lines([list(case["columns"].values())]).decode().rstrip("\n")
    assert dict(zip(case["columns"], next(csv.reader([line])), strict=True)) == {
        "custom_id": "'-5",
        "amount_micro_usd": "-5",
    }


# A spreadsheet could take each for a formula; the signs in full width are what some keyboards write.
FORMULAS = (
    "=1+1", "+1", "-5", "@x", "\t=x", "\tx", "\rx", "\nx", " =1+1", "\u00a0 =1", "\ufeff=1", "\u200b@x", "\u3000+1",
    "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20x", " \uff1d1", '"=1+1"', "'=1", "\x01=1", "\x0b=1", "\x85=1",
    '=HYPERLINK("http://x","y")', "=a\n,b",
)  # fmt: skip
TEXTS = ("x=1", "", "'", 'a"b,c', "é\u2028", "a\n=1", "a -1", "gpt-4o", " x", "1-2", "\u22121")


@pytest.mark.parametrize("text", [*FORMULAS, *TEXTS])
def test_a_text_that_looks_like_a_formula_is_guarded_and_reads_back_whole(text: str) -> None:
    own = csv.reader(io.StringIO(csv_lines([[text]]).decode(), newline=""))
    assert (next(own, [""]) or [""])[0] == (f"'{text}" if text in FORMULAS else text)


def test_postgresqls_guard_is_ours(db: None) -> None:
    guarded = f"SELECT {_csv_sql(ColumnKind.TEXT, '%(text)s::text')}"
    with connection.cursor() as cursor:
        for text in (*FORMULAS, *TEXTS):
            cursor.execute(guarded, {"text": text})
            assert cursor.fetchone() == (text_cell(text),)


def test_44_a_statement_guards_references_and_leaves_amounts_alone(customer: Organisation) -> None:
    rows = table(exported(customer, "ledger", "csv", zone="Asia/Kolkata"))
    assert rows[-1]["reference"] == '\'=cmd|"x"'
    # Booked in this order; 0.35 micro-USD were rounded to nothing, and a leg of nothing is a leg.
    assert [(row["kind"], row["amount_usd"], row["balance_usd"]) for row in rows] == [
        ("top_up", "10.000000", "10.000000"),
        *([("settlement", "0.000000", "10.000000")] if len(rows) == 5 else []),
        ("settlement", "-0.021615", "9.978385"),
        ("settlement", "-0.000700", "9.977685"),
        ("top_up", "5.000000", "14.977685"),
    ]
    assert "booked_at Asia/Kolkata" in rows[0]
    assert rows[0]["effective_at_utc"] == "2026-11-03T12:00:00Z"


def test_17_amounts_are_what_the_ledger_says_in_every_format(customer: Organisation) -> None:
    in_csv = exported(customer, "receipts", "csv")
    amounts = [row["amount_usd"] for row in table(in_csv)]
    assert amounts == ["0.000000", "0.001615", "0.020000", "0.000900", "-0.000200"]
    assert table(in_csv)[0]["exact_usd"] == "0.000000350000"
    assert table(in_csv)[1]["model"] == "model-=1+1"
    lines = [json.loads(line) for line in read_blob(exported(customer, "receipts", "jsonl").blob_name).splitlines()]
    assert [line["amount_usd"] for line in lines] == amounts
    stored = pq.read_table(io.BytesIO(read_blob(exported(customer, "receipts", "parquet").blob_name)))
    assert str(stored.schema.field("amount_usd").type) == "decimal128(38, 6)"
    assert [str(value) for value in stored.column("amount_usd").to_pylist()] == amounts
    assert in_csv.totals == {"amount_usd": "0.022315"}
    assert (in_csv.row_count, sum(map(Decimal, amounts))) == (5, Decimal(charged_micro_usd(customer)).scaleb(-6))


def test_statements_lead_from_opening_to_closing_and_are_those_of_the_page(db: None, clock: Clock) -> None:
    # Midnight in Kathmandu (+5:45) is 18:15 UTC: 1,000 is of October, the last 7 of December, the rest of November.
    clock.freeze(datetime(2026, 10, 31, 18, 14, tzinfo=UTC))
    organisation = make_organisation(money=1_000)
    for month, day, minute, reference, micro_usd in (
        (10, 31, 15, "=first", 50),
        (11, 30, 14, "last", 0),
        (11, 30, 15, "late", 7),
    ):
        clock.freeze(datetime(2026, month, day, 18, minute, tzinfo=UTC))
        if micro_usd:
            at = clock.now()
            record_top_up(
                organisation, reference=reference, amount_micro_usd=micro_usd, effective_at=at, recorded_by=None
            )
        else:
            settle_batch(settlement(organisation, reference, usage("a", 300), settled_at=clock.now()))
    twin = make_organisation(twin_of=organisation, money=77)
    idle = make_organisation(money=0)
    november: dict[str, Any] = {
        "first_day": date(2026, 11, 1),
        "last_day": date(2026, 11, 30),
        "zone": "Asia/Kathmandu",
    }
    in_csv = exported(organisation, "statements", "csv", **november)
    names = ("booked_at Asia/Kathmandu", "kind", "reference", "debit_usd", "credit_usd", "balance_usd")
    assert [tuple(row[name] for name in names) for row in table(in_csv)] == [
        ("2026-11-01 00:00:00", "opening", "", "", "", "0.001000"),
        ("2026-11-01 00:00:00", "top_up", "'=first", "", "0.000050", "0.001050"),
        ("2026-11-30 23:59:00", "settlement", "last", "0.000300", "", "0.000750"),
        ("2026-12-01 00:00:00", "closing", "", "", "", "0.000750"),
    ]
    totals = {"opening_usd": "0.001000", "credit_usd": "0.000050", "debit_usd": "0.000300", "closing_usd": "0.000750"}
    assert (in_csv.row_count, in_csv.totals) == (4, totals)
    account = LedgerAccount.objects.get(organisation=organisation, kind="customer_wallet")
    page = account_statement(
        account,
        since=datetime(2026, 10, 31, 18, 15, tzinfo=UTC),
        until=datetime(2026, 11, 30, 18, 15, tzinfo=UTC),
    )
    assert (page.opening_micro_usd, page.credit_micro_usd, page.debit_micro_usd, page.closing_micro_usd) == (
        1_000,
        50,
        300,
        750,
    )
    assert [each.balance_micro_usd for each in page.movements] == [1_050, 750]
    # The house has every customer's, also of those in whose wallet nothing moved; none of play money.
    house = exported(None, "statements", "jsonl", **november)
    lines = [json.loads(line) for line in read_blob(house.blob_name).splitlines()]
    assert {line["organisation_id"] for line in lines} == {organisation.public_id, idle.public_id}
    assert twin.public_id not in {line["organisation_id"] for line in lines}
    assert (len(lines), house.totals) == (6, totals)
    chosen = exported(None, "statements", "parquet", filters={"organisation": organisation.public_id})
    stored = pq.read_table(io.BytesIO(read_blob(chosen.blob_name)))
    assert str(stored.schema.field("balance_usd").type) == "decimal128(38, 6)"
    assert [str(value) for value in stored.column("balance_usd").to_pylist()] == [
        "0.000000",
        "0.001000",
        "0.001050",
        "0.000750",
        "0.000757",
        "0.000757",
    ]


def test_usage_is_filtered_as_on_the_screen_in_days_of_the_zone(customer: Organisation) -> None:
    every = exported(customer, "usage", "csv")
    assert every.totals == {"charge_usd": "0.022315"}
    day = date(2026, 11, 3)
    first = exported(customer, "usage", "csv", first_day=day, last_day=day, filters={"model": "model-=1+1"})
    (row,) = table(first)
    assert (row["charge_usd"], row["output_tokens"], row["settled_at Asia/Kathmandu"]) == (
        "0.021615",
        "1615",
        "2026-11-03 18:45:00",
    )
    rest = exported(customer, "usage", "csv", first_day=day + timedelta(days=1))
    assert [row["batch_id"] for row in table(rest)] == ["batch_dear"]


def test_the_houses_ledger_has_every_leg_on_its_side_and_no_play_money(customer: Organisation) -> None:
    twin = make_organisation(twin_of=customer, money=77)
    export = exported(None, "ledger", "csv")
    rows = table(export)
    assert sum(Decimal(row["debit_usd"] or 0) for row in rows) == sum(Decimal(row["credit_usd"] or 0) for row in rows)
    assert export.totals["debit_usd"] == export.totals["credit_usd"]
    assert len(rows) == LedgerLeg.objects.filter(account__book="customer").count()
    assert twin.public_id not in read_blob(export.blob_name).decode()
    wallet = exported(None, "ledger", "csv", filters={"account": f"wallet:{customer.public_id}", "kind": "top_up"})
    assert [(row["debit_usd"], row["credit_usd"]) for row in table(wallet)] == [("", "10.000000"), ("", "5.000000")]


def focus_rows(organisation: Organisation | None) -> tuple[Export, list[dict[str, str]]]:
    export = exported(organisation, "focus", "csv")
    return export, table(export)


def test_19_focus_has_exact_products_and_one_row_of_rounding_that_meets_the_ledger(customer: Organisation) -> None:
    export, rows = focus_rows(customer)
    by_kind = [(row["ChargeCategory"], row["SkuMeter"], row["EffectiveCost"], row["BilledCost"]) for row in rows]
    assert by_kind == [
        ("Purchase", "Prepaid Credit", "0", "10"),
        ("Usage", "Input Tokens", "0.00000035", "0"),
        ("Usage", "Output Tokens", "0.001615", "0"),
        ("Usage", "Control Plane Fee", "0.02", "0"),
        ("Usage", "Input Tokens", "0.0009", "0"),
        ("Credit", "", "-0.0002", "0"),
        ("Purchase", "Prepaid Credit", "0", "5"),
        ("Adjustment", "", "-0.00000035", "0"),
    ]
    assert export.row_count == 8
    assert Decimal(export.totals["effective_usd"]) == Decimal(charged_micro_usd(customer)).scaleb(-6)
    assert Decimal(export.totals["billed_usd"]) == 15
    assert "E" not in "".join(value for row in rows for name, value in row.items() if "Cost" in name or "Price" in name)
    for row in rows:
        if row["ListUnitPrice"]:
            assert Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"]) == Decimal(row["ListCost"])
    usage_row = rows[1]
    assert (usage_row["PricingQuantity"], usage_row["PricingUnit"], usage_row["ListUnitPrice"]) == (
        "0.000001",
        "1000000 Tokens",
        "0.35",
    )
    assert (usage_row["ChargePeriodStart"], usage_row["ChargePeriodEnd"]) == (
        "2026-11-03T12:00:00Z",
        "2026-11-03T13:00:00Z",
    )
    assert usage_row["BillingPeriodEnd"] == "2026-12-01T00:00:00Z"


def test_what_is_billed_and_not_spent_is_what_the_customer_has(customer: Organisation) -> None:
    person = User.objects.create_user(email="fin@example.com", name="Fin", created_at=FIRST, staff_role="finance")
    for number, (kind, micro_usd) in enumerate(
        ((AdjustmentKind.GRANT, 3_000_000), (AdjustmentKind.REFUND, 1_000_000), (AdjustmentKind.DEBIT, 250_000))
    ):
        wish = AdjustmentWish(kind=kind, amount_micro_usd=micro_usd, reason="as agreed")
        request_adjustment(customer, wish, request_key=f"k{number}", requested_by=person)
    export, rows = focus_rows(customer)
    moved = [(row["ChargeCategory"], row["BilledCost"], row["EffectiveCost"]) for row in rows]
    assert {("Credit", "0", "-3"), ("Adjustment", "-1", "0"), ("Adjustment", "0", "0.25")} <= set(moved)
    legs = LedgerLeg.objects.filter(account__organisation=customer).aggregate(total=Sum("amount_micro_usd"))
    left_usd = Decimal(export.totals["billed_usd"]) - Decimal(export.totals["effective_usd"])
    assert left_usd == Decimal(legs["total"]).scaleb(-6)
    _, errors, _ = loader.load_string(read_blob(exported(None, "journal", "beancount").blob_name).decode())
    assert errors == []


def test_focus_in_parquet_keeps_decimals_and_what_may_not_be_missing(customer: Organisation) -> None:
    stored = pq.read_table(io.BytesIO(read_blob(exported(None, "focus", "parquet").blob_name)))
    assert str(stored.schema.field("EffectiveCost").type) == "decimal128(38, 12)"
    assert not stored.schema.field("ServiceName").nullable
    assert sum(stored.column("EffectiveCost").to_pylist()) == Decimal("0.022315")
    # Nothing was rounded here, and nothing was used at all.
    for name, money in (("even", 5), ("none", 0)):
        other = make_organisation(money=money)
        export = exported(other, "focus", "parquet")
        found = pq.read_table(io.BytesIO(read_blob(export.blob_name)))
        assert (found.num_rows, export.row_count) == ((1, 1) if name == "even" else (0, 0))


GOOD = {
    "ChargeCategory": "Adjustment",
    "ChargeFrequency": "One-Time",
    "BillingAccountId": "org_1",
    "BillingAccountType": "Organisation",
    "BillingCurrency": "USD",
    "BillingPeriodStart": FIRST.replace(day=1, hour=0),
    "BillingPeriodEnd": FIRST.replace(month=12, day=1, hour=0),
    "ChargePeriodStart": FIRST,
    "ChargePeriodEnd": FIRST + timedelta(hours=1),
    **{name: Decimal(1) for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")},
    **dict.fromkeys(("InvoiceIssuerName", "ProviderName", "PublisherName", "ServiceName"), "Lanehouse"),
    "ServiceCategory": "AI and Machine Learning",
    "ServiceSubcategory": "Generative AI",
}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"BilledCost": None}, "mandatory columns are not null"),
        ({"BilledCost": 1.0}, "numbers are decimals and times are aware"),
        ({"ChargePeriodStart": FIRST.replace(tzinfo=None)}, "numbers are decimals and times are aware"),
        ({"InvoiceId": ""}, "no text is empty"),
        ({"ChargeCategory": "Refund"}, "values are allowed"),
        ({"ChargePeriodEnd": FIRST}, "a period ends after it begins"),
        ({"ChargePeriodStart": FIRST.replace(month=10)}, "a charge lies in its billing period"),
        ({"ChargePeriodEnd": FIRST + timedelta(minutes=9)}, "periods are whole hours"),
        ({"PricingQuantity": Decimal(1)}, "what belongs together is there together"),
        ({"ChargeCategory": "Usage"}, "usage and purchases are priced"),
        ({"ConsumedQuantity": Decimal(1), "ConsumedUnit": "Units"}, "only usage is consumed"),
        ({"SkuPriceDetails": '{"x_a": [1]}'}, "details are a flat object of our own keys"),
        ({"SkuPriceDetails": '{"a": 1}'}, "details are a flat object of our own keys"),
    ],
)
def test_a_row_that_is_not_focus_is_refused(wrong: dict[str, Any], rule: str) -> None:
    check_row(GOOD)
    with pytest.raises(RuleBroken, match=rule):
        check_row(GOOD | wrong)


PRICED = GOOD | {
    "ChargeCategory": "Purchase",
    "PricingQuantity": Decimal(2),
    "PricingUnit": "Units",
    "PricingCategory": "Standard",
    "ListUnitPrice": Decimal("0.5"),
    "ContractedUnitPrice": Decimal("0.5"),
    "SkuId": "s",
    "SkuMeter": "m",
    "SkuPriceId": "p",
}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"ListCost": Decimal("1.000001")}, "list cost is price times quantity"),
        ({"ContractedCost": Decimal(0)}, "contracted cost is price times quantity"),
        ({"ListUnitPrice": Decimal("-0.5"), "ListCost": Decimal(-1)}, "prices are not negative"),
        ({"ChargeFrequency": "Usage-Based"}, "a purchase is not usage-based"),
    ],
)
def test_prices_and_costs_agree(wrong: dict[str, Any], rule: str) -> None:
    check_row(PRICED)
    with pytest.raises(RuleBroken, match=rule):
        check_row(PRICED | wrong)
    assert rule in RULES


@pytest.mark.parametrize("since", [None, date(2026, 11, 4)])
def test_beancounts_checker_proves_the_journal(customer: Organisation, since: date | None) -> None:
    export = exported(None, "journal", "beancount", first_day=since)
    text = read_blob(export.blob_name).decode()
    entries, errors, _ = loader.load_string(text)
    assert errors == []
    assert {type(entry).__name__ for entry in entries} == {"Open", "Transaction", "Balance"}
    assert ('"Opening balances"' in text) == (since is not None)
    assert export.row_count == text.count(" USD\n") - text.count("open ") - text.count(" balance ") - (
        text.split("\n\n")[2].count(" USD") if since else 0
    )
    _, errors, _ = loader.load_string(text.replace("0.000700", "0.000701"))
    assert errors


def test_32_what_is_over_gives_the_same_bytes_for_ever(customer: Organisation) -> None:
    day = FIRST.date()
    over = {"first_day": day, "last_day": day}
    kinds = [("usage", "csv"), ("receipts", "jsonl"), ("receipts", "parquet"), ("focus", "parquet"), ("focus", "csv")]
    kinds.append(("statements", "parquet"))
    before = [exported(customer, kind, form, **over).sha256 for kind, form in kinds]
    settle_batch(settlement(customer, "batch_later", usage("tiny", 7), settled_at=FIRST + timedelta(days=3)))
    Organisation.objects.filter(pk=customer.pk).update(name="Renamed")
    assert [exported(customer, kind, form, **over).sha256 for kind, form in kinds] == before


def test_breaks_are_exported_as_their_list_shows_them(customer: Organisation) -> None:
    month = FIRST.replace(day=1).date()
    invoice = ProviderInvoice.objects.create(
        public_id="inv_1", provider="openai", provider_account="main", period=month, created_at=FIRST
    )
    for number, (state, difference) in enumerate((("open", 1_500_000), ("explained", -7), ("cleared", 9))):
        Break.objects.create(
            public_id=f"brk_{number}",
            invoice=invoice,
            key=str(number),
            kind="quantity",
            said="=said",
            day=FIRST.date() + timedelta(days=number),
            invoiced_pico_usd=difference,
            ours_pico_usd=0,
            difference_pico_usd=difference,
            state=state,
            opened_at=FIRST,
            seen_number=1,
        )
    export = exported(None, "breaks", "csv")
    assert [(row["break_id"], row["difference_usd"], row["said"]) for row in table(export)] == [
        ("brk_0", "0.000001500000", "'=said"),
        ("brk_1", "-0.000000000007", "'=said"),
    ]
    assert export.totals["difference_usd"] == "0.000001499993"
    for filters, ids in (
        ({"state": "undecided", "min_difference": "0.000001", "period": "2026-11", "owner": "nobody"}, ["brk_0"]),
        ({"state": "cleared", "provider": "openai", "kind": "quantity", "invoice": "inv_1"}, ["brk_2"]),
    ):
        assert [row["break_id"] for row in table(exported(None, "breaks", "csv", filters=filters))] == ids
    day = FIRST.date() + timedelta(days=1)
    chosen = exported(None, "breaks", "parquet", first_day=day, last_day=day)
    assert chosen.row_count == 1


def test_an_export_of_one_organisation_has_nothing_of_another(customer: Organisation) -> None:
    other = make_organisation(money=10)
    assert [row["balance_usd"] for row in table(exported(other, "statements", "csv"))] == [
        "0.000000",
        "0.000010",
        "0.000010",
    ]
    assert {row["organisation_id"] for row in table(exported(other, "statements", "csv"))} == {other.public_id}
    for kind, formats in (("ledger", ["csv"]), ("usage", ["csv"]), ("receipts", ["jsonl"]), ("focus", ["jsonl"])):
        for form in formats:
            export = exported(other, kind, form)
            assert customer.public_id not in read_blob(export.blob_name).decode()
            assert export.row_count == (1 if kind in {"ledger", "focus"} else 0)


@pytest.mark.parametrize(
    ("wish", "param"),
    [
        ({"kind": "journal", "file_format": "beancount"}, "kind"),
        ({"kind": "x", "file_format": "csv"}, "kind"),
        ({"kind": "usage", "file_format": "beancount"}, "format"),
        ({"kind": "usage", "file_format": "csv", "filters": {"organisation": "org_1"}}, "filters"),
        ({"kind": "usage", "file_format": "csv", "filters": {"model": "\0"}}, "filters"),
        ({"kind": "usage", "file_format": "csv", "zone": "Mars/Olympus"}, "zone"),
        ({"kind": "usage", "file_format": "csv", "first_day": date(2026, 2, 2), "last_day": date(2026, 2, 1)}, "until"),
        ({"kind": "usage", "file_format": "csv", "first_day": date(1, 1, 1)}, "since"),
    ],
)
def test_what_cannot_be_exported_is_refused(customer: Organisation, wish: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        create_export(customer, ExportWish(**wish))
    assert refused.value.param == param
    assert not Export.objects.exists()
