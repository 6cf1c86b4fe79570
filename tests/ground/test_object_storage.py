"""Blobs in a bucket behave as blobs on a disk, and are read from any place on."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage

from ground import blobs
from ground.blobs import BlobWriter, blob_names, chunks_of, delete_blob, link_blob, open_blob, open_on_disk, read_blob
from ground.errors import ServerBusy
from tests.harness.bucket import BUCKET, PREFIX, blobs_in_a_bucket, keys_in, running_store

CONTENT = random.Random(7).randbytes(1_300_000)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_store() as running:
        yield running


@pytest.fixture
def bucket(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "only-for-tests")
    with blobs_in_a_bucket(url=url) as client:
        yield client


def stored(name: str, content: bytes = CONTENT) -> blobs.WrittenBlob:
    with BlobWriter(name) as writer:
        writer.write(content)
        return writer.save()


def test_a_blob_is_read_from_any_place_on(bucket: Any) -> None:
    stored("files/a")
    assert keys_in(bucket) == [f"{PREFIX}/files/a"]
    places = random.Random(8)
    with open_blob("files/a") as blob:
        for _ in range(30):
            start, size = places.randrange(len(CONTENT)), places.choice((1, 100, 70_000, 400_000))
            blob.seek(start)
            assert blob.read(size) == CONTENT[start : start + size]
        blob.seek(-5, 2)
        assert (blob.read(), blob.read()) == (CONTENT[-5:], b"")
    assert b"".join(chunks_of(open_blob("files/a"))) == CONTENT
    with open_on_disk("files/a") as lent:
        assert Path(f"/proc/self/fd/{lent.fileno()}").read_bytes() == CONTENT


def test_a_stream_that_breaks_off_is_taken_up_where_it_stood(bucket: Any) -> None:
    stored("files/a")
    with open_blob("files/a") as blob:
        first = blob.read(300_000)
        blob.raw._body.close()  # type: ignore[attr-defined]
        assert first + blob.read() == CONTENT
        # What is gone meanwhile is no end of the file.
        bucket.delete_object(Bucket=BUCKET, Key=f"{PREFIX}/files/a")
        blob.seek(0)
        with pytest.raises((FileNotFoundError, ServerBusy)):
            blob.read()


def test_names_are_given_once_linked_listed_and_let_go(bucket: Any) -> None:
    first, second = stored("files/2026/a", b"one"), stored("files/2026/a", b"two")
    assert (first.name, second.name != first.name) == ("files/2026/a", True)
    assert (read_blob(first.name), read_blob(second.name)) == (b"one", b"two")
    link_blob(first.name, "payloads/a")
    delete_blob(first.name)
    delete_blob(first.name)
    assert read_blob("payloads/a") == b"one"
    with pytest.raises(FileExistsError):
        link_blob(second.name, "payloads/a")
    for act in (lambda: open_blob("files/b"), lambda: link_blob("files/b", "files/c"), lambda: blobs.size_of_blob("b")):
        with pytest.raises(FileNotFoundError):
            act()
    assert (list(blob_names("files")), list(blob_names("nothing"))) == ([second.name], [])
    assert default_storage.listdir("files") == (["2026"], [])
    stored("results/token/3.bodies", b"old")
    stored("results/token/5.bodies", b"new")
    blobs.delete_overtaken("results/token", 4)
    assert list(blob_names("results")) == ["results/token/5.bodies"]


@pytest.fixture
def process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A store whose memory is not ours."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "only-for-tests")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        server.terminate()


def megabytes(name: str) -> float:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_long_blobs_go_up_and_come_down_in_flat_memory(process_of_its_own: str) -> None:
    piece = random.Random(9).randbytes(1_000_000)
    with blobs_in_a_bucket(url=process_of_its_own):
        stored("files/warm", piece * 20)
        Path("/proc/self/clear_refs").write_text("5", "utf-8")
        before = megabytes("VmRSS")
        with BlobWriter("files/long") as writer:
            for _ in range(300):
                writer.write(piece)
            written = writer.save()
        came = sum(len(chunk) for chunk in chunks_of(open_blob("files/long")))
        with open_on_disk("files/long") as lent:
            assert lent.seek(0, 2) == came == written.size_bytes == 300_000_000
        assert megabytes("VmHWM") - before <= 64
