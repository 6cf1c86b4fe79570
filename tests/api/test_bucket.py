"""The product with its blobs in a bucket: files, quotes, batches, results, ranges, sweeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings

from routing.models import StoredFile
from routing.services.retention import sweep_batches, sweep_files, sweep_orphans, sweep_payloads
from tests.api.test_file_batches import ROWS, sent
from tests.api.test_retries import retried
from tests.api.uploads import content_of, upload
from tests.api.world import Api, error_of, lines_of, row
from tests.harness.bucket import blobs_in_a_bucket, keys_in, running_store
from tests.harness.clock import Clock
from tests.harness.laws import assert_laws
from tests.harness.world import do_due_steps


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "only-for-tests")
    with running_store() as url:
        yield url


def test_a_batch_runs_to_its_end_and_its_bytes_go(api: Api, store: str, run: Callable[[], None], clock: Clock) -> None:
    with blobs_in_a_bucket(url=store) as bucket:
        batch_id = sent(api, ROWS)["id"]
        direct_id = api.accept(api.quote(row("x"))["id"]).json()["id"]
        api.quote(row("nobody"))
        run()
        for each in (batch_id, direct_id):
            assert api.batch(each)["status"] == "completed"
            assert_laws(each)
        batch = api.batch(batch_id)
        assert content_of(api, batch["input_file_id"]) == ROWS
        path = f"/v1/files/{batch['output_file_id']}/content"
        output = content_of(api, batch["output_file_id"])
        part: Any = api.client.get(path, headers={"Range": "bytes=10-99"})
        assert (part.status_code, b"".join(part.streaming_content)) == (206, output[10:100])
        assert part["ETag"] == f'"{hashlib.sha256(output).hexdigest()}"'
        assert [line["custom_id"] for line in api.lines(f"/v1/batches/{batch_id}/results?after=0.0")] == ["a", "b", "c"]
        retried(api, batch_id)
        do_due_steps()
        # Nothing of it lies on the disk.
        assert not [found for found in (settings.STATE_DIR / "blobs").rglob("*") if found.is_file()]
        for each in (batch_id, direct_id):
            assert api.client.delete(f"/v1/batches/{each}/files").status_code == 200
        assert api.client.delete(f"/v1/files/{batch['input_file_id']}").status_code == 200
        clock.advance(hours=3)
        for sweep in (sweep_files, sweep_batches, sweep_payloads, sweep_orphans):
            sweep()
        assert keys_in(bucket) == []


def test_a_store_that_is_away_is_said_to_pass_and_nothing_is_kept(api: Api, store: str) -> None:
    with blobs_in_a_bucket(url=store, bucket="not-there"):
        error_of(upload(api), 503, "server_busy")
        error_of(api.post("/v1/quotes/model", lines_of(row("a")), "application/jsonl"), 503, "server_busy")
    assert not StoredFile.objects.exists()
