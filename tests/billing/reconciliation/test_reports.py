"""Provider reports to the normal form: each trap with its value, worked out by hand from the providers' documents."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from billing.reconciliation.domain.records import (
    BadLine,
    BillLine,
    ChargeKind,
    ColumnMapping,
    FileEnd,
    Format,
    Item,
    ReadOptions,
    TokenClass,
    UnreadableFile,
)
from billing.reconciliation.domain.registry import read_report
from billing.reconciliation.domain.tables import rows_of
from billing.reconciliation.domain.values import pico_usd_of

DAY = datetime(2026, 10, 5, tzinfo=UTC)
DAY_S = int(DAY.timestamp())


def read(report: Format, content: bytes | str, **options: Any) -> list[Item]:
    stream = io.BytesIO(content.encode() if isinstance(content, str) else content)
    return list(read_report(report, stream, ReadOptions(**options)))


def lines_of(report: Format, content: bytes | str, **options: Any) -> list[BillLine]:
    return [item for item in read(report, content, **options) if isinstance(item, BillLine)]


def bad_of(items: list[Item]) -> list[tuple[int, str]]:
    return [(item.line, item.code) for item in items if isinstance(item, BadLine)]


def end_of(items: list[Item]) -> FileEnd:
    end = items[-1]
    assert isinstance(end, FileEnd)
    return end


def page(
    *results: str, has_more: str = "false", start: str = f'"start_time": {DAY_S}, "end_time": {DAY_S + 86400}'
) -> str:
    return f'{{"object": "page", "data": [{{{start}, "results": [{", ".join(results)}]}}], "has_more": {has_more}}}'


def cost(value: str, item: str = "gpt-4o-2024-08-06, input", **more: object) -> str:
    rest = "".join(f", {json.dumps(name)}: {json.dumps(each)}" for name, each in more.items())
    return f'{{"amount": {{"value": {value}, "currency": "usd"}}, "line_item": {json.dumps(item)}{rest}}}'


CENTS = '"starting_at": "2026-10-05T00:00:00Z", "ending_at": "2026-10-06T00:00:00Z"'


@pytest.mark.parametrize(
    ("value", "micro_usd"),
    [("1.2345", 1_234_500), ("0.001615", 1_615), ("6.25e-5", Decimal("62.5")), ("5", 5_000_000), ('"0.662"', 662_000)],
)
def test_openai_money_is_a_number_of_dollars_to_the_last_digit(value: str, micro_usd: Decimal) -> None:
    (line,) = lines_of(Format.OPENAI_COSTS, page(cost(value)))
    assert line.amount is not None
    assert pico_usd_of(line.amount) == micro_usd * 1_000_000
    assert line.currency == "USD"


@pytest.mark.parametrize(("text", "micro_usd"), [("123.45", 1_234_500), ("0.05", 500), ("-100", -1_000_000)])
def test_anthropic_money_is_text_in_cents(text: str, micro_usd: int) -> None:
    result = json.dumps({"amount": text, "currency": "USD", "cost_type": "tokens", "token_type": "output_tokens"})
    (line,) = lines_of(Format.ANTHROPIC_COST, page(result, start=CENTS))
    assert line.amount is not None
    assert (pico_usd_of(line.amount), line.token_class) == (micro_usd * 1_000_000, TokenClass.OUTPUT)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("gpt-4o-2024-08-06, cached input", ("gpt-4o-2024-08-06", "", "input_cache_read")),
        ("gpt-4o-2024-08-06, batch output", ("gpt-4o-2024-08-06", "batch", "output")),
        ("o3, flex cache write input", ("o3", "flex", "input_cache_write_5m")),
        ("web search tool calls", ("", "", "tool_call")),
        ("gpt-9", ("gpt-9", "", "other")),
    ],
)
def test_an_openai_line_item_names_model_tier_and_class(item: str, expected: tuple[str, str, str]) -> None:
    (line,) = lines_of(Format.OPENAI_COSTS, page(cost("1", item, project_id="proj_1", quantity=20)))
    assert (line.model_name, line.tier, line.token_class.value) == expected
    assert (line.project, line.quantity, line.window_start, line.window_end) == (
        "proj_1", 20, DAY, datetime(2026, 10, 6, tzinfo=UTC),
    )  # fmt: skip


def test_openai_input_includes_what_was_cached_and_written() -> None:
    usage = {"input_tokens": 2_006, "input_cached_tokens": 1_900, "input_cache_write_tokens": 20, "output_tokens": 300}
    lines = lines_of(Format.OPENAI_USAGE, page(json.dumps({**usage, "model": "gpt-4o", "batch": True})))
    assert {line.token_class.value: line.quantity for line in lines} == {
        "input_uncached": 86, "input_cache_read": 1_900, "input_cache_write_5m": 20, "output": 300,
    }  # fmt: skip
    assert {(line.tier, line.amount, line.format_note) for line in lines} == {("batch", None, "")}


@pytest.mark.parametrize("wrong", [{"input_uncached_tokens": 107}, {"input_cached_tokens": 2_007}])
def test_openai_figures_that_contradict_each_other_are_noted(wrong: dict[str, int]) -> None:
    usage = {"input_tokens": 2_006, "input_cached_tokens": 1_900, "output_tokens": 1, "input_uncached_tokens": 106}
    lines = lines_of(Format.OPENAI_USAGE, page(json.dumps({**usage, **wrong})))
    assert all(line.format_note for line in lines)


def test_anthropic_input_excludes_the_cache_whose_writes_are_nested() -> None:
    usage = {
        "uncached_input_tokens": 86,
        "cache_creation": {"ephemeral_5m_input_tokens": 12_304, "ephemeral_1h_input_tokens": 7},
        "cache_read_input_tokens": 17_817,
        "output_tokens": 550,
        "server_tool_use": {"web_search_requests": 3},
        "service_tier": "batch",
        "context_window": "200k-1M",
    }
    lines = lines_of(Format.ANTHROPIC_USAGE, page(json.dumps(usage), start=CENTS))
    assert {line.token_class.value: line.quantity for line in lines} == {
        "input_uncached": 86, "input_cache_read": 17_817, "input_cache_write_5m": 12_304, "input_cache_write_1h": 7,
        "output": 550, "tool_call": 3,
    }  # fmt: skip
    assert {(line.tier, line.is_long_context) for line in lines} == {("batch", True)}


@pytest.mark.parametrize(
    "words",
    [
        {"cost_type": "session_usage_2"}, {"cost_type": "tokens", "token_type": "thoughts"},
        {"service_tier": "turbo"}, {"context_window": "1M-9M"},
    ],
)  # fmt: skip
def test_words_that_nobody_told_us_are_noted_and_counted(words: dict[str, str]) -> None:
    result = json.dumps({"amount": "10", "currency": "USD", **words})
    (line,) = lines_of(Format.ANTHROPIC_COST, page(result, start=CENTS))
    assert (line.amount, bool(line.format_note)) == (Decimal("0.10"), True)


@pytest.mark.parametrize("blank", [{}, {"cost_type": None, "token_type": None, "model": None, "service_tier": None}])
def test_detail_is_null_unless_it_was_grouped_by(blank: dict[str, None]) -> None:
    (line,) = lines_of(
        Format.ANTHROPIC_COST, page(json.dumps({"amount": "1", "currency": "USD", **blank}), start=CENTS)
    )
    assert (line.model_name, line.tier, line.token_class, line.format_note) == ("", "", TokenClass.OTHER, "")


def test_times_with_an_offset_are_brought_to_utc_and_times_without_are_refused() -> None:
    there = '"starting_at": "2026-10-05T09:00:00+09:00", "ending_at": "2026-10-06T09:00:00+09:00"'
    result = json.dumps({"amount": "1", "currency": "USD"})
    assert lines_of(Format.ANTHROPIC_COST, page(result, start=there))[0].window_start == DAY
    naive = there.replace("+09:00", "")
    assert bad_of(read(Format.ANTHROPIC_COST, page(result, start=naive))) == [(1, "invalid_time")]


@pytest.mark.parametrize(
    ("content", "is_complete", "page_count"),
    [
        (page(cost("1")), True, 1),
        (page(cost("1"), has_more="true") + "\n" + page(cost("2")), True, 2),
        (f"[{page(cost('1'), has_more='true')}, {page(cost('2'))}]", True, 2),
        (json.dumps(json.loads(page(cost("1"))), indent=2), True, 1),
        (page(cost("1"), has_more="true"), False, 1),
        (page(cost("1")) + "\n" + page(cost("2")), False, 2),
        (page(cost("1"), has_more="true") + "\n" + page(cost("1")), False, 2),
        (page(cost("1"), has_more="null"), False, 1),
        ("[]", False, 0),
    ],
)
def test_pages_prove_that_they_are_all(content: str, is_complete: bool, page_count: int) -> None:  # noqa: FBT001
    end = end_of(read(Format.OPENAI_COSTS, content))
    assert (end.incomplete_reason == "", end.page_count) == (is_complete, page_count)


@pytest.mark.parametrize("content", ["", "no json", '{"data": 5}', '{"amount": NaN}', "[" * 100_000, b"\xff\xfe"])
def test_what_is_no_page_at_all_is_unreadable(content: str | bytes) -> None:
    with pytest.raises(UnreadableFile):
        read(Format.OPENAI_COSTS, content)


@pytest.mark.parametrize("value", ['"NaN"', '"1e400000000"', "true", "null", "[]", '"12,5"', "1e9"])
def test_a_result_with_no_usable_amount_is_listed_and_the_rest_is_read(value: str) -> None:
    items = read(Format.OPENAI_COSTS, page(cost("1"), cost(value), cost("2")))
    assert bad_of(items) == [(2, "amount_too_large" if "1e" in value else "invalid_amount")]
    assert [item.amount for item in items if isinstance(item, BillLine)] == [1, 2]


FOCUS = {
    "BilledCost": "0.0000123456789012", "BillingCurrency": "USD", "ChargeCategory": "Usage", "InvoiceId": "inv-1",
    "BillingAccountId": "acc-1", "SubAccountId": "proj_1", "ChargePeriodStart": "2026-10-05T00:00:00Z",
    "ChargePeriodEnd": "2026-10-06T00:00:00Z", "SkuMeter": "Cached Input Tokens", "ConsumedQuantity": "17.903",
    "ConsumedUnit": "1000 Tokens", "SkuPriceDetails": '{"x_model": "llama-3.3-70b", "x_Tier": "batch"}',
}  # fmt: skip


def csv_of(*rows: dict[str, str], names: list[str] | None = None) -> str:
    names = names or list(rows[0])
    quoted = [",".join('"' + row.get(name, "").replace('"', '""') + '"' for name in names) for row in rows]
    return "\n".join([",".join(names), *quoted]) + "\n"


def test_a_focus_row_in_csv_and_in_parquet_is_the_same_line() -> None:
    (from_csv,) = lines_of(Format.FOCUS, csv_of(FOCUS))
    assert (from_csv.quantity, from_csv.unit, from_csv.token_class) == (17_903, "tokens", TokenClass.INPUT_CACHE_READ)
    assert (from_csv.model_name, from_csv.tier, from_csv.project) == ("llama-3.3-70b", "batch", "proj_1")
    assert from_csv.amount == Decimal("0.0000123456789012")
    typed: dict[str, list[Any]] = {name: [value] for name, value in FOCUS.items()}
    typed |= {"BilledCost": [0.0000123456789012], "ConsumedQuantity": [Decimal("17.903")], "ChargePeriodStart": [DAY]}
    stored = io.BytesIO()
    pq.write_table(pa.table(typed), stored)
    (from_parquet,) = lines_of(Format.FOCUS, stored.getvalue(), is_parquet=True)
    for name in ("quantity", "amount", "token_class", "model_name", "tier", "project", "window_start", "window_end"):
        assert getattr(from_parquet, name) == getattr(from_csv, name), name


@pytest.mark.parametrize(
    ("category", "kind", "is_noted"),
    [("Tax", "tax", False), ("Credit", "credit", False), ("Purchase", "commitment", False), ("Gift", "usage", True)],
)
def test_a_focus_category_says_what_the_money_is_for(category: str, kind: str, is_noted: bool) -> None:  # noqa: FBT001
    (line,) = lines_of(Format.FOCUS, csv_of({**FOCUS, "ChargeCategory": category}))
    assert (line.charge_kind.value, bool(line.format_note)) == (kind, is_noted)


def test_a_focus_table_with_charges_on_no_invoice_yet_is_not_complete() -> None:
    assert end_of(read(Format.FOCUS, csv_of(FOCUS, {**FOCUS, "InvoiceId": ""}))).incomplete_reason
    assert not end_of(read(Format.FOCUS, csv_of({**FOCUS, "InvoiceId": "NULL"}))).incomplete_reason


CUR = {
    "bill_invoice_id": "2026100001", "bill_payer_account_id": "111122223333",
    "line_item_usage_account_id": "444455556666",
    "line_item_line_item_type": "Usage", "line_item_usage_start_date": "2026-10-05T00:00:00.000Z",
    "line_item_usage_end_date": "2026-10-05T01:00:00.000Z", "line_item_product_code": "AmazonBedrock",
    "line_item_usage_type": "USE1-Claude3.5Haiku-input-tokens-batch", "line_item_usage_amount": "12.3040000000",
    "pricing_unit": "1K tokens", "line_item_unblended_cost": "0.0049216000", "line_item_currency_code": "USD",
    "line_item_resource_id": "arn:aws:bedrock:us-east-1:1:model-invocation-job/abc",
}  # fmt: skip


def test_a_cur_line_counts_in_thousands_and_names_model_and_tier_in_its_usage_type() -> None:
    (line,) = lines_of(Format.AWS_CUR, gzip.compress(csv_of(CUR).encode()))
    assert (line.quantity, line.model_name, line.tier) == (12_304, "Claude3.5Haiku", "batch")
    assert (line.token_class, line.project, line.account) == (
        TokenClass.INPUT_UNCACHED, "444455556666", "111122223333",
    )  # fmt: skip
    assert (line.amount, line.reference[:8]) == (Decimal("0.0049216"), "arn:aws:")


@pytest.mark.parametrize(("kind", "meant"), [("Tax", "tax"), ("EdpDiscount", "credit"), ("Fee", "commitment")])
def test_a_cur_line_of_another_type_is_no_usage(kind: str, meant: str) -> None:
    row = {**CUR, "line_item_line_item_type": kind, "line_item_usage_end_date": CUR["line_item_usage_start_date"]}
    (line,) = lines_of(Format.AWS_CUR, csv_of(row))
    assert (line.charge_kind, line.quantity) == (ChargeKind(meant), None)


def test_a_cur_bill_is_not_final_while_its_invoice_id_is_blank() -> None:
    assert "not final" in end_of(read(Format.AWS_CUR, csv_of(CUR, {**CUR, "bill_invoice_id": ""}))).incomplete_reason
    assert end_of(read(Format.AWS_CUR, csv_of(CUR))).incomplete_reason == ""


MAPPING = ColumnMapping(
    columns={"day": "Date", "amount": "Cost", "model": "Model", "token_class": "What", "quantity": "kTok"},
    zone="Europe/Berlin",
    amount_unit="cents",
    tokens_per_unit_count=1_000,
)


def mapped(*rows: tuple[str, str, str, str, str], mapping: ColumnMapping = MAPPING) -> list[Item]:
    content = "Date,Cost,Model,What,kTok\n" + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    return read(Format.MAPPED_CSV, content, mapping=mapping)


def test_a_mapped_line_has_the_units_and_the_days_of_its_mapping() -> None:
    (line, _) = mapped(("2026-10-25", "$1,234.50", "m-1", "Output tokens", "1.5"))
    assert isinstance(line, BillLine)
    # In Berlin the clocks go back on this day: it has 25 hours.
    assert (line.window_start, line.window_end) == (
        datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 25, 23, tzinfo=UTC),
    )  # fmt: skip
    assert (line.amount, line.quantity, line.token_class) == (Decimal("12.345"), 1_500, TokenClass.OUTPUT)


def test_every_bad_line_is_listed_with_its_number_and_the_others_are_read() -> None:
    content = (
        b'Date,Cost,Model,What,kTok\n2026-10-01,1,m,output,1\n2026-13-01,1,m,output,1\n2026-10-01,"1,5",m,output,1\n'
        b"2026-10-01,1,m,output,-1\n2026-10-01,1,m\n2026-10-01,1,\xff,output,1\n\n2026-10-01,2,m,output,1\n"
    )
    items = read(Format.MAPPED_CSV, content, mapping=MAPPING)
    assert bad_of(items) == [
        (3, "invalid_time"), (4, "invalid_amount"), (5, "invalid_quantity"), (6, "invalid_csv"),
        (7, "invalid_encoding"),
    ]  # fmt: skip
    assert [item.line for item in items if isinstance(item, BillLine)] == [2, 9]


def parquet_of(**columns: pa.Array) -> bytes:
    stored = io.BytesIO()
    pq.write_table(pa.table({"Date": pa.array(["2026-10-01"]), "Cost": pa.array(["1"]), **columns}), stored)
    return stored.getvalue()


DAY_AND_COST = ColumnMapping(columns={"day": "Date", "amount": "Cost"})
_NO_TEXT = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])


@pytest.mark.parametrize(
    ("report", "content", "is_parquet"),
    [
        (Format.OPENAI_COSTS, page(cost("1e9999999999999999999")).encode(), False),
        # Ten kilobytes that unpack to a line without end.
        (Format.MAPPED_CSV, gzip.compress(b"Date,Cost\n" + b"," * 16_000_001), False),
        (Format.MAPPED_CSV, parquet_of(Cost=pa.array([2**62], pa.timestamp("us"))), True),
        (Format.MAPPED_CSV, parquet_of(Cost=pa.array([1], pa.duration("ns"))), True),
        (Format.MAPPED_CSV, parquet_of(Cost=_NO_TEXT), True),
    ],
)
def test_what_no_reader_can_hold_is_unreadable(report: Format, content: bytes, is_parquet: bool) -> None:  # noqa: FBT001
    with pytest.raises(UnreadableFile):
        read(report, content, is_parquet=is_parquet, mapping=DAY_AND_COST)


def test_a_delimiter_is_one_character_also_before_there_is_a_mapping() -> None:
    with pytest.raises(UnreadableFile):
        rows_of(io.BytesIO(b"a;;b"), ReadOptions(), needed=(), delimiter=";;")


def test_a_gzip_file_may_unpack_to_its_bound_and_to_no_byte_more() -> None:
    table = b"Date,Cost\n" + b"2026-10-01,1\n" * 20_000
    read_to = {
        bound: len(read(Format.MAPPED_CSV, gzip.compress(table), mapping=DAY_AND_COST, unpacked_max_bytes=bound))
        for bound in (len(table), len(table) + 1)
    }
    assert read_to == dict.fromkeys(read_to, 20_001)
    with pytest.raises(UnreadableFile, match="unpacks to more than 260,009 bytes"):
        read(Format.MAPPED_CSV, gzip.compress(table), mapping=DAY_AND_COST, unpacked_max_bytes=len(table) - 1)


def test_a_gzip_file_that_is_damaged_inside_says_where_it_ends() -> None:
    packed = bytearray(gzip.compress(b"Date,Cost\n" + b"".join(b"2026-10-01,%d\n" % (n * 7919) for n in range(90_000))))
    for place in range(len(packed) // 2, len(packed) // 2 + 40):
        packed[place] ^= 0x5A
    items = read(Format.MAPPED_CSV, bytes(packed), mapping=DAY_AND_COST)
    assert bad_of(items)[-1][1] == "truncated_file"
    assert sum(isinstance(item, BillLine) for item in items) > 1_000


def test_parquets_nanoseconds_are_read_to_the_microsecond() -> None:
    nanoseconds = pa.array([DAY_S * 10**9 + 1], pa.timestamp("ns"))
    (line,) = lines_of(Format.MAPPED_CSV, parquet_of(Date=nanoseconds), is_parquet=True, mapping=DAY_AND_COST)
    assert line.window_start == DAY


def test_parquets_times_without_a_zone_are_of_the_mappings_zone() -> None:
    mapping = replace(DAY_AND_COST, zone="Asia/Kathmandu")
    midnight = pa.array([datetime(2026, 10, 5)], pa.timestamp("ms"))  # noqa: DTZ001 -- it is what the file holds
    (line,) = lines_of(Format.MAPPED_CSV, parquet_of(Date=midnight), is_parquet=True, mapping=mapping)
    # Kathmandu is 5:45 ahead of UTC.
    assert (line.window_start, line.window_end) == (
        datetime(2026, 10, 4, 18, 15, tzinfo=UTC), datetime(2026, 10, 5, 18, 15, tzinfo=UTC),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("column", "usd"),
    [
        (pa.array([0.06], pa.float32()), "0.06"), (pa.array([0.5], pa.float16()), "0.5"),
        (pa.array([Decimal("0.000000100000000000")], pa.decimal128(38, 18)), "0.0000001"),
        (pa.array([1e-7]), "0.0000001"), (pa.array([b"-1.5"]), "-1.5"), (pa.array(["1.5"]).dictionary_encode(), "1.5"),
    ],
)  # fmt: skip
def test_parquets_amounts_are_what_was_written_whatever_their_type(column: pa.Array, usd: str) -> None:
    (line,) = lines_of(Format.MAPPED_CSV, parquet_of(Cost=column), is_parquet=True, mapping=DAY_AND_COST)
    assert line.amount == Decimal(usd)


@pytest.mark.parametrize("amount", ["1_0", "\u0661\u0662", "1e", ".", "nan", "Infinity", "0x1"])
def test_what_only_python_reads_as_a_number_is_a_bad_line(amount: str) -> None:
    for row in ({**FOCUS, "BilledCost": amount}, {**FOCUS, "ConsumedQuantity": amount}):
        assert len(bad_of(read(Format.FOCUS, csv_of(row)))) == 1


@pytest.mark.parametrize(
    ("quantity", "unit", "expected"),
    [
        ("50000000", "Bytes", 50_000_000), ("123456789.5", "GB-Hours", None), ("-3", "GB", None),
        ("1e99", "Bytes", None), ("1e-99", "Bytes", None), ("0E+30", "Tokens", 0), ("1.5e3", "Tokens", 1_500),
    ],
)  # fmt: skip
def test_a_line_counts_whatever_it_is_a_quantity_of(quantity: str, unit: str, expected: int | None) -> None:
    (focus,) = lines_of(Format.FOCUS, csv_of({**FOCUS, "ConsumedQuantity": quantity, "ConsumedUnit": unit}))
    (cur,) = lines_of(Format.AWS_CUR, csv_of({**CUR, "line_item_usage_amount": quantity, "pricing_unit": unit}))
    assert (focus.quantity, cur.quantity) == (expected, expected)


def test_a_correction_takes_back_tokens_with_its_money_and_only_then() -> None:
    row = {**FOCUS, "ChargeClass": "Correction", "BilledCost": "-0.25", "ConsumedQuantity": "-12.5"}
    (line,) = lines_of(Format.FOCUS, csv_of(row))
    assert (line.amount, line.quantity, line.charge_kind) == (Decimal("-0.25"), -12_500, ChargeKind.USAGE)
    (line,) = lines_of(
        Format.AWS_CUR, csv_of({**CUR, "line_item_usage_amount": "-2", "line_item_unblended_cost": "-1"})
    )
    assert (line.amount, line.quantity) == (Decimal(-1), -2_000)
    (cents, _) = mapped(("2026-10-05", "(100)", "m", "output", "-2"))
    assert isinstance(cents, BillLine)
    assert (cents.amount, cents.quantity) == (Decimal(-1), -2_000)
    assert bad_of(read(Format.FOCUS, csv_of({**row, "BilledCost": "0.25"}))) == [(2, "invalid_quantity")]


def test_a_zero_is_a_zero_with_any_exponent() -> None:
    (line,) = lines_of(Format.OPENAI_COSTS, page(cost("0e99999999")))
    assert str(line.amount) == "0"


def test_words_stay_within_their_columns_when_their_case_changes() -> None:
    # A sharp s has two capitals, and a dotted I two small letters.
    (line,) = lines_of(Format.FOCUS, csv_of({**FOCUS, "BillingCurrency": "\u00df" * 160}))
    assert line.currency == "S" * 160
    columns = {"day": "Date", "amount": "Cost", "tier": "Tier"}
    table = f"Date,Cost,Tier\n2026-10-05,1,{chr(0x130) * 160}\n"
    (line,) = lines_of(Format.MAPPED_CSV, table, mapping=ColumnMapping(columns=columns))
    assert len(line.tier) == 160


def test_details_that_hold_no_number_of_ours_are_no_details() -> None:
    (line,) = lines_of(Format.FOCUS, csv_of({**FOCUS, "SkuPriceDetails": '{"x_model": 1e99999999999999999999}'}))
    assert (line.model_name, line.amount) == ("", Decimal("0.0000123456789012"))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_table_of_other_case_order_and_line_ends_is_the_same(newline: str) -> None:
    names = [*reversed(FOCUS), "Tags"]
    row = {**FOCUS, "Tags": f'{{"note":{newline}"two lines"}}'}
    head, rest = csv_of(row, names=names).split("\n", 1)
    table = f"\ufeff\n{head.lower()}\n{rest}" + "," * (len(names) - 1) + "\n   \n"
    found = read(Format.FOCUS, table.replace("\r\n", "\n").replace("\n", newline))
    (expected,) = lines_of(Format.FOCUS, csv_of(FOCUS))
    assert bad_of(found) == []
    (line,) = (item for item in found if isinstance(item, BillLine))
    for name in ("quantity", "amount", "token_class", "model_name", "tier", "project", "window_start", "account"):
        assert getattr(line, name) == getattr(expected, name), name


def test_times_as_bigquery_writes_them_are_utc() -> None:
    row = {**FOCUS, "ChargePeriodStart": "2026-10-05 00:00:00 UTC", "ChargePeriodEnd": "2026-10-06 00:00:00.000 UTC"}
    (line,) = lines_of(Format.FOCUS, csv_of(row))
    assert (line.window_start, line.window_end) == (DAY, datetime(2026, 10, 6, tzinfo=UTC))


def test_blank_lines_before_pages_are_no_pages() -> None:
    pages = "\n\r\n" + page(cost("1"), has_more="true") + "\n\n" + page(cost("2"))
    items = read(Format.OPENAI_COSTS, pages)
    assert [item.amount for item in items if isinstance(item, BillLine)] == [1, 2]
    assert end_of(items) == FileEnd(page_count=2, incomplete_reason="")


@pytest.mark.parametrize(
    "mapping",
    [
        ColumnMapping(columns={"day": "Date"}), ColumnMapping(columns={"day": "Date", "amount": "Nowhere"}),
        ColumnMapping(columns={"day": "Date", "amount": "Cost"}, zone="Mars/Base"),
        ColumnMapping(columns={"day": "Date", "amount": "Cost"}, amount_unit="euros"),
    ],
)  # fmt: skip
def test_a_mapping_that_cannot_be_followed_is_refused(mapping: ColumnMapping) -> None:
    with pytest.raises(UnreadableFile):
        mapped(("2026-10-01", "1", "m", "output", "1"), mapping=mapping)


@pytest.mark.parametrize("report", [Format.FOCUS, Format.AWS_CUR])
def test_a_table_without_its_columns_or_of_another_kind_is_unreadable(report: Format) -> None:
    for content, is_parquet in (("", False), ("a,b\n1,2\n", False), ("a,a\n", False), ("no parquet", True)):
        with pytest.raises(UnreadableFile):
            read(report, content, is_parquet=is_parquet)
