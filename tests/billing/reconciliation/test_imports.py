"""Files: kept with their hash, read in pieces that survive a kill, refused twice, replaced with history."""

from __future__ import annotations

import hashlib
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.core.management import CommandError, call_command

from billing.reconciliation.domain.records import ColumnMapping, Format
from billing.reconciliation.domain.registry import PARSER_VERSION
from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.models import (
    BadInvoiceLine,
    Break,
    FileState,
    InvoiceFile,
    InvoiceLine,
    MatchState,
    ProviderInvoice,
)
from billing.reconciliation.services import matching, reading
from billing.reconciliation.services.files import FileTakenBefore, ask_to_cancel, take_file
from billing.reconciliation.services.matching import match_next_invoice
from billing.reconciliation.services.reading import read_next_file
from billing.reconciliation.services.sample import hand_in_sample_month
from ground.blobs import read_blob
from ground.errors import InvalidRequest
from tests.billing.kit import make_organisation
from tests.billing.reconciliation.kit import month_of, report, taken
from tests.billing.reconciliation.test_reports import DAY_S, cost, csv_of, page, parquet_of
from tests.harness.clock import Clock


def test_a_file_is_kept_to_the_byte_and_each_of_its_lines_is_a_row(db: None) -> None:
    bill = month_of().bill + b"0.5,org,USD,Usage,,2026-13-01,,,,,,,\n"
    file = taken(bill)
    assert read_blob(file.blob_name) == bill
    assert bytes(file.sha256) == hashlib.sha256(bill).digest()
    line_count = bill.count(b"\n") - 2
    assert (file.line_count, file.bad_line_count, file.parser_version) == (line_count, 1, PARSER_VERSION)
    assert InvoiceLine.objects.filter(file=file).count() == line_count
    bad = BadInvoiceLine.objects.get(file=file)
    assert (bad.line, bad.code) == (line_count + 2, "invalid_time")
    # A bad line is no proof that the rest is all.
    assert not file.is_complete


def test_the_same_bytes_are_refused_with_the_file_that_has_them(db: None) -> None:
    first = taken(month_of().bill)
    with pytest.raises(FileTakenBefore) as refused:
        take_file(report(), [month_of().bill], by=None)
    assert refused.value.extra == {"file_id": first.public_id, "invoice_id": first.invoice.public_id}
    assert InvoiceFile.objects.count() == 1


def test_a_corrected_file_takes_the_place_of_the_first_which_stays_as_history(db: None) -> None:
    day = '{"amount": {"value": %s, "currency": "usd"}}'
    first = taken(page(day % "1.5", start=october(5)).encode(), report_format=Format.OPENAI_COSTS)
    second = taken(page(day % "1.25", start=october(5)).encode(), report_format=Format.OPENAI_COSTS)
    first.refresh_from_db()
    assert (first.state, second.state) == (FileState.REPLACED, FileState.READ)
    invoice = ProviderInvoice.objects.get()
    assert invoice.invoiced_pico_usd == 1_250_000_000_000
    assert InvoiceLine.objects.filter(file=first).count() == 1
    with pytest.raises(FileTakenBefore):
        take_file(report(), [read_blob(first.blob_name)], by=None)


def october(day: int) -> str:
    start = DAY_S + (day - 5) * 86_400
    return f'"start_time": {start}, "end_time": {start + 86_400}'


@pytest.mark.parametrize(
    ("content", "said", "state"),
    [
        (page(cost("1"), has_more="true"), "more follow", FileState.READ),
        ("no json", "JSON", FileState.UNREADABLE),
        (page(cost("1"), start=october(60)), "October 2026", FileState.UNREADABLE),
    ],
)
def test_what_is_not_all_or_not_of_the_month_says_so(db: None, content: str, said: str, state: FileState) -> None:
    file = taken(content.encode(), report_format=Format.OPENAI_COSTS)
    assert (file.state, file.is_complete) == (state, False)
    assert said in file.incomplete_reason + file.trouble
    assert InvoiceLine.objects.count() == (1 if state == FileState.READ else 0)


