"""Blobs: whole or not there, and nothing left lying."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.files.storage import default_storage

from ground.blobs import BlobWriter, WrittenBlob, chunks_of, delete_overtaken, open_blob, read_blob
from ground.leases import Keeper, LeaseLost, claim
from routing.models import JobState, ProviderJob
from tests.routing.engine.kit import STEPS, Engine, questions


def write_stream(name: str, chunks: Iterable[bytes], *, is_hashed: bool = True) -> WrittenBlob:
    with BlobWriter(name, is_hashed=is_hashed) as writer:
        for chunk in chunks:
            writer.write(chunk)
        return writer.save()


def test_a_stream_becomes_one_blob_with_its_size_and_hash(db: None) -> None:
    blob = write_stream("folder/one", [b"ab", b"", b"c"])
    assert (blob.name, blob.size_bytes, blob.sha256.hex()[:8]) == ("folder/one", 3, "ba7816bf")
    assert read_blob("folder/one") == b"abc"
    assert b"".join(chunks_of(open_blob("folder/one"), size_bytes=2)) == b"ab"


def test_many_small_writes_are_one_blob_with_the_hash_of_the_whole(db: None) -> None:
    chunks = [b"%d" % number * 7 for number in range(30_000)]
    blob = write_stream("folder/five", chunks)
    whole = b"".join(chunks)
    assert (blob.size_bytes, blob.sha256) == (len(whole), hashlib.sha256(whole).digest())
    assert read_blob("folder/five") == whole
    assert write_stream("folder/six", chunks, is_hashed=False).sha256 == b""


@pytest.mark.parametrize("shared", [0, 5, 600_000])
def test_a_copied_blob_goes_on_by_itself_with_the_hash_of_its_whole(db: None, shared: int) -> None:
    with BlobWriter("folder/seven") as first:
        first.write(b"x" * shared)
        with first.copied("folder/eight") as second:
            second.write(b"second")
            first.write(b"first")
            blobs = first.save(), second.save()
    for blob, end in zip(blobs, (b"first", b"second"), strict=True):
        whole = b"x" * shared + end
        assert read_blob(blob.name) == whole
        assert (blob.size_bytes, blob.sha256) == (len(whole), hashlib.sha256(whole).digest())


def test_a_stream_that_breaks_leaves_neither_blob_nor_temporary_file(db: None) -> None:
    def breaking() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_stream("folder/two", breaking())
    assert not default_storage.exists("folder/two")
    assert not list((settings.STATE_DIR / "incoming").iterdir())


def test_a_name_that_is_taken_is_never_overwritten(db: None) -> None:
    write_stream("folder/three", [b"first"])
    second = write_stream("folder/three", [b"second"])
    assert second.name != "folder/three"
    assert (read_blob("folder/three"), read_blob(second.name)) == (b"first", b"second")


def test_what_runs_up_to_this_fence_left_is_removed_at_its_start(db: None) -> None:
    for name in ("2.bodies", "9.results.jsonl", "10.bodies", "11.bodies"):
        write_stream(f"runs/{name}", [b"x"])
    delete_overtaken("runs", 10)
    assert sorted(default_storage.listdir("runs")[1]) == ["11.bodies"]
    delete_overtaken("never-made", 1)


def test_a_temporary_file_of_a_process_that_was_killed_is_removed_after_a_day(db: None) -> None:
    folder = settings.STATE_DIR / "incoming"
    folder.mkdir(exist_ok=True)
    old, fresh = folder / "old", folder / "fresh"
    for path in (old, fresh):
        path.write_bytes(b"x")
    os.utime(old, (time.time() - 90_000,) * 2)
    with BlobWriter("folder/four"):
        assert not old.exists()
        assert fresh.exists()
    fresh.unlink()


def test_long_work_keeps_its_lease_by_time_and_learns_of_its_loss(engine: Engine, settings: Any) -> None:
    settings.LEASE_SECONDS = 0
    engine.accept(questions(1))
    STEPS["start"]()
    lease = claim(ProviderJob, state_field="state", states=(JobState.INTENDED,))
    assert lease is not None
    keep = Keeper(lease)
    keep()
    assert claim(ProviderJob, state_field="state", states=(JobState.INTENDED,))
    with pytest.raises(LeaseLost):
        keep()
