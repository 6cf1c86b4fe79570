"""Quotes by ``input_file_id``: pending at once, then what the direct call would have said, or what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.core.files.storage import default_storage
from django.test import override_settings

from ground import clock as the_clock
from ground.blobs import open_blob
from ground.leases import LeaseLost, claim
from routing.models import FilePricing, PricingState, Quote, StoredFile
from routing.payloads import payload_name
from routing.services.file_quotes import LeasedReading, price_next_file
from tests.api.uploads import content_of, part, uploaded
from tests.api.world import Api, Left, error_of, lines_of, row
from tests.harness.clock import Clock

QUOTE = "/v1/quotes/model"
MIXED = lines_of(row("a"), row("b", model="gpt-4o", max_tokens=7), row("c", "Où?"))


def file_of(api: Api, content: bytes) -> str:
    file_id: str = uploaded(api, part("purpose", "batch"), part("file", content, "rows.jsonl"))["id"]
    return file_id


def asked(api: Api, content: bytes) -> dict[str, Any]:
    response = api.post(QUOTE, {"input_file_id": file_of(api, content)})
    assert response.status_code == 202, response.content
    answer: dict[str, Any] = response.json()
    assert response["Location"] == f"/v1/quotes/{answer['id']}"
    return answer


def quote_of(api: Api, quote_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = api.get(f"/v1/quotes/{quote_id}").json()
    return answer


def test_a_file_is_quoted_in_the_background_as_the_direct_call_quotes_it(api: Api, clock: Clock) -> None:
    at = clock.freeze(the_clock.now())
    pending = asked(api, MIXED)
    assert (pending["status"], pending["error"], pending["expires_at"]) == ("pending", None, None)
    assert pending["progress"] == {"read_bytes": 0, "total_bytes": len(MIXED)}
    assert quote_of(api, pending["id"]) == pending
    clock.advance(minutes=10)
    assert price_next_file()
    assert not price_next_file()
    ready = quote_of(api, pending["id"])
    direct = api.post(QUOTE, MIXED, "application/jsonl").json()
    # 30 minutes count from the instant it was ready
    assert (ready["created_at"], ready["expires_at"]) == (int(at.timestamp()), int(at.timestamp()) + 600 + 1_800)
    assert (ready["input_file_id"], direct["input_file_id"]) == (pending["input_file_id"], None)
    own = ("id", "created_at", "input_file_id", "timings_ms")
    assert {name: ready[name] for name in ready if name not in own} == {
        name: direct[name] for name in direct if name not in own
    }


def test_its_batch_is_of_the_bytes_as_they_came_even_if_the_file_is_deleted_meanwhile(api: Api) -> None:
    pending = asked(api, MIXED)
    assert api.client.delete(f"/v1/files/{pending['input_file_id']}").status_code == 200
    price_next_file()
    with open_blob(payload_name(pending["id"])) as payload:
        assert payload.read() == MIXED
    accepted = api.accept(pending["id"])
    assert accepted.status_code == 200
    assert accepted.json()["request_counts"]["total"] == 3


def test_a_pending_quote_cannot_be_accepted(api: Api) -> None:
    pending = asked(api, MIXED)
    error = error_of(api.accept(pending["id"]), 400, "invalid_value", "quote_id")
    assert "pending" in error["message"]


@pytest.mark.parametrize(
    "content",
    [
        lines_of(row("a"), row("b"), row("a")),
        b"\n" + lines_of(row("a")) + b"{\n",
        lines_of(row("a", model="gpt-9")),
        lines_of(row("a", model="claude-3-5-haiku", logit_bias={"1": 2})),
        b"\n\n",
    ],
)
def test_a_file_that_is_refused_says_what_the_direct_call_says(api: Api, content: bytes) -> None:
    pending = asked(api, content)
    price_next_file()
    failed = quote_of(api, pending["id"])
    assert (failed["status"], failed["progress"]) == ("failed", None)
    assert failed["error"] == api.post(QUOTE, content, "application/jsonl").json()["error"]
    error_of(api.accept(pending["id"]), 400, "invalid_value", "quote_id")


def test_the_pricing_shows_how_far_it_has_read(api: Api) -> None:
    content = lines_of(*(row(str(number), "x" * 1_000) for number in range(2_400)))
    quote_id = asked(api, content)["id"]
    lease = claim(FilePricing, state_field="state", states=(PricingState.PENDING,))
    assert lease is not None
    name = StoredFile.objects.get().blob_name
    with open_blob(name) as blob:
        seen = [
            quote_of(api, quote_id)["progress"]["read_bytes"]
            for _ in LeasedReading(lease, blob, size_bytes=len(content)).blocks()
        ]
    mib = 1024 * 1024
    assert seen == [0, mib, 2 * mib]
    FilePricing.objects.update(fence=lease.fence + 1)
    with open_blob(name) as blob, pytest.raises(LeaseLost):
        list(LeasedReading(lease, blob, size_bytes=len(content)).blocks())


def test_a_file_at_which_processes_die_is_given_up(api: Api, clock: Clock) -> None:
    quote_id = asked(api, MIXED)["id"]
    for _ in range(5):
        assert claim(FilePricing, state_field="state", states=(PricingState.PENDING,)) is not None
        assert not price_next_file()
        clock.advance(seconds=settings.LEASE_SECONDS + 1)
    assert price_next_file()
    failed = quote_of(api, quote_id)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "internal_error")


@override_settings(STORED_QUOTES_MAX_BYTES=0)
def test_only_an_uploaded_file_of_ones_own_is_quoted(api: Api, other: Api, nothing_done: Left) -> None:
    file_id = file_of(other, MIXED)
    error_of(api.post(QUOTE, {"input_file_id": file_id}), 404, "not_found", "input_file_id")
    error_of(api.post(QUOTE, {"input_file_id": file_id, "x": 1}), 400, "unsupported_parameter", "x")
    other.client.delete(f"/v1/files/{file_id}")
    default_storage.delete(f"files/{the_clock.now():%Y/%m/%d}/{file_id}.jsonl")


def test_bytes_that_are_lost_are_our_fault_and_no_quote(api: Api) -> None:
    with override_settings(STORED_QUOTES_MAX_BYTES=0):
        file_id = file_of(api, MIXED)
    assert content_of(api, file_id) == MIXED
    default_storage.delete(f"files/{the_clock.now():%Y/%m/%d}/{file_id}.jsonl")
    error_of(api.post(QUOTE, {"input_file_id": file_id}), 500, "internal_error")
    assert not Quote.objects.exists()


@override_settings(STORED_QUOTES_MAX_BYTES=2 * len(MIXED))
def test_open_quotes_keep_so_many_bytes_and_accepting_makes_room(api: Api, other: Api) -> None:
    first = api.post(QUOTE, MIXED, "application/jsonl").json()["id"]
    asked(api, MIXED)
    file_id = file_of(api, MIXED)
    for refused in (api.post(QUOTE, MIXED, "application/jsonl"), api.post(QUOTE, {"input_file_id": file_id})):
        message = error_of(refused, 429, "rate_limit_exceeded")["message"]
        assert f"{2 * len(MIXED)} bytes" in message
        assert refused["Retry-After"] == "59"
    assert other.post(QUOTE, MIXED, "application/jsonl").status_code == 201
    assert api.accept(first).status_code == 200
    assert api.post(QUOTE, MIXED, "application/jsonl").status_code == 201
