"""The same request gets the same answer, with counts that the independent tokenizer confirms."""

import base64
import struct
from typing import Any

import pytest
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from simulators.tokenizer import count_text
from tests.simulators.driver import Driver, chat_row

EMBEDDINGS = "/v1/embeddings"
RESPONSES = "/v1/responses"


def row(url: str, **body: Any) -> dict[str, Any]:
    return {"custom_id": "row", "method": "POST", "url": url, "body": body}


def test_a_chat_answer_fits_the_sdk_type(driver: Driver) -> None:
    answer = ChatCompletion.model_validate(driver.answer(chat_row("row")), strict=True)
    assert answer.choices[0].finish_reason == "stop"
    text = answer.choices[0].message.content or ""
    assert answer.usage is not None
    assert answer.usage.completion_tokens == count_text("o200k_base", text)
    assert answer.usage.prompt_tokens == 3 + 4 + 6
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_the_answer_depends_on_model_and_messages_alone(driver: Driver) -> None:
    def text(**body: Any) -> str:
        said: str = driver.answer(chat_row("row", **body))["choices"][0]["message"]["content"]
        return said

    assert text() == text()
    assert text() == text(temperature=0.5)
    assert text() != text(model="gpt-4o")
    assert text() != text(content="Name a river in Italy.")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_output_limit_cuts_the_answer(driver: Driver, name: str) -> None:
    short: dict[str, Any] = {name: 5}
    ample: dict[str, Any] = {name: 4_000}
    whole, cut = driver.answer(chat_row("row")), driver.answer(chat_row("row", **short))
    assert (cut["usage"]["completion_tokens"], cut["choices"][0]["finish_reason"]) == (5, "length")
    assert whole["choices"][0]["message"]["content"].startswith(cut["choices"][0]["message"]["content"])
    assert driver.answer(chat_row("row", **ample))["choices"] == whole["choices"]


def test_each_choice_is_counted(driver: Driver) -> None:
    answer = driver.answer(chat_row("row", n=3))
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert len(set(texts)) == 3
    assert answer["usage"]["completion_tokens"] == sum(count_text("o200k_base", text) for text in texts)


def test_a_responses_answer_fits_the_sdk_type(driver: Driver) -> None:
    asked = row(RESPONSES, model="gpt-4.1", instructions="Be brief.", input="Name a river in Spain.")
    answer = Response.model_validate(driver.answer(asked))
    assert (answer.status, answer.error, answer.incomplete_details) == ("completed", None, None)
    assert answer.usage is not None
    assert answer.usage.input_tokens == 3 + (4 + 3) + (4 + 6)
    assert answer.usage.output_tokens == count_text("o200k_base", answer.output_text)


def test_a_responses_answer_can_be_cut(driver: Driver) -> None:
    said = [{"role": "user", "content": [{"type": "input_text", "text": "Name a river in Spain."}]}]
    answer = Response.model_validate(driver.answer(row(RESPONSES, model="gpt-4.1", input=said, max_output_tokens=4)))
    assert answer.status == "incomplete"
    assert (answer.incomplete_details and answer.incomplete_details.reason) == "max_output_tokens"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3 + 4 + 6, 4)


def test_embeddings_are_unit_vectors_and_deterministic(driver: Driver) -> None:
    asked = row(EMBEDDINGS, model="text-embedding-3-small", input=["A river.", "A bridge.", "A river."])
    body = driver.answer(asked)
    answer = CreateEmbeddingResponse.model_validate(body, strict=True)
    vectors = [each.embedding for each in answer.data]
    assert vectors[0] == vectors[2] != vectors[1]
    assert len(vectors[0]) == 1536
    assert sum(each * each for each in vectors[0]) == pytest.approx(1)
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (9, 9)
    assert "completion_tokens" not in body["usage"]


def test_embeddings_can_be_short_and_base64(driver: Driver) -> None:
    asked = row(EMBEDDINGS, model="text-embedding-3-small", input="A river.", dimensions=8)
    plain = driver.answer(asked)["data"][0]["embedding"]
    asked["body"]["encoding_format"] = "base64"
    packed = base64.b64decode(driver.answer(asked)["data"][0]["embedding"])
    assert list(struct.unpack("<8f", packed)) == plain


