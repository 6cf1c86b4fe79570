from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ground.errors import ProviderError
from routing.providers.anthropic.jobs import read_page, read_reference, read_report, refusal
from routing.providers.base import Fault, JobEnding, JobState

AT = datetime(2026, 11, 24, 12, 0, 0, tzinfo=UTC)
ENDED = "2026-11-24T10:00:00.250000Z"


def job(status: str = "ended", counts: dict[str, int] | None = None, **members: Any) -> dict[str, Any]:
    every = {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0, **(counts or {})}
    return {
        "id": "msgbatch_1",
        "type": "message_batch",
        "processing_status": status,
        "request_counts": every,
        "created_at": "2026-11-24T09:00:00Z",
        "ended_at": ENDED if status == "ended" else None,
        "results_url": "https://elsewhere.test/results",
        **members,
    }


def report(described: dict[str, Any]) -> Any:
    return read_report(msgspec.json.encode(described), "msgbatch_1")


def refused(status_code: int, error_type: str, **members: Any) -> ProviderError:
    error = {"type": error_type, "message": "A prompt.", **members}
    return refusal(status_code, msgspec.json.encode({"type": "error", "error": error}), {}, at=AT)


@pytest.mark.parametrize("status", ["in_progress", "canceling", "a_new_word"])
def test_every_other_word_is_running_and_has_no_results(status: str) -> None:
    found = report(job(status, {"processing": 3}))
    assert (found.state, found.ending, found.completed_at, found.result_refs) == (JobState.RUNNING, None, None, ())


@pytest.mark.parametrize(
    ("counts", "members", "ending"),
    [
        ({"succeeded": 2}, {}, JobEnding.COMPLETED),
        ({"errored": 2}, {}, JobEnding.COMPLETED),
        ({"succeeded": 1, "expired": 1}, {}, JobEnding.EXPIRED),
        ({"succeeded": 2}, {"cancel_initiated_at": ENDED}, JobEnding.CANCELLED),
        ({"canceled": 1, "expired": 1}, {"cancel_initiated_at": ENDED}, JobEnding.CANCELLED),
    ],
    ids=str,
)
def test_how_a_batch_ended_follows_from_its_counts_and_its_cancel(
    counts: dict[str, int], members: dict[str, Any], ending: JobEnding
) -> None:
    found = report(job(counts=counts, **members))
    assert (found.state, found.ending) == (JobState.ENDED, ending)
    assert found.completed_at == datetime.fromisoformat(ENDED)
    assert found.result_refs == ("msgbatch_1",)


def test_counts_are_told_and_an_archived_batch_has_no_results() -> None:
    counts = {"succeeded": 4, "errored": 1, "canceled": 2, "expired": 3}
    found = report(job(counts=counts, archived_at=ENDED))
    assert (found.done_count, found.failed_count, found.result_refs) == (4, 6, ())


@pytest.mark.parametrize(
    "described",
    [
        {**job(), "id": "msgbatch_2"},
        {**job(), "created_at": "yesterday"},
        {**job(), "ended_at": "2026-11-24T10:00:00"},
        {**job(), "processing_status": None},
        {**job(), "request_counts": {"succeeded": "two"}},
        {"id": "msgbatch_1"},
    ],
    ids=["other", "instant", "zone", "status", "counts", "partial"],
)
def test_what_is_not_the_batch_s_own_object_decides_nothing(described: dict[str, Any]) -> None:
    with pytest.raises(ProviderError) as caught:
        report(described)
    assert (caught.value.code, caught.value.permanent) == (Fault.BROKEN_ANSWER, False)


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"id":""}', b"<html>"], ids=str)
def test_an_answer_without_an_id_is_broken(answer: bytes) -> None:
    with pytest.raises(ProviderError):
        read_reference(answer)


def test_a_listed_batch_has_no_token_and_counts_all_its_rows() -> None:
    page = read_page(msgspec.json.encode({"data": [job("in_progress", {"processing": 5})], "has_more": False}))
    (listed,) = page.jobs
    assert (listed.token, listed.row_count, page.next_after) == (None, 5, None)


def test_a_page_with_more_behind_it_goes_on_after_its_last() -> None:
    page = read_page(msgspec.json.encode({"data": [job(), job()], "has_more": True}))
    assert page.next_after == "msgbatch_1"


@pytest.mark.parametrize(
    ("status_code", "error_type", "members", "fault", "permanent"),
    [
        (400, "invalid_request_error", {}, Fault.REFUSED, True),
        (
            400,
            "invalid_request_error",
            {"details": {"error_code": "enforced_spend_limit_reached"}},
            Fault.QUOTA_EXHAUSTED,
            True,
        ),
        (401, "authentication_error", {}, Fault.ACCOUNT_REFUSED, True),
        (402, "billing_error", {}, Fault.QUOTA_EXHAUSTED, True),
        (403, "permission_error", {}, Fault.ACCOUNT_REFUSED, True),
        (403, "permission_error", {"details": {"error_code": "organization_on_hold"}}, Fault.ACCOUNT_REFUSED, True),
        (404, "not_found_error", {}, Fault.NOT_FOUND, True),
        (409, "conflict_error", {}, Fault.UNAVAILABLE, False),
        (413, "request_too_large", {}, Fault.REFUSED, True),
        (429, "rate_limit_error", {}, Fault.RATE_LIMITED, False),
        (500, "api_error", {}, Fault.UNAVAILABLE, False),
        (504, "timeout_error", {}, Fault.UNAVAILABLE, False),
        (529, "overloaded_error", {}, Fault.UNAVAILABLE, False),
        (500, "billing_error", {}, Fault.UNAVAILABLE, False),
    ],
)
def test_a_refusal_says_what_to_do(
    status_code: int, error_type: str, members: dict[str, Any], fault: Fault, permanent: object
) -> None:
    found = refused(status_code, error_type, **members)
    assert (found.code, found.permanent) == (fault, permanent)
    assert "prompt" not in found.message


@pytest.mark.parametrize("status_code", [400, 401, 403, 404, 500, 502])
@pytest.mark.parametrize("body", [b"<html>", b"", b"{", b'{"error":"x"}', b'{"error":{"message":"x"}}'], ids=str)
def test_what_is_not_the_provider_s_envelope_is_never_permanent(status_code: int, body: bytes) -> None:
    assert refusal(status_code, body, {}, at=AT).permanent is False
