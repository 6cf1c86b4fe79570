"""Large exports: written by workers that may be killed, ended by whoever asked, and kept for their time."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as product

from accounts.models import Organisation
from billing.exports import writing
from billing.exports.models import Export
from billing.exports.reading import file_of
from billing.services import exports
from billing.services.exports import ExportWish, cancel_export, create_export, sweep_exports, write_next_export
from ground.blobs import read_blob
from ground.errors import InvalidRequest, NotFound
from tests.harness.clock import Clock

WISH = ExportWish(kind="receipts", file_format="csv")


class Killed(BaseException):
    """What a SIGKILL is to the code: nothing after it runs."""


@pytest.fixture
def large(customer: Organisation, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Organisation:
    """The customer, in a house where three rows are many; each fetch gives two."""
    settings.EXPORT_ROWS_AT_ONCE = 3
    monkeypatch.setattr(writing, "ROWS_PER_FETCH", 2)
    monkeypatch.setattr(exports, "_SECONDS_BETWEEN_TICKS", 0)
    return customer


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What happens at the next tick, once."""
    happenings: list[object] = []
    told = exports._Tick.__call__

    def tick(self: exports._Tick, done_count: int) -> None:
        if happenings:
            happening = happenings.pop()
            if callable(happening):
                happening()
            else:
                raise Killed
        told(self, done_count)

    monkeypatch.setattr(exports._Tick, "__call__", tick)
    return happenings


def blobs() -> list[str]:
    folder: Path = product.STATE_DIR / "blobs"
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def row_count(export: Export) -> int:
    return len(list(csv.DictReader(io.StringIO(read_blob(export.blob_name).decode(), newline=""))))


def test_a_large_export_waits_for_a_worker_and_says_its_count(large: Organisation) -> None:
    export = create_export(large, WISH)
    assert (export.state, export.blob_name) == ("queued", "")
    with pytest.raises(NotFound):
        file_of(export)
    assert write_next_export()
    assert not write_next_export()
    export.refresh_from_db()
    assert (export.state, export.row_count, row_count(export)) == ("completed", 5, 5)


@pytest.mark.usefixtures("clock")
def test_a_worker_that_is_killed_is_followed_by_another_with_the_same_bytes(
    large: Organisation, interrupted: list[object], clock: Clock
) -> None:
    whole = create_export(large, WISH)
    write_next_export()
    whole.refresh_from_db()
    export = create_export(large, WISH)
    for _ in range(2):
        interrupted.append("kill")
        with pytest.raises(Killed):
            write_next_export()
        assert not write_next_export()
        clock.advance(seconds=product.LEASE_SECONDS + 1)
    assert write_next_export()
    export.refresh_from_db()
    assert (export.state, export.sha256) == ("completed", whole.sha256)
    assert blobs() == ["1.csv", "3.csv"]


def test_an_export_whose_processes_all_die_is_given_up(
    large: Organisation, interrupted: list[object], clock: Clock
) -> None:
    export = create_export(large, WISH)
    for _ in range(5):
        interrupted.append("kill")
        with pytest.raises(Killed):
            write_next_export()
        clock.advance(seconds=product.LEASE_SECONDS + 1)
    assert write_next_export()
    export.refresh_from_db()
    assert (export.state, blobs()) == ("failed", [])


def test_a_cancelled_export_leaves_nothing_though_it_is_being_written(
    large: Organisation, interrupted: list[object]
) -> None:
    export = create_export(large, WISH)
    interrupted.append(lambda: cancel_export(Export.objects.get(pk=export.pk)))
    assert write_next_export()
    export.refresh_from_db()
    assert (export.state, export.row_count, blobs()) == ("cancelled", None, [])
    assert not cancel_export(export)
    assert not write_next_export()


def test_nobody_fills_the_queue(large: Organisation) -> None:
    for _ in range(10):
        create_export(large, WISH)
    with pytest.raises(InvalidRequest, match="not finished yet"):
        create_export(large, WISH)
    write_next_export()
    assert create_export(large, WISH).state == "queued"


def test_a_row_that_breaks_a_rule_fails_the_export(large: Organisation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("billing.exports.focus._HOUSE", "")
    export = create_export(large, ExportWish(kind="focus", file_format="csv"))
    write_next_export()
    export.refresh_from_db()
    assert (export.state, export.blob_name) == ("failed", "")
    assert "could not be written" in export.failure


def test_bytes_of_a_call_that_was_rolled_back_are_swept_and_no_others(large: Organisation, clock: Clock) -> None:
    kept = create_export(large, WISH)
    write_next_export()
    rolled_back = create_export(large, WISH)
    write_next_export()
    Export.objects.filter(pk=rolled_back.pk).delete()
    assert exports.sweep_orphans() == 0
    clock.advance(hours=2)
    # One that is written just now has bytes that no row names yet, whatever its age.
    running = create_export(large, WISH)
    write_next_export()
    Export.objects.filter(pk=running.pk).update(
        state="running",
        due_at=running.due_at,
        finished_at=None,
        sha256=None,
        size_bytes=None,
        row_count=None,
        blob_name="",
    )
    clock.advance(hours=2)
    assert exports.sweep_orphans() == 1
    assert exports.sweep_orphans() == 0
    kept.refresh_from_db()
    assert (row_count(kept), blobs()) == (5, ["1.csv", "1.csv"])
    cancel_export(running)
    assert exports.sweep_orphans() == 1
    assert blobs() == ["1.csv"]


def test_the_bytes_go_when_their_time_is_over_and_the_record_stays(large: Organisation, clock: Clock) -> None:
    export = create_export(large, WISH)
    write_next_export()
    assert blobs()
    clock.advance(days=31)
    assert not sweep_exports()
    export.refresh_from_db()
    assert (blobs(), export.state, export.row_count) == ([], "completed", 5)
    with pytest.raises(NotFound):
        file_of(export)
