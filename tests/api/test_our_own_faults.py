"""What breaks on our side: the standard envelope, no trace of it in the answer, no prompt and no key in the logs."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.files.storage import Storage
from django.db import connection
from django.test import Client, override_settings

from simulators.running import RunningSimulator
from tests.api.world import PROMPT_WORD, Api, Left, error_of, lines_of, row
from tests.harness.world import Tenant


class Failing(Storage):
    """A place that holds nothing, and fails when something is to be kept there."""

    def __init__(self, location: Path) -> None:
        self.location = location

    def exists(self, name: str) -> bool:  # noqa: ARG002 -- Django's signature
        return False

    def delete(self, name: str) -> None:
        """Nothing is there."""


class FullDisk(Failing):
    """A place that has no room left."""

    def _save(self, name: str, content: Any) -> str:
        raise OSError(errno.ENOSPC, f"No space left for {content}", name)


class BrokenDisk(Failing):
    """A place that fails with a text that quotes what it was given."""

    def _save(self, name: str, content: Any) -> str:
        raise RuntimeError(f"cannot write {content.read()!r} to {name}")


def storage(kind: type[Failing]) -> Any:
    options = {"location": settings.STATE_DIR / "blobs"}
    default = {"BACKEND": f"{kind.__module__}.{kind.__qualname__}", "OPTIONS": options}
    return override_settings(STORAGES={**settings.STORAGES, "default": default})


@pytest.fixture
def no_database(db: None) -> Iterator[None]:
    """The database's address leads nowhere."""
    connection.close()
    port = connection.settings_dict["PORT"]
    connection.settings_dict["PORT"] = "1"
    yield
    connection.close()
    connection.settings_dict["PORT"] = port


def test_an_unforeseen_failure_is_a_500_that_names_the_request_alone(
    api: Api, nothing_done: Left, caplog: pytest.LogCaptureFixture
) -> None:
    with storage(BrokenDisk):
        response = api.post("/v1/quotes/model", lines_of(row("a")), "application/jsonl")
    error = error_of(response, 500, "internal_error")
    assert error["type"] == "server_error"
    assert response["x-request-id"] in error["message"]
    assert "Traceback" not in response.content.decode()
    assert "RuntimeError" in caplog.text
    assert "test_our_own_faults.py" in caplog.text
    assert PROMPT_WORD not in caplog.text


def test_a_full_disk_is_a_503_and_the_quote_works_when_there_is_room_again(api: Api, nothing_done: Left) -> None:
    with storage(FullDisk):
        response = api.post("/v1/quotes/model", lines_of(row("a")), "application/jsonl")
    error = error_of(response, 503, "server_busy")
    assert response["Retry-After"] == "1"
    assert "no room" in error["message"]


def test_a_database_that_is_away_is_a_503(tenant: Tenant, no_database: None) -> None:
    response = Client().get("/v1/wallet", headers=tenant.headers)
    error_of(response, 503, "server_busy")
    assert response["Retry-After"] == "1"


def test_health_says_that_the_database_is_away(no_database: None) -> None:
    assert Client().get("/healthz").status_code == 503
    assert Client().get("/readyz").status_code == 503


def test_results_whose_bytes_are_lost_are_a_500(
    api: Api, run: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    batch_id = api.accept(api.quote(row("a"))["id"]).json()["id"]
    run()
    folder: Path = settings.STATE_DIR / "blobs" / "batches" / batch_id
    for blob in folder.iterdir():
        blob.unlink()
    error_of(api.get(f"/v1/batches/{batch_id}/results"), 500, "internal_error")
    error_of(api.get(f"/v1/files/{api.batch(batch_id)['output_file_id']}/content"), 500, "internal_error")
    assert "FileNotFoundError" in caplog.text


def test_a_whole_life_of_a_batch_logs_no_prompt_and_no_key(
    api: Api, simulator: RunningSimulator, run: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    simulator.control.add_fault("http_error", operation="batches.create", status_code=500, times=1)
    batch_id = api.accept(api.quote(row("a"), row("b", f"{PROMPT_WORD} [[sim:fail]]"))["id"]).json()["id"]
    run()
    assert api.batch(batch_id)["status"] == "completed"
    assert PROMPT_WORD not in caplog.text
    assert api.tenant.key_text not in caplog.text
    assert "key-of-" not in caplog.text