def test_embedding_input_may_be_tokens(driver: Driver) -> None:
    asked = row(EMBEDDINGS, model="text-embedding-3-small", input=[1, 2, 3], dimensions=4)
    answer = driver.answer(asked)
    assert (len(answer["data"]), answer["usage"]["prompt_tokens"]) == (1, 3)


def test_a_legacy_completion_stops_at_sixteen_tokens(driver: Driver) -> None:
    asked = row("/v1/completions", model="gpt-3.5-turbo-instruct", prompt="Name a river in Spain.")
    answer = Completion.model_validate(driver.answer(asked), strict=True)
    assert (answer.usage and answer.usage.prompt_tokens) == 6
    assert (answer.usage and answer.usage.completion_tokens) == 16


@pytest.mark.parametrize(
    ("marker", "member", "value"),
    [
        ("[[sim:cached=7]]", ("prompt_tokens_details", "cached_tokens"), 7),
        ("[[sim:reasoning=30]]", ("completion_tokens_details", "reasoning_tokens"), 30),
    ],
)
def test_cached_and_reasoning_tokens_come_on_demand(
    driver: Driver, marker: str, member: tuple[str, str], value: int
) -> None:
    usage = driver.answer(chat_row("row", f"Name a river in Spain. {marker}"))["usage"]
    assert usage[member[0]][member[1]] == value
    assert usage["completion_tokens"] >= usage["completion_tokens_details"]["reasoning_tokens"]


def test_cached_tokens_never_exceed_the_input(driver: Driver) -> None:
    batch = driver.run([chat_row("row", "[[sim:cached=9999]]")])
    usage = driver.outputs(batch)["row"]["response"]["body"]["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"]
    assert (batch.usage and batch.usage.input_tokens_details.cached_tokens) == usage["prompt_tokens"]


def test_reasoning_eats_the_limit_first(driver: Driver) -> None:
    answer = driver.answer(chat_row("row", "[[sim:reasoning=30]]", max_completion_tokens=20))
    assert answer["choices"][0]["message"]["content"] == ""
    assert answer["usage"]["completion_tokens"] == 20
    assert answer["choices"][0]["finish_reason"] == "length"


def test_the_length_of_an_answer_can_be_asked_for(driver: Driver) -> None:
    assert driver.answer(chat_row("row", "[[sim:tokens=777]]"))["usage"]["completion_tokens"] == 777


def test_the_model_is_served_under_its_snapshot(driver: Driver) -> None:
    driver.control.change_settings(snapshots={"gpt-4o-mini": "gpt-4o-mini-2024-07-18"})
    assert driver.answer(chat_row("row"))["model"] == "gpt-4o-mini-2024-07-18"


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"messages": None}, "missing_required_parameter", "messages"),
        ({"messages": []}, "empty_array", "messages"),
        ({"messages": "x"}, "invalid_type", "messages"),
        ({"max_tokens": 0}, "integer_below_min_value", "max_tokens"),
        ({"max_completion_tokens": "many"}, "invalid_type", "max_completion_tokens"),
        ({"n": 129}, "integer_above_max_value", "n"),
    ],
)
def test_a_row_that_breaks_a_rule_is_refused_alone(
    driver: Driver, change: dict[str, Any], code: str, param: str
) -> None:
    batch = driver.run([chat_row("good"), chat_row("bad", **change)])
    refused = driver.errors(batch)["bad"]
    assert (batch.status, list(driver.outputs(batch)), refused["error"]) == ("completed", ["good"], None)
    assert refused["response"]["status_code"] == 400
    error = refused["response"]["body"]["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)


def test_a_row_beyond_the_context_window_is_refused(driver: Driver) -> None:
    driver.control.change_settings(context_window_tokens={"gpt-4o-mini": 20})
    batch = driver.run([chat_row("fits", max_tokens=7), chat_row("long", max_tokens=8)])
    assert list(driver.outputs(batch)) == ["fits"]
    assert driver.errors(batch)["long"]["response"]["body"]["error"]["code"] == "context_length_exceeded"
