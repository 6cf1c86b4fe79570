"""Rows that were not done are done again as another batch; and the files of a batch are deleted with a record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings

from accounts.models import AuditEntry
from routing.models import Batch, FilePricing
from routing.services.file_quotes import price_next_file
from routing.services.retention import sweep_batches, sweep_files
from tests.api.test_file_batches import sent
from tests.api.uploads import uploaded
from tests.api.world import PROMPT_WORD, Api, error_of, lines_of, row
from tests.harness.clock import Clock
from tests.harness.laws import assert_laws
from tests.harness.world import do_due_steps

# Blank lines, an escape and blanks between tokens: what is done again is the text that came.
SENT = [
    lines_of(row("a")).strip().replace(b": ", b" :  "),
    *lines_of(row("b", "[[sim:fail]]"), row(" c ", "fail \u2028 [[sim:fail]]"), row("d")).splitlines(),
]


def ended(api: Api, run: Callable[[], None]) -> str:
    quote = api.post("/v1/quotes/model", b"\n\n".join(SENT) + b"\n", "application/jsonl").json()
    batch_id: str = api.accept(quote["id"]).json()["id"]
    run()
    return batch_id


def retried(api: Api, batch_id: str, query: str = "") -> dict[str, Any]:
    response = api.post(f"/v1/batches/{batch_id}/retry{query}", b"")
    assert response.status_code == 202, response.content
    quote: dict[str, Any] = response.json()
    assert response["Location"] == f"/v1/quotes/{quote['id']}"
    return quote


def refused(api: Api, batch_id: str) -> str:
    error = error_of(api.post(f"/v1/batches/{batch_id}/retry", b""), 400, "invalid_value", "batch_id")
    return str(error["message"])


def payload_of(quote_id: str) -> bytes:
    (path,) = settings.STATE_DIR.rglob(f"{quote_id}.jsonl")
    return Path(path).read_bytes()


def test_the_rows_that_failed_are_priced_and_done_again_under_their_ids(
    api: Api, run: Callable[[], None], clock: Clock
) -> None:
    origin_id = ended(api, run)
    quote_id = retried(api, origin_id)["id"]
    # Killed when the rows were written: the next run takes them as they are.
    FilePricing.objects.update(fence=1)
    assert price_next_file()
    assert payload_of(quote_id) == SENT[1] + b"\n" + SENT[2] + b"\n"
    quote = api.get(f"/v1/quotes/{quote_id}").json()
    assert (quote["status"], quote["row_count"], quote["retry_of"]) == ("ready", 2, origin_id)
    assert quote["input_file_id"] is None
    batch = api.accept(quote_id).json()
    assert (batch["status"], batch["retry_of"], batch["input_file_id"]) == ("in_progress", origin_id, quote_id)
    run()
    again = api.batch(batch["id"])
    assert again["request_counts"] == {"total": 2, "completed": 0, "failed": 2}
    assert [line["custom_id"] for line in api.lines(f"/v1/batches/{batch['id']}/results")] == ["b", " c "]
    assert_laws(batch["id"])
    # What failed again may be tried again; the first batch is as it was.
    assert retried(api, batch["id"])["retry_of"] == batch["id"]
    assert (api.batch(origin_id)["retry_of"], api.batch(origin_id)["request_counts"]["completed"]) == (None, 2)


def test_a_retry_chooses_its_rows_by_code_and_outcome(api: Api, run: Callable[[], None]) -> None:
    rows = [row("a"), row("b", "[[sim:fail]]"), row("c", "[[sim:context_length]]")]
    origin_id = api.accept(api.quote(*rows)["id"]).json()["id"]
    run()
    chosen = {}
    for query in ("?code=context_length_exceeded", "?code=provider_error&code=nope&outcome=failed", "?outcome=failed"):
        quote_id = retried(api, origin_id, query)["id"]
        assert price_next_file()
        chosen[query] = [json.loads(line)["custom_id"] for line in payload_of(quote_id).splitlines()]
    assert list(chosen.values()) == [["c"], ["b"], ["b", "c"]]
    retry = f"/v1/batches/{origin_id}/retry"
    error_of(api.post(f"{retry}?code=result_missing", b""), 400, "invalid_value", "code")
    error_of(api.post(f"{retry}?outcome=expired", b""), 400, "invalid_value", "outcome")
    error_of(api.post(f"{retry}?outcome=succeeded", b""), 400, "invalid_value", "outcome.0")


def test_rows_of_a_cancelled_batch_are_done_again_under_another_workflow(api: Api, run: Callable[[], None]) -> None:
    api.post("/v1/workflows", {"name": "night"})
    batch_id = api.accept(api.quote(row("a"), row("b"))["id"]).json()["id"]
    assert "in_progress" in refused(api, batch_id)
    api.post(f"/v1/batches/{batch_id}/cancel", b"")
    run()
    quote = retried(api, batch_id, "?workflow=night")
    assert quote["workflow"] == "night"
    assert price_next_file()
    assert api.get(f"/v1/quotes/{quote['id']}").json()["row_count"] == 2
    error_of(api.post(f"/v1/batches/{batch_id}/retry?workflow=day", b""), 404, "not_found", "workflow")


def test_what_has_no_row_to_do_again_says_why(api: Api, other: Api, run: Callable[[], None]) -> None:
    whole = api.accept(api.quote(row("a"))["id"]).json()["id"]
    never = sent(api, lines_of(row("a"), row("a")))["id"]
    run()
    for batch_id, word in ((whole, "succeeded"), (never, "never ran")):
        assert (
            word
            in error_of(api.post(f"/v1/batches/{batch_id}/retry", b""), 400, "invalid_value", "batch_id")["message"]
        )
    error_of(other.post(f"/v1/batches/{whole}/retry", b""), 404, "not_found", "batch_id")
    key = {"Idempotency-Key": "again"}
    batch_id = ended(api, run)
    answers = {api.client.post(f"/v1/batches/{batch_id}/retry", headers=key).content for _ in range(2)}
    assert len(answers) == 1


def test_deleted_files_are_gone_with_a_record_and_the_receipt_stays(
    api: Api, other: Api, run: Callable[[], None]
) -> None:
    batch_id = ended(api, run)
    batch = api.batch(batch_id)
    pending = retried(api, batch_id)["id"]
    path = f"/v1/batches/{batch_id}/files"
    error_of(other.client.delete(path), 404, "not_found", "batch_id")
    record = api.client.delete(path).json()
    assert (record["id"], record["deleted"]) == (batch_id, True)
    (entry,) = AuditEntry.objects.filter(object_id=batch_id)
    assert (entry.action, entry.api_key, sorted(entry.changes)) == (
        "batch.files_deleted",
        api.tenant.api_key,
        ["error", "output", "results"],
    )
    assert [(each["kind"], each["id"]) for each in record["files"][:2]] == [
        ("output", batch["output_file_id"]),
        ("error", batch["error_file_id"]),
    ]
    assert api.client.delete(path).json() == record
    gone = api.batch(batch_id)
    assert gone["files_deleted_at"] == record["deleted_at"]
    assert {name: gone[name] for name in batch if name != "files_deleted_at"} == {
        name: batch[name] for name in batch if name != "files_deleted_at"
    }
    for address in (
        f"/v1/files/{batch['output_file_id']}",
        f"/v1/files/{batch['error_file_id']}/content",
        f"/v1/batches/{batch_id}/results",
        f"/v1/batches/{batch_id}/results?after=0.0",
    ):
        assert api.get(address).status_code == 404, address
    assert api.get(f"/v1/batches/{batch_id}/receipt").json()["total_micro_usd"] == batch["charge_micro_usd"]
    assert (
        "deleted"
        in error_of(api.post(f"/v1/batches/{batch_id}/retry", b""), 400, "invalid_value", "batch_id")["message"]
    )
    sweep_files()
    assert not sweep_batches()
    left = [found for found in (settings.STATE_DIR / "blobs").rglob("*") if found.is_file()]
    assert not [found for found in left if PROMPT_WORD.encode() in found.read_bytes() or "results" in found.parts]
    # A retry that was asked for before has nothing to read any more.
    assert price_next_file()
    assert api.get(f"/v1/quotes/{pending}").json()["status"] == "failed"


def test_files_are_kept_until_their_batch_has_ended(api: Api, app_cursor: psycopg.Cursor) -> None:
    batch_id = api.accept(api.quote(row("a"))["id"]).json()["id"]
    error_of(api.client.delete(f"/v1/batches/{batch_id}/files"), 400, "invalid_value", "batch_id")
    with pytest.raises(psycopg.errors.CheckViolation):
        app_cursor.execute("UPDATE routing_batch SET files_deleted_at = now()")
    assert Batch.objects.get().files_deleted_at is None
    file_id = uploaded(api)["id"]
    do_due_steps()
    assert api.client.delete(f"/v1/files/{file_id}").status_code == 200
    assert AuditEntry.objects.get(object_id=file_id).api_key == api.tenant.api_key
