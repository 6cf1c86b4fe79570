"""A retry of the official SDK that overtakes its own first try: on real sockets, both are one call."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import psycopg
import pytest

from routing.models import Batch, FilePricing, StoredFile
from tests.api.uploads import uploaded
from tests.api.world import Api, lines_of, row
from tests.harness.world import Tenant

LOOKS = 200_000
FILE = lines_of(row("a"), row("b"))


class StuckCall:
    """A call of which the server has the head and half of the body."""

    def __init__(self, request: httpx2.Request, cursor: psycopg.Cursor) -> None:
        self._body = request.read()
        self._connection = http.client.HTTPConnection(urlsplit(str(request.url)).netloc, timeout=60)
        before = calls_counted(cursor)
        self._connection.putrequest(request.method, request.url.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            self._connection.putheader(name, value)
        self._connection.endheaders(self._body[: len(self._body) // 2])
        # It is counted once its head has come, and then waits for the rest.
        assert any(calls_counted(cursor) != before for _ in range(LOOKS)), "the call did not begin"

    def finish(self) -> tuple[dict[str, Any], bool]:
        """Send the rest; give the answer, and whether it is said again."""
        self._connection.send(self._body[len(self._body) // 2 :])
        answer = self._connection.getresponse()
        content = answer.read()
        self._connection.close()
        assert answer.status == 200, content
        return json.loads(content), answer.getheader("idempotent-replayed") == "true"


class GetsStuck(httpx2.HTTPTransport):
    """A way to the server on which the first tries of each call get stuck, until the SDK gives up waiting for them."""

    def __init__(self, cursor: psycopg.Cursor) -> None:
        super().__init__()
        self._cursor = cursor
        self.stuck: list[StuckCall] = []
        self.is_open = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_open or request.headers["x-stainless-retry-count"] != "0":
            return super().handle_request(request)
        self.stuck.append(StuckCall(request, self._cursor))
        raise httpx2.ReadTimeout("the server takes too long", request=request)


def calls_counted(cursor: psycopg.Cursor) -> Any:
    return cursor.execute("SELECT full_at FROM accounts_ratebucket WHERE kind = 'requests'").fetchall()


@pytest.fixture
def transport(app_cursor: psycopg.Cursor) -> GetsStuck:
    return GetsStuck(app_cursor)


@pytest.fixture
def sdk(live_api: str, tenant: Tenant, transport: GetsStuck) -> Iterator[openai.OpenAI]:
    http_client = openai.DefaultHttpxClient(transport=transport)
    with openai.OpenAI(api_key=tenant.key_text, base_url=live_api, http_client=http_client) as client:
        yield client


def wanted(file_id: str) -> dict[str, Any]:
    return {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}


def test_a_first_create_that_its_retry_overtook_gives_the_same_batch(
    sdk: openai.OpenAI, api: Api, transport: GetsStuck
) -> None:
    batch = sdk.batches.create(**wanted(uploaded(api)["id"]))
    (first,) = transport.stuck
    answer, is_said_again = first.finish()
    assert (answer["id"], is_said_again) == (batch.id, True)
    assert Batch.objects.get().overtook_at is None
    assert FilePricing.objects.count() == 1


def test_a_first_upload_that_its_retry_overtook_gives_the_same_file(sdk: openai.OpenAI, transport: GetsStuck) -> None:
    stored = sdk.files.create(file=("rows.jsonl", FILE), purpose="batch")
    (first,) = transport.stuck
    answer, is_said_again = first.finish()
    assert (answer["id"], is_said_again) == (stored.id, True)
    assert StoredFile.objects.get().overtook_at is None
    assert FilePricing.objects.count() == 1


def test_what_a_program_asks_for_after_the_retrys_answer_is_another_batch_and_another_file(
    sdk: openai.OpenAI, transport: GetsStuck
) -> None:
    stored = sdk.files.create(file=("rows.jsonl", FILE), purpose="batch")
    batch = sdk.batches.create(**wanted(stored.id))
    transport.is_open = True
    assert sdk.files.create(file=("rows.jsonl", FILE), purpose="batch").id != stored.id
    assert sdk.batches.create(**wanted(stored.id)).id != batch.id
    assert [stuck.finish()[0]["id"] for stuck in transport.stuck] == [stored.id, batch.id]
    assert (StoredFile.objects.count(), Batch.objects.count()) == (2, 2)


def test_two_equal_calls_of_which_one_was_repeated_stay_two(sdk: openai.OpenAI, api: Api, transport: GetsStuck) -> None:
    create = sdk.with_options(max_retries=0).batches.create
    asked = wanted(uploaded(api)["id"])
    for _ in range(2):
        with pytest.raises(openai.APITimeoutError):
            create(**asked)
    batch = create(**asked, extra_headers={"x-stainless-retry-count": "1"})
    ids = [stuck.finish()[0]["id"] for stuck in transport.stuck]
    assert ids[0] == batch.id
    assert ids[1] != batch.id
    assert Batch.objects.count() == 2
