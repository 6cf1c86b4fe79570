"""Receipts and statements on paper: the figures of the page, the CSV and the JSON, and the same bytes each time."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

from django.test import Client
from pypdf import PdfReader

from accounts.models import Organisation
from billing.models import Receipt
from billing.printing.pdf import money, rate
from billing.services.settlement import settle_batch
from ground.cells import text_cell
from tests.billing.kit import AT, make_organisation, settlement, usage
from tests.billing.test_receipt_pages import address, client_of, receipt  # noqa: F401 -- a fixture
from tests.harness.clock import Clock


def text_of(content: bytes) -> str:
    return " ".join(" ".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages).split())


def test_a_receipts_pdf_has_the_figures_of_its_csv_and_json(receipt: Receipt) -> None:  # noqa: F811 -- the fixture
    client = client_of(receipt.organisation)
    answer = client.get(address(receipt, "pdf"))
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"] == f'attachment; filename="{receipt.public_id}.pdf"'
    text = text_of(answer.content)
    shown = client.get(address(receipt, "json")).json()
    for line in shown["lines"]:
        assert money(line["amount_micro_usd"]) in text
        assert line["lane_id"] in text
        assert line["tokens"] is None or f"{line['tokens']:,}" in text
    for row in csv.DictReader(io.StringIO(client.get(address(receipt, "csv")).content.decode())):
        assert f"${row['amount_usd']}" in text
        assert text_cell(row["model"]) in text
    for said in (
        "Input tokens 1,200,000 $0.075 $0.090000",
        "Usage $0.515000 Fees $0.040000 Total $0.555000",
        "Held at accept $0.700000 Charged $0.555000 Released $0.145000",
        "Settled 3 Nov 2026, 12:00:00 UTC",
        receipt.public_id,
        receipt.batch_public_id,
        "Page 1 of 1",
    ):
        assert said in text, said
    assert text.count("12:00:00 UTC") == 1


def test_the_same_receipt_is_the_same_bytes_on_any_day(receipt: Receipt, clock: Clock) -> None:  # noqa: F811
    client = client_of(receipt.organisation)
    before = client.get(address(receipt, "pdf")).content
    clock.advance(days=400)
    assert client.get(address(receipt, "pdf")).content == before


def test_another_organisations_pdf_is_not_found(receipt: Receipt) -> None:  # noqa: F811
    assert client_of(make_organisation()).get(address(receipt, "pdf")).status_code == 404


def test_a_statements_pdf_has_the_figures_of_its_json(clock: Clock) -> None:
    clock.freeze(datetime(2026, 11, 3, 13, tzinfo=UTC))
    organisation: Organisation = make_organisation(money=10_000_000)
    settle_batch(settlement(organisation, "batch_1", usage("a", 1_234_567), settled_at=AT))
    client: Client = client_of(organisation)
    page = "/app/wallet/statements/2026-11/"
    text = text_of(client.get(f"{page}?format=pdf").content)
    shown = client.get(f"{page}?format=json").json()
    assert shown["closing_micro_usd"] == 8_765_433
    for said in (
        "Statement of November 2026",
        "Opening balance $0.000000",
        "Came in $10.000000",
        f"Went out {chr(0x2212)}$1.234567",
        "Closing balance $8.765433",
        "batch_1",
        *(money(each["balance_micro_usd"]) for each in shown["movements"]),
    ):
        assert said in text, said
    assert client.get(f"{page}?format=pdf").content == client.get(f"{page}?format=pdf").content


def test_a_rate_has_all_its_decimals() -> None:
    said = [rate(each) for each in (75_000, 1_250_000, 3_000_000, 1)]
    assert said == ["$0.075", "$1.25", "$3.00", "$0.000001"]
