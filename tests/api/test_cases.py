"""Cases from real life, asked over HTTP: those of the API, and those that a quote decides, on to their results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accounts.models import Organisation
from simulators.running import RunningSimulator
from tests.api.uploads import part, uploaded
from tests.api.world import Api, lines_of, row

FOLDER = Path(__file__).resolve().parents[1] / "cases"


def cases_in(folder: str) -> dict[str, dict[str, Any]]:
    lines = (FOLDER / folder / "expect.jsonl").read_text("utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


API_CASES = cases_in("api")
QUOTE_CASES = {
    case_id: case for case_id, case in cases_in("quote").items() if case["probe"] == "quote" and "also_ok" not in case
}
# Only the stand-in OpenAI runs here; rows for Claude go on to their results in the engine's own scenarios.
ACCEPTED = sorted(
    case_id
    for case_id, case in QUOTE_CASES.items()
    if case["outcome"] == "accepted" and "claude" not in (FOLDER / "quote" / case["input"]).read_text("utf-8")
)
REJECTED = sorted(case_id for case_id, case in QUOTE_CASES.items() if case["outcome"] == "rejected")


def steps_of(case_id: str, **filled: str) -> list[dict[str, Any]]:
    """Give a case's steps with its ``{{NAME}}`` filled in."""
    text = (FOLDER / "api" / API_CASES[case_id]["input"]).read_text("utf-8")
    for name, value in filled.items():
        text = text.replace("{{" + name + "}}", value)
    steps: list[dict[str, Any]] = json.loads(text)["steps"]
    return steps


def take(step: dict[str, Any], api: Api) -> Any:
    if step["method"] == "GET":
        return api.get(step["path"])
    return api.post(step["path"], step.get("body", {}))


def test_189_a_foreign_batch_is_not_found(api: Api, other: Api) -> None:
    batch_id = api.accept(api.quote(row("a"))["id"]).json()["id"]
    (step,) = steps_of("189", BATCH_A=batch_id)
    response = take(step, other)
    assert (response.status_code, response.json()["error"]["code"]) == (404, API_CASES["189"]["code"])


def test_204_unknown_ids_are_not_found_everywhere(api: Api) -> None:
    answers = [take(step, api) for step in steps_of("204")]
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [(404, "not_found")] * 4


def test_207_no_other_window_is_taken(api: Api) -> None:
    answers = [take(step, api) for step in steps_of("207", FILE_A="file-nope")]
    assert [(answer.status_code, answer.json()["error"]["param"]) for answer in answers] == [
        (400, API_CASES["207"]["param"])
    ] * 4


def test_192_no_form_of_a_providers_id_is_shown(api: Api, run: Callable[[], None]) -> None:
    batch_id = api.accept(api.quote(row("a"), row("b", "[[sim:fail]]"))["id"]).json()["id"]
    run()
    batch = api.batch(batch_id)
    scan = json.loads((FOLDER / "api" / API_CASES["192"]["input"]).read_text("utf-8"))
    shown = json.dumps(
        [
            api.get("/v1/batches").json(),
            batch,
            api.lines(f"/v1/files/{batch['output_file_id']}/content"),
            api.lines(f"/v1/files/{batch['error_file_id']}/content"),
            api.get(f"/v1/batches/{batch_id}/receipt").json(),
        ]
    )
    assert not [each for each in scan["provider_ids"] if each in shown]


def test_213_every_id_of_a_file_works_where_it_is_taken(api: Api, run: Callable[[], None]) -> None:
    sent = uploaded(
        api, part("purpose", "batch"), part("file", lines_of(row("a"), row("b", "[[sim:fail]]")), "b.jsonl")
    )
    wanted = {"input_file_id": sent["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch_id = api.post("/v1/batches", wanted).json()["id"]
    run()
    batch = api.batch(batch_id)
    assert api.get(sent["quote"]["url"]).json()["batch_id"] == batch_id
    assert len(api.lines(f"/v1/files/{sent['id']}/content")) == 2
    assert api.client.delete(f"/v1/files/{sent['id']}").json()["deleted"] is True
    for file_id in (batch["output_file_id"], batch["error_file_id"]):
        assert len(file_id) <= 64
        assert api.get(f"/v1/files/{file_id}").json()["id"] == file_id
        assert len(api.lines(f"/v1/files/{file_id}/content")) == 1
        assert api.client.delete(f"/v1/files/{file_id}").json()["deleted"] is True


def test_198_the_owner_and_nobody_else_finds_the_output_in_the_list_of_files(
    api: Api, other: Api, run: Callable[[], None]
) -> None:
    batch_id = api.accept(api.quote(row("a"), row("b", "[[sim:fail]]"))["id"]).json()["id"]
    run()
    batch = api.batch(batch_id)
    (step,) = steps_of("198")
    listed = take(step, api).json()["data"]
    assert {each["id"] for each in listed} >= {batch["output_file_id"], batch["error_file_id"]}
    assert {each["purpose"] for each in listed} == {"batch_output"}
    assert take(step, other).json()["data"] == []


def test_183_a_batch_of_5000_rows_is_one_call(api: Api) -> None:
    recipe = json.loads((FOLDER / "quote" / "183-big-batch-vs-rpm.json").read_text("utf-8"))
    per_minute = recipe["limits"]["requests_per_minute"]
    Organisation.objects.filter(pk=api.tenant.organisation.pk).update(calls_per_minute=per_minute)
    rows = [json.loads(json.dumps(recipe["row"]).replace("{i}", str(number))) for number in range(recipe["rows"])]
    quote = api.quote(*rows)
    assert (quote["row_count"], quote["model_count"]) == (5_000, 1)
    assert api.accept(quote["id"]).status_code == 200


@pytest.mark.parametrize("case_id", REJECTED)
def test_a_file_that_must_be_refused_is(api: Api, case_id: str) -> None:
    case = QUOTE_CASES[case_id]
    response = api.post("/v1/quotes/model", (FOLDER / "quote" / case["input"]).read_bytes(), "application/jsonl")
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, case["code"])
    lines = [each["line"] for each in error["errors"] if each["line"] is not None]
    assert lines == case.get("lines", lines)


@pytest.mark.parametrize("case_id", ACCEPTED)
def test_a_file_that_must_be_taken_comes_back_row_by_row(
    api: Api, simulator: RunningSimulator, run: Callable[[], None], case_id: str
) -> None:
    case = QUOTE_CASES[case_id]
    content = (FOLDER / "quote" / case["input"]).read_bytes()
    response = api.post("/v1/quotes/model", content, "application/jsonl")
    assert response.status_code == 201, response.content
    assert (response.json()["row_count"], response.json()["model_count"]) == (case["rows"], case["models"])
    batch_id = api.accept(response.json()["id"]).json()["id"]
    run()
    sent = [json.loads(line)["custom_id"] for line in content.split(b"\n") if line.strip()]
    assert [line["custom_id"] for line in api.lines(f"/v1/batches/{batch_id}/results")] == sent