def test_a_killed_reading_leaves_nothing_twice_and_an_overtaken_one_writes_nothing(
    db: None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bill = month_of().bill
    file = take_file(report(), [bill], by=None)
    monkeypatch.setattr(reading, "_LINES_AT_ONCE", 10)
    copy = reading._copy_lines
    pieces: list[int] = []

    def killed(file_id: int, piece: list[Any]) -> None:
        copy(file_id, piece)
        pieces.append(len(piece))
        if len(pieces) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(reading, "_copy_lines", killed)
    with pytest.raises(KeyboardInterrupt):
        read_next_file()
    assert InvoiceLine.objects.count() == 20
    assert read_next_file() is False
    clock.advance(hours=1)
    assert read_next_file() is True
    file.refresh_from_db()
    assert file.state == FileState.READ
    assert InvoiceLine.objects.count() == file.line_count == bill.count(b"\n") - 1


def test_a_file_that_breaks_every_run_is_given_up(db: None, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    file = take_file(report(), [month_of().bill], by=None)
    monkeypatch.setattr(reading, "_copy_lines", lambda *_: 1 // 0)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            read_next_file()
        clock.advance(hours=1)
    assert read_next_file() is True
    file.refresh_from_db()
    assert (file.state, file.due_at) == (FileState.UNREADABLE, None)
    assert "broke off 5 times" in file.trouble


def test_a_match_that_breaks_every_try_is_given_up_and_may_be_asked_for_again(
    db: None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_file(report(), [month_of().bill], by=None)
    read_next_file()
    with monkeypatch.context() as broken:
        broken.setattr(matching, "_sum_up", lambda *_, **__: 1 // 0)
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                match_next_invoice()
            clock.advance(hours=1)
        assert [match_next_invoice(), match_next_invoice()] == [True, False]
    invoice = ProviderInvoice.objects.get()
    assert (invoice.match_state, invoice.due_at, invoice.match_number) == (MatchState.FAILED, None, 0)
    assert "broke off 5 times" in invoice.match_trouble
    matching.ask_to_match(invoice)
    assert match_next_invoice()
    invoice.refresh_from_db()
    assert (invoice.match_state, invoice.match_trouble, invoice.match_number) == (MatchState.IDLE, "", 1)


def test_a_cancelled_file_leaves_no_line_and_may_be_handed_in_again(db: None) -> None:
    file = take_file(report(), [month_of().bill], by=None)
    ask_to_cancel(file.public_id)
    read_next_file()
    file.refresh_from_db()
    assert (file.state, InvoiceLine.objects.count()) == (FileState.CANCELLED, 0)
    assert taken(month_of().bill).state == FileState.READ


@pytest.mark.parametrize(
    "wrong",
    [
        {"file_name": "a\0b"},
        {"period": date(2026, 10, 2)},
        {"report_format": Format.MAPPED_CSV, "mapping": ColumnMapping(columns={})},
        # This machine has it, PostgreSQL has not.
        {"mapping": ColumnMapping(columns={"day": "a", "amount": "a"}, zone="localtime")},
    ],
)
def test_what_is_said_of_a_file_must_be_possible(db: None, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        take_file(report(**wrong), [csv_of({"a": "1"}).encode()], by=None)
    assert not ProviderInvoice.objects.exists()


def test_the_sample_is_handed_in_once_and_the_command_says_what_came_of_a_file(
    db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    organisation = make_organisation()
    assert hand_in_sample_month(organisation) is True
    assert hand_in_sample_month(organisation) is False
    while read_next_file() or match_next_invoice():
        pass
    assert set(Break.objects.values_list("kind", flat=True)) == {kind.value for kind in BreakKind}
    assert Break.objects.filter(state="open").count() == 1
    path = tmp_path / "costs.json"
    path.write_text(page(cost("1.5"), cost('"x"'), start=october(5)))
    said = ["--provider", "openai", "--account", "spare", "--month", "2026-10", "--format", "openai_costs"]
    call_command("import_invoice", str(path), *said, "--total", "1.5")
    out = capsys.readouterr().out
    assert "read, 1 lines, 1 bad" in out
    assert "1.500000000000 They bill this, and we have nothing of it." in out
    with pytest.raises(CommandError, match="handed in before"):
        call_command("import_invoice", str(path), *said)
    with pytest.raises(CommandError, match="up to six decimals"):
        call_command("import_invoice", str(path), *said, "--total", "1.0000005")


def test_a_parquet_file_is_one_however_its_bytes_come(db: None) -> None:
    said = report(report_format=Format.MAPPED_CSV, mapping=ColumnMapping(columns={"day": "Date", "amount": "Cost"}))
    content = parquet_of(Date=pa.array(["2026-10-05"]))
    assert take_file(said, [content[:1], content[1:3], content[3:]], by=None).is_parquet
    assert not take_file(said, [b"PAR", b"t,Date\n"], by=None).is_parquet


def test_what_a_correction_takes_back_is_taken_from_its_place_and_nothing_breaks_the_reading(db: None) -> None:
    table = (
        "billedcost,billingcurrency,chargecategory,chargeclass,chargeperiodstart,chargeperiodend,consumedquantity,"
        "consumedunit,skumeter,skupricedetails,chargedescription\r\n"
        "2.5,USD,Usage,,2026-10-05 00:00:00 UTC,2026-10-06T00:00:00Z,1000,Tokens,Output tokens,,\r\n"
        '-0.5,USD,Usage,Correction,2026-10-05T00:00:00Z,2026-10-06T00:00:00Z,-200,Tokens,Output tokens,,"a\r\nb"\r\n'
        f"7e-12,{'ß' * 160},Usage,,2026-10-05T00:00:00Z,2026-10-06T00:00:00Z,5e15,Bytes,,"
        '"{""a"": 1e99999999999999999999}",\r\n'
    )
    file = taken(table.encode("utf-8-sig"))
    assert (file.state, file.line_count, file.bad_line_count) == (FileState.READ, 3, 0)
    # The third line is of no currency that we know.
    assert file.total_pico_usd == 2_000_000_000_000
    bucket = file.invoice.buckets.get(token_class="output")
    assert (bucket.invoiced_pico_usd, bucket.invoiced_quantity) == (2_000_000_000_000, 800)
