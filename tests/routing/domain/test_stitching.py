"""One line of the results."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.domain.stitching import StitchedRow, result_line, success_frame, success_lines

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


def line_of(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "batch_public_id": "batch_01ABC",
        "row": 7,
        "custom_id_json": b'"mine"',
        "succeeded": True,
        "code": "",
        "status_code": 200,
        "body": b'{"id":"chatcmpl-x"}',
        "lane_id": "openai-direct",
        "re_dispatch_count": 0,
        "charge_pico_usd": 12_345,
    }
    line = result_line(StitchedRow(**{**fields, **changes}))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    read: dict[str, Any] = json.loads(line)
    return read


def test_a_row_that_succeeded_reads_as_the_public_contract_says() -> None:
    assert line_of() == {
        "id": "batch_req_01ABC_7",
        "custom_id": "mine",
        "response": {"status_code": 200, "request_id": "req_01ABC_7", "body": {"id": "chatcmpl-x"}},
        "error": None,
        "lanehouse": {"lane_id": "openai-direct", "re_dispatch_count": 0, "charge_pico_usd": 12_345},
    }


ROWS = st.tuples(st.integers(0, 10**6), names, st.integers(0, 2**62), st.sampled_from([200, 201]), st.integers(0, 5))


@given(st.lists(ROWS, max_size=4))
def test_successes_put_together_at_once_are_the_lines_of_the_general_way(
    rows: list[tuple[int, str, int, int, int]],
) -> None:
    general = [
        StitchedRow(
            batch_public_id="batch_01ABC",
            row=row,
            custom_id_json=json.dumps(name).encode(),
            succeeded=True,
            code="",
            status_code=status_code,
            body=b'{"id":"%d"}' % row,
            lane_id='a "lane"',
            re_dispatch_count=moves,
            charge_pico_usd=charge_pico_usd,
        )
        for row, name, charge_pico_usd, status_code, moves in rows
    ]
    at_once = success_lines(
        b"01ABC",
        [row.row for row in general],
        [row.custom_id_json for row in general],
        [
            success_frame(
                batch_number=b"01ABC",
                status_code=row.status_code,
                lane_id=row.lane_id,
                re_dispatch_count=row.re_dispatch_count,
            )
            for row in general
        ],
        [row.body for row in general],
        [row.charge_pico_usd for row in general],
    )
    assert at_once == b"".join(map(result_line, general))


def test_a_refused_row_has_its_answer_and_our_code() -> None:
    line = line_of(succeeded=False, code="content_filtered", status_code=400, body=b'{"error":{}}', charge_pico_usd=0)
    assert line["response"]["body"] == {"error": {}}
    assert line["error"]["code"] == "content_filtered"
    assert line["error"]["message"] == "The provider's content filter stopped this row."


def test_a_row_that_never_ran_has_no_response() -> None:
    line = line_of(succeeded=False, code="batch_expired", status_code=0, body=b"")
    assert line["response"] is None
    assert line["error"]["code"] == "batch_expired"


def test_a_code_without_a_sentence_of_its_own_still_gets_one() -> None:
    assert line_of(succeeded=False, code="something_new", body=b"")["error"]["message"] == "The row was not done."


@given(names)
def test_a_custom_id_comes_back_as_the_text_it_was(name: str) -> None:
    for escaped in (json.dumps(name), json.dumps(name, ensure_ascii=False)):
        if "\n" not in escaped:
            assert line_of(custom_id_json=escaped.encode())["custom_id"] == name


@given(st.binary(max_size=200).map(lambda raw: json.dumps({"text": raw.decode("latin-1")}).encode()))
def test_a_body_is_passed_on_byte_for_byte(body: bytes) -> None:
    assert json.dumps(line_of(body=body)["response"]["body"]).encode() == body
