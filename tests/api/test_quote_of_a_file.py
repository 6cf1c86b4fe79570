"""The quote that an upload answers with, and how it reaches a program that knows the stock SDK alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from routing.models import Batch, FilePricing, Quote, StoredFile
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from routing.services.retention import sweep_files
from tests.api.test_file_batches import CHAT, ROWS
from tests.api.uploads import part, upload, uploaded
from tests.api.world import Api, error_of, lines_of, row
from tests.harness.clock import Clock
from tests.harness.laws import assert_laws

FILE = part("file", ROWS, "rows.jsonl")


def sent(api: Api, file_id: str, **body: Any) -> dict[str, Any]:
    wanted = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h", **body}
    response = api.post("/v1/batches", wanted)
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def test_a_batch_runs_under_the_quote_that_its_file_was_shown_with(
    api: Api, run: Callable[[], None], clock: Clock
) -> None:
    file = uploaded(api, part("purpose", "batch"), FILE)
    quote_id = file["quote"]["id"]
    assert file["quote"] == {
        "id": quote_id,
        "object": "quote",
        "status": "pending",
        "url": f"/v1/quotes/{quote_id}",
        "expires_at": None,
        "total_micro_usd": None,
    }
    assert api.get(f"/v1/files/{file['id']}").json() == file
    assert price_next_file()
    quote = api.get(file["quote"]["url"]).json()
    shown = api.get(f"/v1/files/{file['id']}").json()["quote"]
    assert (shown["status"], shown["expires_at"]) == ("ready", quote["expires_at"])
    assert shown["total_micro_usd"] == quote["estimate"]["total_micro_usd"]
    batch = sent(api, file["id"])
    assert (batch["status"], batch["quote_id"]) == ("validating", quote_id)
    # Nothing is read again, and the price stands however long the engine takes.
    assert not price_next_file()
    clock.advance(hours=3)
    run()
    ended = api.batch(batch["id"])
    assert (ended["status"], ended["request_counts"]["total"]) == ("completed", 3)
    assert ended["charge_micro_usd"] <= quote["estimate"]["ceiling_micro_usd"]
    assert api.get("/v1/files?purpose=batch").json()["data"][0]["quote"]["status"] == "accepted"
    assert api.get("/v1/files?purpose=batch_output").json()["data"][0]["quote"] is None
    assert_laws(batch["id"])


def test_a_second_batch_a_late_one_and_one_of_another_workflow_have_a_new_quote(api: Api, clock: Clock) -> None:
    api.post("/v1/workflows", {"name": "night", "penalty_micro_usd_per_minute": 0})
    file = uploaded(api, part("purpose", "batch"), FILE)
    # While it is being priced, asking is the same quote; under another workflow it is not.
    assert api.post("/v1/quotes/model", {"input_file_id": file["id"]}).json()["id"] == file["quote"]["id"]
    first, second = sent(api, file["id"]), sent(api, file["id"])
    assert first["quote_id"] == file["quote"]["id"] != second["quote_id"]
    assert price_next_file()
    assert price_next_file()
    late = uploaded(api, part("purpose", "batch"), FILE)
    assert price_next_file()
    clock.advance(minutes=31)
    assert api.get(f"/v1/files/{late['id']}").json()["quote"]["status"] == "expired"
    assert sent(api, late["id"])["quote_id"] != late["quote"]["id"]
    for body in ({"workflow": "night"}, {"metadata": {"workflow": "night"}}):
        file = uploaded(api, part("purpose", "batch"), FILE)
        quote_id = sent(api, file["id"], **body)["quote_id"]
        assert (quote_id == file["quote"]["id"], Quote.objects.get(public_id=quote_id).workflow) == (False, "night")
    # A file that was uploaded under a workflow, or asked about under one, has its batch under it.
    file = uploaded(api, part("purpose", "batch"), part("workflow", "night"), FILE)
    asked_id = uploaded(api, part("purpose", "batch"), FILE)["id"]
    asked = api.post("/v1/quotes/model?workflow=night", {"input_file_id": asked_id}).json()
    assert sent(api, file["id"])["quote_id"] == file["quote"]["id"]
    assert sent(api, asked_id)["quote_id"] == asked["id"]
    assert sent(api, asked_id, workflow="night")["quote_id"] != asked["id"]
    error_of(upload(api, part("purpose", "batch"), part("workflow", "day"), FILE), 404, "not_found", "workflow")
    wanted = {"input_file_id": asked_id, "endpoint": CHAT, "completion_window": "24h"}
    error_of(api.post("/v1/batches", {**wanted, "workflow": "day"}), 404, "not_found", "workflow")
    error_of(api.accept(api.quote(row("a"))["id"], workflow="night"), 400, "invalid_value", "workflow")


@pytest.mark.parametrize("begun", [False, True])
def test_rows_for_another_endpoint_fail_the_batch_whenever_it_comes(api: Api, begun: bool) -> None:  # noqa: FBT001
    file = uploaded(api, part("purpose", "batch"), FILE)
    if begun:
        FilePricing.objects.update(fence=1)
    batch_id = sent(api, file["id"], endpoint="/v1/responses")["id"]
    assert price_next_file()
    assert validate_next_batch()
    failed = api.batch(batch_id)
    assert failed["status"] == "failed"
    assert [(error["code"], error["line"]) for error in failed["errors"]["data"]] == [
        ("url_mismatch", line) for line in (1, 2, 3)
    ]
    # Known before, it is refused with its lines as well.
    if begun:
        other = sent(api, file["id"], endpoint="/v1/responses")
        assert other["quote_id"] != file["quote"]["id"]


def test_an_upload_never_fails_for_its_quote_and_leaves_half_of_the_room(api: Api) -> None:
    with override_settings(STORED_QUOTES_MAX_BYTES=2 * len(ROWS)):
        first, second = (uploaded(api, part("purpose", "batch"), FILE) for _ in range(2))
        assert (first["quote"]["status"], second["quote"]) == ("pending", None)
        assert api.post("/v1/quotes/model", {"input_file_id": second["id"]}).status_code == 202
    assert sent(api, second["id"])["quote_id"] == api.get(f"/v1/files/{second['id']}").json()["quote"]["id"]


def test_a_wrong_file_shows_it_before_any_batch(api: Api) -> None:
    file = uploaded(api, part("purpose", "batch"), part("file", lines_of(row("a"), row("a")), "a.jsonl"))
    assert price_next_file()
    shown = api.get(f"/v1/files/{file['id']}").json()
    assert (shown["status"], shown["quote"]["status"]) == ("processed", "failed")
    assert api.get(shown["quote"]["url"]).json()["error"]["code"] == "duplicate_custom_id"
    # It may be mended by the catalog: a batch has it read again.
    batch = sent(api, file["id"])
    assert batch["quote_id"] != file["quote"]["id"]


def test_the_quote_of_an_upload_belongs_to_one_batch(api: Api) -> None:
    stored = StoredFile.objects.get(public_id=uploaded(api, part("purpose", "batch"), FILE)["id"])
    assert price_next_file()
    # Accepted by its id meanwhile, it is nobody else's.
    assert api.accept(stored.quote_id).status_code == 200
    assert sent(api, stored.public_id)["quote_id"] != stored.quote_id
    assert Quote.objects.count() == Batch.objects.count() == 2


def test_files_that_are_deleted_before_they_were_priced_are_priced_all_the_same(api: Api) -> None:
    file_id = uploaded(api, part("purpose", "batch"), FILE)["id"]
    batches = [sent(api, file_id)["id"] for _ in range(2)]
    assert api.client.delete(f"/v1/files/{file_id}").status_code == 200
    sweep_files()
    for batch_id in batches:
        assert price_next_file()
        assert validate_next_batch()
        assert api.batch(batch_id)["status"] == "in_progress"
