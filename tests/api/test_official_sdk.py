"""The official ``openai`` SDK against the API on a real socket: it must not notice that we are not OpenAI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

import httpx2
import openai
import pytest

from routing.models import Batch
from tests.api.uploads import uploaded
from tests.api.world import Api, lines_of, row
from tests.harness.clock import Clock
from tests.harness.world import Tenant

CHAT: Literal["/v1/chat/completions"] = "/v1/chat/completions"


@pytest.fixture
def sdk(live_api: str, tenant: Tenant) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        api_key=tenant.key_text, base_url=live_api, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def create(sdk: openai.OpenAI, quote_id: str, **arguments: object) -> openai.types.Batch:
    """Accept a quote as a program does that was written for OpenAI: the SDK insists on a file id."""
    return sdk.batches.create(
        input_file_id=quote_id,
        endpoint=CHAT,
        completion_window="24h",
        extra_body={"quote_id": quote_id},
        **arguments,  # type: ignore[arg-type]  # the SDK types each
    )


def quote_over_http(sdk: openai.OpenAI, *rows: dict[str, object]) -> str:
    response = sdk.post(
        "/quotes/model",
        cast_to=httpx2.Response,
        content=lines_of(*rows),
        options={"headers": {"Content-Type": "application/jsonl"}},
    )
    return str(response.json()["id"])


class LosesAnswers(httpx2.HTTPTransport):
    """A way to the server on which the first answers to each create are lost after the server has given them."""

    def __init__(self, lost_count: int = 2) -> None:
        super().__init__()
        self._lost_count = lost_count
        self.retry_counts: list[str] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        if request.method != "POST" or request.url.path.endswith("/model"):
            return response
        response.read()
        self.retry_counts.append(request.headers["x-stainless-retry-count"])
        if len(self.retry_counts) > self._lost_count:
            return response
        return httpx2.Response(503, headers={"retry-after-ms": "1"})


@pytest.fixture
def losing(live_api: str, tenant: Tenant) -> Iterator[tuple[openai.OpenAI, LosesAnswers]]:
    """The SDK as it comes, retries included."""
    transport = LosesAnswers()
    http_client = openai.DefaultHttpxClient(transport=transport)
    with openai.OpenAI(api_key=tenant.key_text, base_url=live_api, http_client=http_client) as client:
        yield client, transport


def test_three_posts_of_one_accept_are_one_batch(losing: tuple[openai.OpenAI, LosesAnswers]) -> None:
    sdk, transport = losing
    batch = create(sdk, quote_over_http(sdk, row("a")), metadata={"run": "7"})
    assert transport.retry_counts == ["0", "1", "2"]
    assert [each.id for each in sdk.batches.list()] == [batch.id]


def test_three_posts_of_one_create_by_file_are_one_batch(
    losing: tuple[openai.OpenAI, LosesAnswers], api: Api, clock: Clock
) -> None:
    sdk, transport = losing
    file_id = uploaded(api)["id"]
    wanted: dict[str, Any] = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    batch = sdk.batches.create(**wanted)
    assert transport.retry_counts == ["0", "1", "2"]
    assert [each.id for each in sdk.batches.list()] == [batch.id]
    # Asked anew by a program, and not again by the SDK, it is another batch.
    anew = sdk.batches.create(**wanted)
    assert anew.id != batch.id
    again = {"x-stainless-retry-count": "1"}
    assert sdk.batches.create(**wanted, extra_headers=again).id == anew.id
    assert sdk.batches.create(**wanted, metadata={"run": "8"}, extra_headers=again).id not in {batch.id, anew.id}
    clock.advance(minutes=16)
    assert sdk.batches.create(**wanted, extra_headers=again).id not in {batch.id, anew.id}
    assert Batch.objects.count() == 4


def test_three_posts_of_one_upload_are_one_file(losing: tuple[openai.OpenAI, LosesAnswers]) -> None:
    sdk, transport = losing
    stored = sdk.files.create(file=("rows.jsonl", lines_of(row("a"))), purpose="batch")
    assert transport.retry_counts == ["0", "1", "2"]
    assert [each.id for each in sdk.files.list()] == [stored.id]


def test_a_quote_is_accepted_by_its_id_beside_the_sdks_fields(sdk: openai.OpenAI) -> None:
    quote_id = quote_over_http(sdk, row("a"), row("b"))
    batch = create(sdk, quote_id, metadata={"run": "7"})
    assert (batch.object, batch.status, batch.endpoint, batch.completion_window) == (
        "batch",
        "in_progress",
        CHAT,
        "24h",
    )
    assert batch.request_counts is not None
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (2, 0, 0)
    assert (batch.metadata, batch.input_file_id, batch.errors) == ({"run": "7"}, quote_id, None)
    assert sdk.batches.retrieve(batch.id) == batch


def test_a_quote_named_in_the_metadata_decides_too(sdk: openai.OpenAI) -> None:
    quote_id = quote_over_http(sdk, row("a"))
    arguments = {"endpoint": CHAT, "completion_window": "24h", "metadata": {"quote_id": quote_id}}
    first = sdk.batches.create(input_file_id=quote_id, **arguments)  # type: ignore[arg-type]  # as above
    again = sdk.batches.with_raw_response.create(input_file_id=quote_id, **arguments)  # type: ignore[arg-type]
    assert first.status == "in_progress"
    assert again.parse().id == first.id
    assert again.headers["idempotent-replayed"] == "true"


def test_the_output_is_read_and_counted_as_openais(sdk: openai.OpenAI, run: Callable[[], None]) -> None:
    batch_id = create(sdk, quote_over_http(sdk, row("a"), row("b", "[[sim:fail]]"))).id
    run()
    batch = sdk.batches.retrieve(batch_id)
    assert (batch.status, batch.model) == ("completed", "gpt-4o-mini")
    assert batch.output_file_id is not None
    assert batch.error_file_id is not None
    (line,) = map(json.loads, sdk.files.content(batch.output_file_id).text.splitlines())
    answer = openai.types.chat.ChatCompletion.model_validate(line["response"]["body"])
    assert answer.usage is not None
    assert batch.usage is not None
    assert batch.usage.total_tokens == answer.usage.total_tokens
    facts = sdk.files.retrieve(batch.error_file_id)
    assert (facts.purpose, facts.bytes) == ("batch_output", len(sdk.files.content(batch.error_file_id).content))


def test_a_long_list_is_paged_through_to_its_end(sdk: openai.OpenAI, api: Api, clock: Clock) -> None:
    ids: list[str] = []
    for number in range(7):
        ids.insert(0, api.accept(api.quote(row(f"a{number}"))["id"]).json()["id"])
        clock.advance(seconds=1)
    assert [batch.id for batch in sdk.batches.list(limit=3)] == ids
    page = sdk.batches.list(limit=5, after=ids[0])
    assert ([batch.id for batch in page.data], page.has_more) == (ids[1:6], True)
    assert [batch.id for batch in page.get_next_page().data] == ids[6:]


def test_a_list_is_narrowed_as_the_sdk_writes_it(sdk: openai.OpenAI) -> None:
    first, second = (create(sdk, quote_over_http(sdk, row("a")), metadata={"run": run}) for run in ("7", "8"))
    wanted = {"status": ["in_progress", "completed"], "metadata": {"run": "7"}, "created_at": {"gte": first.created_at}}
    assert [batch.id for batch in sdk.batches.list(extra_query=wanted)] == [first.id]
    assert [batch.id for batch in sdk.batches.list(extra_query={"created_at": {"gt": second.created_at}})] == []


def test_an_empty_list_ends(sdk: openai.OpenAI) -> None:
    assert list(sdk.batches.list()) == []


def test_models_are_listed_and_found_by_every_name(sdk: openai.OpenAI) -> None:
    assert "gpt-4o-mini" in {model.id for model in sdk.models.list()}
    model = sdk.models.retrieve("gpt-4o-mini")
    assert (model.object, model.owned_by) == ("model", "openai")


def test_a_refused_file_is_a_bad_request_with_code_and_request_id(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        quote_over_http(sdk, row("a"), row("a"))
    assert (caught.value.code, caught.value.param) == ("duplicate_custom_id", "custom_id")
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id is not None
    assert caught.value.request_id.startswith("req_")
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["doc_url"] == "/docs/errors#duplicate_custom_id"
    assert caught.value.body["duplicates"] == [{"custom_id": "a", "count": 2, "rows": [0, 1], "lines": [1, 2]}]


def test_errors_are_the_sdks_own_classes(sdk: openai.OpenAI, live_api: str) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.batches.retrieve("batch_nope")
    assert missing.value.code == "not_found"
    with pytest.raises(openai.NotFoundError):
        sdk.files.content("file-nope")
    with pytest.raises(openai.NotFoundError):
        sdk.batches.cancel("batch_nope")
    stranger = openai.OpenAI(api_key="sk-wrong", base_url=live_api, max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError) as refused:
        stranger.models.list()
    assert refused.value.code == "invalid_api_key"


def test_another_body_for_a_used_quote_is_a_bad_request(sdk: openai.OpenAI) -> None:
    quote_id = quote_over_http(sdk, row("a"))
    create(sdk, quote_id)
    with pytest.raises(openai.BadRequestError) as caught:
        create(sdk, quote_id, metadata={"run": "8"})
    assert caught.value.code == "quote_already_used"


def test_a_lack_of_credit_is_a_402_with_its_figures(sdk: openai.OpenAI) -> None:
    quote_id = quote_over_http(sdk, *[row(f"{n}", model="gpt-4o", max_tokens=16_000, n=16) for n in range(100)])
    with pytest.raises(openai.APIStatusError) as caught:
        create(sdk, quote_id)
    assert (caught.value.status_code, caught.value.code) == (402, "insufficient_credit")
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["available_micro_usd"] == 100_000_000


def test_a_program_written_for_openai_sends_a_file_and_reads_its_results(
    sdk: openai.OpenAI, run: Callable[[], None]
) -> None:
    file = sdk.files.create(file=lines_of(row("a"), row("b")), purpose="batch")
    batch = sdk.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert (batch.status, batch.input_file_id) == ("validating", file.id)
    run()
    ended = sdk.batches.retrieve(batch.id)
    assert ended.status == "completed"
    assert ended.output_file_id is not None
    lines = sdk.files.content(ended.output_file_id).text.splitlines()
    assert [json.loads(line)["custom_id"] for line in lines] == ["a", "b"]


def test_a_program_written_for_openai_reads_what_is_wrong_with_its_file(
    sdk: openai.OpenAI, run: Callable[[], None]
) -> None:
    file = sdk.files.create(file=lines_of(row("a"), row("a")), purpose="batch")
    batch = sdk.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    run()
    failed = sdk.batches.retrieve(batch.id)
    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data is not None
    assert [(error.code, error.line, error.param) for error in failed.errors.data] == [
        ("duplicate_custom_id", 2, "custom_id")
    ]
