"""What an organisation may do in a minute, as its programs meet it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx2
import openai
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import ApiKey, Organisation
from accounts.services.organisations import create_api_key
from ground import clock as product_clock
from routing.services.admission import take_call
from routing.services.file_quotes import price_next_file
from tests.api.test_cases import API_CASES, steps_of, take
from tests.api.test_parallel import at_once
from tests.api.uploads import uploaded
from tests.api.world import Api, Left, error_of, left, lines_of, row
from tests.harness.clock import Clock
from tests.harness.world import Tenant


@pytest.fixture
def still(clock: Clock) -> Clock:
    """Time stands still, so that no bucket fills meanwhile."""
    clock.freeze(datetime.now(UTC).replace(microsecond=0))
    return clock


def allow(tenant: Tenant, **limits: int) -> None:
    Organisation.objects.filter(pk=tenant.organisation.pk).update(**limits)


def limits_of(response: Any, bucket: str) -> tuple[str, str, str]:
    limit, remaining, reset = (response[f"x-ratelimit-{name}-{bucket}"] for name in ("limit", "remaining", "reset"))
    return limit, remaining, reset


def test_every_answer_says_what_is_left(still: Clock, api: Api) -> None:
    answer = api.get("/v1/models")
    assert limits_of(answer, "requests") == ("600", "599", "100ms")
    assert limits_of(answer, "tokens") == ("50000000", "50000000", "0s")
    assert limits_of(api.get("/v1/batches/batch_nope"), "requests") == ("600", "598", "200ms")


def test_a_call_over_the_limit_waits_for_its_share_of_the_minute(still: Clock, api: Api) -> None:
    allow(api.tenant, calls_per_minute=3)
    assert [api.get("/v1/models").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = api.get("/v1/models")
    error_of(refused, 429, "rate_limit_exceeded")
    assert (refused["Retry-After"], limits_of(refused, "requests")) == ("20", ("3", "0", "20s"))
    still.advance(seconds=19.999)
    assert api.get("/v1/models").status_code == 429
    still.advance(seconds=0.001)
    assert [api.get("/v1/models").status_code for _ in range(2)] == [200, 429]


def test_tokens_are_debited_by_the_quote_that_needs_them_and_may_go_below_zero(still: Clock, api: Api) -> None:
    allow(api.tenant, input_tokens_per_minute=1_000)
    quoted = api.post("/v1/quotes/model", lines_of(row("a", "river " * 3_000)), "application/jsonl")
    tokens = quoted.json()["estimate"]["input_tokens"]
    assert tokens > 2_000
    # A thousand a minute: 60 ms each until it is full again.
    full_ms = tokens * 60
    assert quoted["x-ratelimit-remaining-tokens"] == "0"
    refused = api.get("/v1/models")
    error_of(refused, 429, "rate_limit_exceeded")
    wait_ms = full_ms + 60 - 60_000
    minutes, rest_ms = divmod(wait_ms, 60_000)
    assert refused["Retry-After"] == "59"
    assert refused["x-ratelimit-reset-tokens"] == f"{minutes}m{f'{rest_ms / 1000:.3f}'.rstrip('0').rstrip('.')}s"
    still.advance(milliseconds=wait_ms)
    assert api.get("/v1/models")["x-ratelimit-remaining-tokens"] == "1"


def test_an_answer_shows_the_tokens_of_its_own_quote(still: Clock, api: Api) -> None:
    quoted = api.post("/v1/quotes/model", lines_of(row("a", "river " * 50)), "application/jsonl")
    allow(api.tenant, input_tokens_per_minute=60_000)
    tokens = quoted.json()["estimate"]["input_tokens"]
    first = 50_000_000 - int(quoted["x-ratelimit-remaining-tokens"])
    assert tokens - 1 <= first <= tokens
    still.advance(minutes=1)
    again = api.post("/v1/quotes/model", lines_of(row("a", "river " * 50)), "application/jsonl")
    # At 60,000 a minute a token is a millisecond, so nothing is rounded.
    assert int(again["x-ratelimit-remaining-tokens"]) == 60_000 - tokens
    assert int(api.get("/v1/models")["x-ratelimit-remaining-tokens"]) == 60_000 - tokens


def test_a_quoted_file_is_debited_when_its_tokens_are_known(still: Clock, api: Api) -> None:
    allow(api.tenant, input_tokens_per_minute=60_000)
    file_id = uploaded(api)["id"]
    asked = api.post("/v1/quotes/model", {"input_file_id": file_id})
    assert (asked.status_code, asked["x-ratelimit-remaining-tokens"]) == (202, "60000")
    assert price_next_file()
    answer = api.get(f"/v1/quotes/{asked.json()['id']}")
    tokens = answer.json()["estimate"]["input_tokens"]
    assert int(answer["x-ratelimit-remaining-tokens"]) == 60_000 - tokens < 60_000


def test_a_refused_file_debits_no_tokens(still: Clock, api: Api) -> None:
    assert api.post("/v1/quotes/model", b"not json\n", "application/jsonl").status_code == 400
    assert limits_of(api.get("/v1/models"), "tokens") == ("50000000", "50000000", "0s")


def test_calls_are_counted_exactly_however_many_come_at_once(still: Clock, tenant: Tenant) -> None:
    allow(tenant, calls_per_minute=25)
    admitted = at_once([lambda: [take_call(tenant.key_text).limits.is_admitted for _ in range(10)]] * 6)
    assert sum(map(sum, admitted)) == 25


def test_an_accept_over_the_limit_holds_nothing_and_a_replay_takes_nothing(still: Clock, api: Api) -> None:
    allow(api.tenant, accepts_per_minute=1)
    first, second = (api.quote(row(name))["id"] for name in "ab")
    assert [api.accept(first).status_code for _ in range(3)] == [200] * 3
    before = left(api.tenant)
    (step,) = steps_of("186", Q1=second)
    refused = api.post(step["path"], step["json"])
    error_of(refused, int(API_CASES["186"]["status"]), "rate_limit_exceeded")
    assert (refused["Retry-After"], limits_of(refused, "accepts")) == ("59", ("1", "0", "1m0s"))
    assert left(api.tenant) == before
    still.advance(minutes=1)
    assert take(step | {"body": step["json"]}, api).status_code == 200
    # A batch by its file is an accept too.
    named = {"input_file_id": uploaded(api)["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    error_of(api.post("/v1/batches", named), 429, "rate_limit_exceeded")


def test_an_accept_that_lacks_credit_does_not_count(still: Clock, api: Api) -> None:
    allow(api.tenant, accepts_per_minute=1)
    dear = api.quote(*[row(f"{n}", model="gpt-4o", max_tokens=16_000, n=16) for n in range(100)])["id"]
    assert [api.accept(dear).status_code for _ in range(2)] == [402, 402]
    assert api.accept(api.quote(row("a"))["id"]).status_code == 200


def test_a_test_twin_has_its_own_limits(still: Clock, api: Api) -> None:
    twin = api.tenant.organisation.test_twin
    key, new = create_api_key(organisation=twin, name="test", at=product_clock.now())
    twin_api = Api(Tenant(organisation=twin, api_key=key, key_text=new.text))
    allow(api.tenant, calls_per_minute=1)
    assert [api.get("/v1/models").status_code for _ in range(2)] == [200, 429]
    assert limits_of(twin_api.get("/v1/models"), "requests") == ("600", "599", "100ms")


def test_a_refused_call_is_neither_read_nor_done(still: Clock, api: Api, nothing_done: Left) -> None:
    allow(api.tenant, calls_per_minute=1)
    api.get("/v1/models")
    assert api.post("/v1/quotes/model", lines_of(row("a")), "application/jsonl").status_code == 429


def test_a_quote_is_two_statements(api: Api) -> None:
    api.quote(row("a"))
    with CaptureQueriesContext(
        connection,
    ) as captured:
        api.quote(row("a"))
    assert [query["sql"].split()[0] for query in captured] == ["SELECT", "INSERT"], captured.captured_queries


def test_last_use_is_written_once_a_minute(still: Clock, api: Api) -> None:
    def last_used_at() -> datetime | None:
        api.get("/v1/models")
        return ApiKey.objects.get(pk=api.tenant.api_key.pk).last_used_at

    first = still.now()
    assert last_used_at() == first
    still.advance(seconds=59)
    assert last_used_at() == first
    still.advance(seconds=1)
    assert last_used_at() == still.now()


class ObedientSdk(openai.OpenAI):
    """The SDK as it is, but that time passes when it would sleep."""

    clock: Clock
    slept: list[float]

    def _sleep_for_retry(self, *, retries_taken: int, max_retries: int, options: Any, response: Any) -> None:
        seconds = self._calculate_retry_timeout(
            max_retries - retries_taken, options, response.headers if response else None
        )
        self.slept.append(seconds)
        self.clock.advance(seconds=seconds)


def test_the_official_sdk_waits_as_long_as_it_is_told(still: Clock, live_api: str, tenant: Tenant) -> None:
    allow(tenant, calls_per_minute=2)
    with ObedientSdk(api_key=tenant.key_text, base_url=live_api, max_retries=1) as sdk:
        sdk.clock, sdk.slept = still, []
        for _ in range(4):
            assert sdk.get("/models", cast_to=httpx2.Response).status_code == 200
    assert sdk.slept == [30.0, 30.0]
