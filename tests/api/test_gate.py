"""The gate: places by kind of work, given back whatever happens."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.test import RequestFactory, override_settings

from config.gate import Gate, GateMiddleware, Work, work_of

requests = RequestFactory()


def one_place(answer: HttpResponseBase) -> GateMiddleware:
    with override_settings(GATE_PLACES=1, GATE_UPLOAD_PLACES=1, GATE_BODY_PLACES=1, GATE_DOWNLOAD_PLACES=1):
        return GateMiddleware(lambda _request: answer)


def test_a_kind_has_fewer_places_than_the_whole() -> None:
    gate = Gate(all_places=3, upload_places=1, body_places=1, download_places=1)
    assert gate.enter(Work.UPLOAD) is not None
    assert gate.enter(Work.UPLOAD) is None
    leave = gate.enter(Work.DOWNLOAD)
    assert leave is not None
    assert gate.enter(Work.DOWNLOAD) is None
    assert gate.enter(Work.OTHER) is not None
    assert gate.enter(Work.OTHER) is None
    leave()
    assert gate.enter(Work.DOWNLOAD) is not None


def test_what_keeps_a_thread_waiting_is_told_by_the_head_of_a_request() -> None:
    assert work_of(requests.post("/v1/batches", b"{}", "application/json")) is Work.BODY
    assert work_of(requests.generic("POST", "/v1/batches/batch_1/cancel")) is Work.OTHER
    assert work_of(requests.get("/v1/files/file-1/content")) is Work.DOWNLOAD
    assert work_of(requests.get("/v1/batches")) is Work.OTHER


def test_a_streamed_answer_keeps_its_place_until_it_is_closed() -> None:
    gate = one_place(StreamingHttpResponse(iter([b"a"])))
    streamed = gate(requests.get("/v1/files/file-1/content"))
    refused = gate(requests.get("/v1/batches"))
    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    assert gate(requests.get("/healthz")).status_code == 200
    streamed.close()
    assert gate(requests.get("/v1/batches")).status_code == 200


def test_a_failed_request_gives_its_place_back() -> None:
    failures = [RuntimeError("fails")]

    def fail_once(_request: HttpRequest) -> HttpResponse:
        if failures:
            raise failures.pop()
        return HttpResponse()

    with override_settings(GATE_PLACES=1, GATE_UPLOAD_PLACES=1, GATE_BODY_PLACES=1, GATE_DOWNLOAD_PLACES=1):
        gate = GateMiddleware(fail_once)
    with pytest.raises(RuntimeError):
        gate(requests.get("/v1/batches"))
    assert gate(requests.get("/v1/batches")).status_code == 200
