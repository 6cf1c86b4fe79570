from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from ground.errors import ProviderError
from routing.providers.base import Fault, JobEnding, JobState
from routing.providers.openai.jobs import read_page, read_report, refusal
from routing.providers.retry_after import retry_after_seconds

AT = datetime(2026, 11, 24, 12, 0, 0, tzinfo=UTC)


def job(status: str, **members: object) -> bytes:
    return msgspec.json.encode({"id": "batch_1", "status": status, "created_at": 1_764_000_000, **members})


def refused(status_code: int, **error: object) -> ProviderError:
    return refusal(status_code, msgspec.json.encode({"error": {"message": "A prompt.", **error}}), {}, at=AT)


@pytest.mark.parametrize("status", ["validating", "in_progress", "finalizing", "cancelling", "a_new_word"])
def test_every_other_word_is_running_and_gives_no_files(status: str) -> None:
    report = read_report(job(status, output_file_id="file-1"), "batch_1")
    assert (report.state, report.ending, report.result_refs) == (JobState.RUNNING, None, ())


@pytest.mark.parametrize("status", ["completed", "failed", "expired", "cancelled"])
def test_an_ending_has_its_own_instant(status: str) -> None:
    report = read_report(job(status, **{f"{status}_at": 1_764_000_100}), "batch_1")
    assert (report.state, report.ending) == (JobState.ENDED, JobEnding(status))
    assert report.completed_at == datetime.fromtimestamp(1_764_000_100, UTC)


def test_a_completed_job_may_have_only_an_error_file() -> None:
    report = read_report(job("completed", output_file_id=None, error_file_id="file-e"), "batch_1")
    assert report.result_refs == ("file-e",)


def test_the_output_is_read_before_the_errors() -> None:
    report = read_report(job("expired", error_file_id="file-e", output_file_id="file-o"), "batch_1")
    assert report.result_refs == ("file-o", "file-e")


@pytest.mark.parametrize("counts", [None, {}, {"total": None, "completed": None, "failed": None}], ids=str)
def test_counts_may_be_missing(counts: object) -> None:
    report = read_report(job("completed", request_counts=counts), "batch_1")
    assert (report.done_count, report.failed_count) == (0, 0)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("token_limit_exceeded", Fault.LANE_FULL),
        ("model_not_found", Fault.MODEL_GONE),
        ("billing_hard_limit_reached", Fault.QUOTA_EXHAUSTED),
        ("invalid_json_line", Fault.REFUSED),
        (None, Fault.REFUSED),
    ],
)
def test_a_failed_job_says_why(code: str | None, fault: Fault) -> None:
    errors = {"object": "list", "data": [{"code": code, "line": None, "message": "m", "param": None}]}
    assert read_report(job("failed", errors=errors), "batch_1").fault is fault


def test_the_message_of_a_failed_job_names_codes_and_lines_and_no_text() -> None:
    data = [{"code": "invalid_json_line", "line": 3, "message": "Near 'a secret prompt'"}]
    report = read_report(job("failed", errors={"data": data}), "batch_1")
    assert report.message == "invalid_json_line (line 3)"


def test_a_full_lane_tells_the_limit_without_the_organisation() -> None:
    said = "Enqueued token limit reached for gpt-4o in organization org-Ab12Cd34Ef56. Limit: 90,000 enqueued tokens."
    data = [{"code": "token_limit_exceeded", "line": None, "message": said}]
    report = read_report(job("failed", errors={"data": data}), "batch_1")
    assert report.message == said.replace("org-Ab12Cd34Ef56", "[id]")


@pytest.mark.parametrize("instant", [1e300, -1e300])
def test_an_instant_that_is_none_is_a_broken_answer(instant: float) -> None:
    with pytest.raises(ProviderError) as caught:
        read_report(job("completed", completed_at=instant), "batch_1")
    assert caught.value.code == Fault.BROKEN_ANSWER


@pytest.mark.parametrize(
    ("status_code", "error", "fault", "permanent"),
    [
        (400, {"code": "invalid_value"}, Fault.REFUSED, True),
        (400, {"code": "token_limit_exceeded"}, Fault.LANE_FULL, False),
        (400, {"code": "billing_hard_limit_reached"}, Fault.QUOTA_EXHAUSTED, True),
        (401, {}, Fault.ACCOUNT_REFUSED, True),
        (402, {}, Fault.QUOTA_EXHAUSTED, True),
        (403, {}, Fault.ACCOUNT_REFUSED, True),
        (404, {}, Fault.NOT_FOUND, True),
        (404, {"code": "model_not_found"}, Fault.MODEL_GONE, True),
        (404, {"type": "model_not_found"}, Fault.MODEL_GONE, True),
        (408, {}, Fault.TIMED_OUT, False),
        (409, {}, Fault.UNAVAILABLE, False),
        (413, {}, Fault.REFUSED, True),
        (429, {}, Fault.RATE_LIMITED, False),
        (429, {"code": 429}, Fault.RATE_LIMITED, False),
        (429, {"type": "insufficient_quota"}, Fault.QUOTA_EXHAUSTED, True),
        (500, {"code": "insufficient_quota"}, Fault.UNAVAILABLE, False),
        (503, {}, Fault.UNAVAILABLE, False),
        (302, {}, Fault.UNAVAILABLE, False),
    ],
)
def test_a_refusal_says_what_to_do(status_code: int, error: dict[str, object], fault: Fault, permanent: object) -> None:
    found = refused(status_code, **error)
    assert (found.code, found.permanent) == (fault, permanent)
    assert "prompt" not in found.message


@pytest.mark.parametrize("status_code", [400, 401, 403, 404, 500, 502])
@pytest.mark.parametrize("body", [b"<html>", b"", b"{", b'{"detail":"x"}', b'{"error":"x"}', b"\xff"], ids=str)
def test_what_is_not_the_provider_s_envelope_is_never_permanent(status_code: int, body: bytes) -> None:
    assert refusal(status_code, body, {}, at=AT).permanent is False


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.2"}, 1),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "1e9"}, 86_400),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Tue, 24 Nov 2026 12:01:30 GMT"}, 90),
        ({"retry-after": "Tue, 24 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 2),
    ],
    ids=str,
)
def test_the_wait_is_whole_seconds_within_a_day(headers: dict[str, str], seconds: int | None) -> None:
    assert retry_after_seconds(headers, at=AT) == seconds


def test_a_job_of_somebody_else_is_listed_without_a_token() -> None:
    page = b'{"data":[' + job("completed", metadata={"their": "own"}) + b'],"has_more":false}'
    assert read_page(page).jobs[0].token is None
    assert read_page(page).next_after is None
