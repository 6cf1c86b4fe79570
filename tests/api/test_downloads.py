"""Downloads of finished files: whole, ranges, heads, hashes; as browsers, ``curl -C -`` and SDKs ask for them."""

from __future__ import annotations

import base64
import hashlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from django.test import RequestFactory

from ground import clock as ground_clock
from ground.blobs import BlobWriter, delete_blob
from ground.errors import NotFound, RangeNotSatisfiable
from ground.ids import new_public_id
from routing.api.downloads import download, range_of
from routing.models import StoredFile
from routing.services.files import keep_file, uploaded_blob_name
from tests.api.world import Api, error_of, row

CONTENT = bytes(range(256)) * 4
ETAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'
DIGEST = f"sha-256=:{base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()}:"


def stored(api: Api, content: bytes = CONTENT, *, times: int = 1) -> str:
    """Keep a file and give the address of its bytes."""
    public_id = new_public_id("file-", ground_clock.now())
    with BlobWriter() as writer:
        for _ in range(times):
            writer.write(content)
        saving = writer.begin_save(uploaded_blob_name(public_id))
        keep_file(caller=api.tenant.caller, public_id=public_id, filename="Flüsse.jsonl", saving=saving)
    return f"/v1/files/{public_id}/content"


def ask(api: Api, path: str, method: str = "GET", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.client.generic(method, path, headers=named)


def bytes_of(response: Any) -> bytes:
    content: bytes = response.getvalue() if response.streaming else response.content
    return content


def test_a_whole_file_names_its_length_and_its_hash(api: Api) -> None:
    response = ask(api, stored(api))
    assert (response.status_code, bytes_of(response)) == (200, CONTENT)
    assert (response["Content-Length"], response["Accept-Ranges"]) == ("1024", "bytes")
    assert (response["ETag"], response["Repr-Digest"]) == (ETAG, DIGEST)
    assert response["Content-Disposition"] == "attachment; filename*=utf-8''Fl%C3%BCsse.jsonl"
    assert "Content-Range" not in response


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-1023", 0, 1024),
        ("bytes=1000-", 1000, 1024),
        ("bytes=1000-9999999", 1000, 1024),
        ("bytes=-24", 1000, 1024),
        ("bytes=-4096", 0, 1024),
        ("Bytes = 7-9 ", 7, 10),
    ],
)
def test_one_range_is_given_alone(api: Api, asked: str, start: int, stop: int) -> None:
    response = ask(api, stored(api), Range=asked)
    assert (response.status_code, bytes_of(response)) == (206, CONTENT[start:stop])
    assert response["Content-Range"] == f"bytes {start}-{stop - 1}/1024"
    assert response["Content-Length"] == str(stop - start)
    # Of the whole file: a client that has put its ranges together checks them by it.
    assert (response["ETag"], response["Repr-Digest"]) == (ETAG, DIGEST)


@pytest.mark.parametrize(
    "asked", ["bytes=5-3", "bytes=-", "bytes=a-b", "rows=0-1", "bytes=0-1,4-5", "", "bytes=" + "9" * 40 + "-"]
)
def test_what_is_no_single_range_is_passed_over(asked: str) -> None:
    assert range_of(asked, 1_024) is None


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=1024-2000", "bytes=-0"])
def test_a_range_behind_the_end_is_refused_with_the_length(api: Api, asked: str) -> None:
    with pytest.raises(RangeNotSatisfiable):
        range_of(asked, 1_024)
    response = ask(api, stored(api), Range=asked)
    error_of(response, 416, "range_not_satisfiable", "Range")
    assert response["Content-Range"] == "bytes */1024"


@pytest.mark.parametrize(("tag", "status"), [(ETAG, 206), ('"other"', 200), (f"W/{ETAG}", 200)])
def test_a_range_of_another_file_is_given_whole(api: Api, tag: str, status: int) -> None:
    response = ask(api, stored(api), Range="bytes=0-3", If_Range=tag)
    assert (response.status_code, len(bytes_of(response))) == (status, 4 if status == 206 else 1_024)


def test_a_file_that_went_since_it_was_found_is_not_found(api: Api) -> None:
    path = stored(api)
    found = StoredFile.objects.get(public_id=path.split("/")[3])
    assert api.client.delete(path.removesuffix("/content")).status_code == 200
    delete_blob(found.blob_name)
    with pytest.raises(NotFound):
        download(RequestFactory().get(path), found)


@pytest.mark.parametrize("tag", [ETAG, f'"other", W/{ETAG}', "*"])
def test_bytes_that_the_caller_has_are_not_sent_again(api: Api, tag: str) -> None:
    response = ask(api, stored(api), If_None_Match=tag)
    assert (response.status_code, response.content, response["ETag"]) == (304, b"", ETAG)


def of_the_file(response: Any) -> dict[str, str]:
    return {name: value for name, value in response.items() if not name.startswith(("x-request-id", "x-ratelimit"))}


def test_a_head_is_what_the_whole_would_have(api: Api) -> None:
    path = stored(api)
    head, whole = ask(api, path, "HEAD", Range="bytes=0-3"), ask(api, path)
    assert (head.status_code, bytes_of(head)) == (200, b"")
    assert of_the_file(head) == of_the_file(whole)
    whole.close()


def test_a_long_file_is_given_in_flat_memory(api: Api) -> None:
    response = ask(api, stored(api, CONTENT * 1_024, times=16), Range="bytes=1-")
    tracemalloc.start()
    size_bytes = sum(len(chunk) for chunk in response.streaming_content)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    response.close()
    assert size_bytes == 16 * 1_048_576 - 1
    assert peak_bytes < 2 * 1_048_576


def test_results_have_ranges_when_the_batch_has_ended(api: Api, run: Callable[[], None]) -> None:
    batch_id = api.accept(api.quote(row("a"), row("b"))["id"]).json()["id"]
    path = f"/v1/batches/{batch_id}/results"
    running = ask(api, path, "HEAD")
    assert (running["X-Incomplete"], running["Accept-Ranges"], bytes_of(running)) == ("true", "none", b"")
    run()
    whole = bytes_of(ask(api, path))
    part = ask(api, path, Range="bytes=10-")
    assert (part.status_code, bytes_of(part), part["X-Incomplete"]) == (206, whole[10:], "false")
    digest = base64.b64encode(hashlib.sha256(whole).digest()).decode()
    assert part["Repr-Digest"] == f"sha-256=:{digest}:"
    assert ask(api, path, "HEAD")["Content-Length"] == str(len(whole))


def test_results_that_went_with_the_output_file_name_the_batch(api: Api, run: Callable[[], None]) -> None:
    batch_id = api.accept(api.quote(row("a"))["id"]).json()["id"]
    run()
    api.client.delete(f"/v1/files/{api.batch(batch_id)['output_file_id']}")
    error = error_of(ask(api, f"/v1/batches/{batch_id}/results"), 404, "not_found", "batch_id")
    assert "file-" not in error["message"]
