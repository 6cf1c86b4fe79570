"""What no simulator of Anthropic would answer, what is sent, and that the stand-in takes everything we map."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from catalog.domain.records import Endpoint
from ground.errors import ProviderError
from routing.providers.base import (
    Deadlines,
    Fault,
    JobEnding,
    JobReport,
    JobState,
    Outcome,
    Provider,
    ProviderAccount,
    RowResult,
    Submission,
    make_row_key,
)
from routing.providers.registry import open_provider
from simulators.anthropic.running import running_simulator
from tests.routing.providers.chat_rows import AFTER_A_CALL, NEW, OLD, PNG, WEATHER, answer_schema, row
from tests.routing.providers.claude_by_hand import TOKEN, answered, body_of
from tests.routing.providers.odd_server import OddServer, answering, drip, plain, raw

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
REPORT = JobReport(
    batch_ref="msgbatch_1",
    state=JobState.ENDED,
    ending=JobEnding.COMPLETED,
    provider_status="ended",
    done_count=1,
    failed_count=0,
    completed_at=SINCE,
    result_refs=("msgbatch_1",),
)
EVERYTHING: dict[str, dict[str, Any]] = {
    "sampling": {"temperature": 0.2, "top_p": 0.9, "stop": ["END"], "user": "u-1", "seed": 5},
    "tools": {"messages": AFTER_A_CALL, "tools": [WEATHER], "parallel_tool_calls": False},
    "forced tool": {
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "max_tokens": 500,
    },
    "schema": {"response_format": answer_schema(), "max_tokens": 500},
    "image": {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
                    {"type": "image_url", "image_url": {"url": "https://x.test/a.jpg"}},
                ],
            },
        ]
    },
}


def opened(base_url: str, project: str | None = None, **deadlines: float) -> Provider:
    account = ProviderAccount(
        provider="anthropic", name="a", base_url=base_url, api_key="sk-ant-odd-key", project=project
    )
    return open_provider(account, Deadlines(**deadlines))


def base_of(server: OddServer) -> str:
    return server.base_url.removesuffix("/v1")


def submission(rows: list[dict[str, Any]], provider: Provider, model_id: str = OLD) -> Submission:
    def lines() -> Iterator[bytes]:
        for number, parameters in enumerate(rows):
            yield provider.encode_row(
                row_key=make_row_key(TOKEN, number),
                endpoint=Endpoint.CHAT_COMPLETIONS,
                model_id=model_id,
                body=row(**parameters),
                max_output_tokens=64,
            )

    return Submission(
        token=TOKEN, endpoint=Endpoint.CHAT_COMPLETIONS, model_id=model_id, row_count=len(rows), lines=lines
    )


def test_a_submit_is_one_body_of_rows_under_the_older_version() -> None:
    with answering(plain(b'{"id":"msgbatch_1"}')) as server, opened(base_of(server), "wrkspc_1") as provider:
        submitted = provider.submit(submission([{}, {}], provider))
    head, _, sent = server.requests[0].partition(b"\r\n\r\n")
    assert (submitted.batch_ref, submitted.input_ref) == ("msgbatch_1", None)
    assert [each["custom_id"] for each in msgspec.json.decode(sent)["requests"]] == [f"{TOKEN}r0", f"{TOKEN}r1"]
    assert b"anthropic-version: 2023-06-01" in head.lower()
    assert b"anthropic-workspace-id: wrkspc_1" in head.lower()
    assert b"transfer-encoding" not in head.lower()


def test_results_are_read_from_our_own_base_whatever_the_batch_names() -> None:
    with answering(plain(answered() + b"\n")) as server, opened(base_of(server)) as provider:
        (item,) = provider.results(REPORT, token=TOKEN, answer_prefix="")
    assert isinstance(item, RowResult)
    assert body_of(item)["created"] == int(SINCE.timestamp())
    assert server.requests[0].startswith(b"GET /v1/messages/batches/msgbatch_1/results ")


def test_a_redirect_is_not_followed() -> None:
    elsewhere = plain(b"", "307 Elsewhere", "Location: http://127.0.0.1:9/v1/messages/batches/msgbatch_1/results")
    with answering(elsewhere) as server, opened(base_of(server)) as provider, pytest.raises(ProviderError) as caught:
        list(provider.results(REPORT, token=TOKEN, answer_prefix=""))
    assert (caught.value.code, caught.value.permanent) == (Fault.UNAVAILABLE, False)


def test_a_drip_of_results_ends_at_the_deadline() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"
    with (
        answering(drip(head, b"\n")) as server,
        opened(base_of(server), download_seconds=0.3) as provider,
        pytest.raises(ProviderError) as caught,
    ):
        list(provider.results(REPORT, token=TOKEN, answer_prefix=""))
    assert caught.value.code == Fault.TIMED_OUT


def test_results_cut_without_a_frame_are_an_error() -> None:
    cut = raw(b"HTTP/1.1 200 OK\r\n\r\n" + answered()[:-30])
    with answering(cut) as server, opened(base_of(server)) as provider, pytest.raises(ProviderError) as caught:
        list(provider.results(REPORT, token=TOKEN, answer_prefix=""))
    assert (caught.value.code, caught.value.permanent) == (Fault.UNREACHABLE, False)


def test_results_that_are_not_there_yet_are_tried_again() -> None:
    missing = plain(b'{"type":"error","error":{"type":"not_found_error","message":"x"}}', "404 Not Found")
    with answering(missing) as server, opened(base_of(server)) as provider, pytest.raises(ProviderError) as caught:
        list(provider.results(REPORT, token=TOKEN, answer_prefix=""))
    assert (caught.value.code, caught.value.permanent) == (Fault.NOT_FOUND, False)


def test_a_list_without_an_end_is_an_error() -> None:
    described = b'{"id":"msgbatch_1","processing_status":"ended","created_at":"2026-06-01T00:00:00Z"}'
    page = b'{"data":[' + described + b'],"has_more":true}'
    with answering(plain(page)) as server, opened(base_of(server)) as provider, pytest.raises(ProviderError) as caught:
        provider.find_since(SINCE)
    assert caught.value.code == Fault.BROKEN_ANSWER


def test_the_environment_adds_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-somebody")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of-somebody")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    with answering(plain(b"{}")) as server, opened(base_of(server)) as provider, pytest.raises(ProviderError):
        provider.poll("msgbatch_1")
    assert b"of-somebody" not in server.requests[0]
    assert b"sk-ant-odd-key" in server.requests[0]


def test_rows_that_cannot_be_carried_end_the_submit_before_anything_is_sent() -> None:
    with answering(plain(b"{}")) as server, opened(base_of(server)) as provider, pytest.raises(ProviderError) as caught:
        provider.submit(submission([{}, {"n": 2}], provider))
    assert (caught.value.code, caught.value.permanent, caught.value.ambiguous) == (Fault.REFUSED, True, False)
    assert server.requests == []


@pytest.mark.parametrize("model_id", [OLD, NEW])
def test_the_stand_in_takes_everything_that_is_mapped(model_id: str, tmp_path: Path) -> None:
    rows = [dict(each) for each in EVERYTHING.values()]
    if model_id == NEW:
        rows[0] = {"stop": ["END"], "reasoning_effort": "low"}
    at_once = {"rows_per_second": None, "starting_seconds": 0, "ending_seconds": 0}
    with running_simulator(tmp_path, **at_once) as simulator, opened(simulator.url) as provider:
        report = provider.poll(provider.submit(submission(rows, provider, model_id)).batch_ref)
        items = [
            item for item in provider.results(report, token=TOKEN, answer_prefix="") if isinstance(item, RowResult)
        ]
    assert {item.row: (item.outcome, item.body) for item in items if item.outcome is not Outcome.SUCCEEDED} == {}
    by_row = {item.row: body_of(item)["choices"][0] for item in items}
    assert by_row[2]["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert "river" in msgspec.json.decode(by_row[3]["message"]["content"])
