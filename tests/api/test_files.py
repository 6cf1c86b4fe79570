"""``/v1/files``: uploads as the SDKs and others send them, and what is refused."""

from __future__ import annotations

import hashlib
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from ground.ids import created_at_of
from routing.models import StoredFile
from tests.api.test_cases import FOLDER, cases_in
from tests.api.uploads import BOUNDARY, FILE, content_of, form, part, upload, uploaded
from tests.api.world import PROMPT_WORD, Api, Left, error_of
from tests.harness.clock import Clock


def blobs() -> list[Path]:
    return [path for path in (settings.STATE_DIR / "blobs" / "files").rglob("*") if path.is_file()]


def test_an_upload_is_kept_byte_for_byte(api: Api, clock: Clock) -> None:
    created_at = int(clock.freeze(clock.now()).timestamp())
    stored = uploaded(api)
    expected = {
        "object": "file",
        "bytes": len(FILE),
        "created_at": created_at,
        "expires_at": created_at + 30 * 86_400,
        "filename": "requests.jsonl",
        "purpose": "batch",
        "status": "processed",
    }
    assert {name: stored[name] for name in expected} == expected
    assert api.get(f"/v1/files/{stored['id']}").json() == stored
    assert content_of(api, stored["id"]) == FILE
    assert bytes(StoredFile.objects.get().sha256) == hashlib.sha256(FILE).digest()


def test_an_upload_of_hours_is_named_when_it_is_whole(api: Api, clock: Clock) -> None:
    # The sweep of blobs without a row goes by the time in the name, and the row comes right after the name.
    class Slow(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            clock.advance(hours=2)
            return super().read(size)

    clock.freeze(clock.now())
    body = form(part("purpose", "batch"), part("file", FILE, "a.jsonl"))
    sent: dict[str, Any] = {"wsgi.input": Slow(body)}
    answer = api.client.generic(
        "POST", "/v1/files", body, content_type=f"multipart/form-data; boundary={BOUNDARY}", **sent
    )
    # Ids have milliseconds.
    assert created_at_of(answer.json()["id"]) == clock.now().replace(microsecond=clock.now().microsecond // 1000 * 1000)


def test_the_parts_may_come_in_any_order_and_the_file_without_a_name(api: Api) -> None:
    stored = uploaded(api, part("file", FILE), part("purpose", "batch"))
    assert stored["filename"] == "upload"
    assert content_of(api, stored["id"]) == FILE


def test_036_an_upload_is_judged_by_its_bytes_and_not_by_its_name(api: Api) -> None:
    case = cases_in("api")["036"]
    (step,) = json.loads((FOLDER / "api" / case["input"]).read_text("utf-8"))["steps"]
    file = step["multipart"]["file"]
    stored = uploaded(api, part("purpose", step["multipart"]["purpose"]), part("file", file["text"], file["filename"]))
    assert {name: stored[name] for name in case["body"]} == case["body"]


def test_bytes_that_look_like_a_boundary_are_kept(api: Api) -> None:
    odd = FILE + f"\r\n--{BOUNDARY[:-1]}\r\n\r\n--".encode() * 3
    assert content_of(api, uploaded(api, part("purpose", "batch"), part("file", odd, "a"))["id"]) == odd


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        (r"C:\rows\my file.jsonl", "my file.jsonl"),
        ("a\tb\x7f.jsonl", "a_b_.jsonl"),
        ("Flüsse.jsonl", "Flüsse.jsonl"),
        ("", "upload"),
        ("x" * 300 + ".jsonl", ("x" * 300 + ".jsonl")[-255:]),
    ],
)
def test_a_file_name_is_shown_without_its_folder(api: Api, sent: str, shown: str) -> None:
    assert uploaded(api, part("purpose", "batch"), part("file", FILE, sent))["filename"] == shown


def test_a_lifetime_of_its_own_counts_from_the_creation(api: Api, clock: Clock) -> None:
    lifetime = [part("expires_after[anchor]", "created_at"), part("expires_after[seconds]", "3600")]
    stored = uploaded(api, part("purpose", "batch"), *lifetime, part("file", FILE, "a.jsonl"))
    assert stored["expires_at"] == stored["created_at"] + 3_600
    clock.advance(seconds=3_601)
    error_of(api.get(f"/v1/files/{stored['id']}"), 404, "not_found", "file_id")
    assert api.get("/v1/files").json()["data"] == []


@pytest.mark.parametrize(
    ("parts", "code", "param"),
    [
        ([part("file", FILE, "a")], "missing_required_parameter", "purpose"),
        ([part("purpose", "batch")], "missing_required_parameter", "file"),
        ([part("purpose", "vision"), part("file", FILE, "a")], "invalid_value", "purpose"),
        ([part("purpose", "batch"), part("file", b"", "a")], "empty_file", "file"),
        ([part("purpose", "batch"), part("file", FILE), part("file", FILE)], "invalid_value", "file"),
        ([part("purpose", "batch"), part("purpose", "batch"), part("file", FILE)], "invalid_value", "purpose"),
        ([part("purpose", "b" * 2_000), part("file", FILE)], "invalid_value", "purpose"),
        ([part("colour", "red"), part("file", FILE)], "unsupported_parameter", "colour"),
        (
            [part("purpose", "batch"), part("expires_after[seconds]", "3600"), part("file", FILE)],
            "invalid_value",
            "expires_after",
        ),
        *(
            (
                [
                    part("purpose", "batch"),
                    part("expires_after[anchor]", "created_at"),
                    part("expires_after[seconds]", seconds),
                    part("file", FILE),
                ],
                code,
                "expires_after",
            )
            for seconds, code in [
                ("3599", "invalid_value"),
                ("2592001", "invalid_value"),
                ("1e4", "invalid_type"),
                ("9" * 900, "invalid_type"),
            ]
        ),
    ],
)
def test_a_form_that_is_not_right_stores_nothing(
    api: Api, parts: list[bytes], code: str, param: str, nothing_done: Left
) -> None:
    error_of(upload(api, *parts), 400, code, param)
    assert StoredFile.objects.count() == 0
    assert not list((settings.STATE_DIR / "incoming").iterdir())


@pytest.mark.parametrize("cut", [len(FILE) // 2, len(FILE) + 150])
def test_a_form_that_breaks_off_stores_nothing(api: Api, cut: int, nothing_done: Left) -> None:
    body = form(part("purpose", "batch"), part("file", FILE, "a.jsonl"))
    response = api.post("/v1/files", body[:-cut], f"multipart/form-data; boundary={BOUNDARY}")
    assert "Nothing was stored" in error_of(response, 400, "invalid_value")["message"]


def test_the_line_end_after_a_form_may_be_missing(api: Api) -> None:
    body = form(part("purpose", "batch"), part("file", FILE, "a.jsonl"))
    assert api.post("/v1/files", body[:-1], f"multipart/form-data; boundary={BOUNDARY}").status_code == 200


@pytest.mark.parametrize("content_type", ["application/json", "multipart/mixed; boundary=x", ""])
def test_another_type_is_refused(api: Api, content_type: str, nothing_done: Left) -> None:
    error_of(api.post("/v1/files", FILE, content_type), 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["multipart/form-data", f"multipart/form-data; boundary={'x' * 71}"])
def test_a_form_without_a_good_boundary_is_refused(api: Api, content_type: str, nothing_done: Left) -> None:
    error_of(api.post("/v1/files", FILE, content_type), 400, "invalid_value")


def test_what_is_no_form_at_all_is_refused(api: Api, nothing_done: Left) -> None:
    error_of(api.post("/v1/files", FILE, f"multipart/form-data; boundary={BOUNDARY}"), 400, "invalid_value")


@override_settings(FILE_MAX_BYTES=len(FILE))
def test_a_file_may_be_as_long_as_the_limit_and_no_longer(api: Api) -> None:
    uploaded(api)
    before = len(blobs())
    longer = part("file", FILE + b"\n", "a.jsonl")
    error_of(upload(api, part("purpose", "batch"), longer), 413, "payload_too_large", "file")
    # This one is refused by its declared length alone.
    error_of(upload(api, part("file", FILE + b"\n" * 70_000, "a.jsonl")), 413, "payload_too_large", "file")
    assert (StoredFile.objects.count(), len(blobs())) == (1, before)


@override_settings(STORED_FILES_MAX_BYTES=2 * len(FILE))
def test_an_organisation_stores_so_much_and_deleting_makes_room(api: Api, other: Api) -> None:
    first, _ = uploaded(api), uploaded(api)
    refused = error_of(upload(api), 413, "payload_too_large", "file")
    assert (refused["stored_bytes"], refused["stored_max_bytes"]) == (2 * len(FILE), 2 * len(FILE))
    uploaded(other)
    assert api.client.delete(f"/v1/files/{first['id']}").status_code == 200
    uploaded(api)


def test_a_deleted_file_is_gone_for_every_call_and_its_row_is_kept(api: Api) -> None:
    file_id = uploaded(api)["id"]
    answer = api.client.delete(f"/v1/files/{file_id}", content_type="application/json")
    assert answer.json() == {"id": file_id, "object": "file", "deleted": True}
    for response in (
        api.get(f"/v1/files/{file_id}"),
        api.get(f"/v1/files/{file_id}/content"),
        api.client.delete(f"/v1/files/{file_id}"),
    ):
        error_of(response, 404, "not_found", "file_id")
    record = StoredFile.objects.get(public_id=file_id)
    assert record.deleted_at is not None
    assert (record.size_bytes, record.filename) == (len(FILE), "requests.jsonl")


def test_another_tenants_file_is_not_found(api: Api, other: Api) -> None:
    file_id = uploaded(other)["id"]
    for response in (
        api.get(f"/v1/files/{file_id}"),
        api.get(f"/v1/files/{file_id}/content"),
        api.client.delete(f"/v1/files/{file_id}"),
    ):
        error_of(response, 404, "not_found", "file_id")
    error_of(api.get(f"/v1/files?after={file_id}"), 404, "not_found", "after")
    assert api.get("/v1/files").json()["data"] == []
    assert content_of(other, file_id) == FILE


def test_a_list_is_read_on_after_its_last_file_was_deleted(api: Api, clock: Clock) -> None:
    ids: list[str] = []
    for _ in range(3):
        ids.insert(0, uploaded(api)["id"])
        clock.advance(seconds=1)
    assert api.client.delete(f"/v1/files/{ids[1]}").status_code == 200
    assert [each["id"] for each in api.get(f"/v1/files?after={ids[1]}").json()["data"]] == [ids[2]]


@pytest.mark.parametrize(
    ("count", "minutes", "name", "is_same"),
    [
        ("1", 14, "a.jsonl", True),
        ("2", 14, "a.jsonl", True),
        ("0", 14, "a.jsonl", False),
        ("-1", 14, "a.jsonl", False),
        ("1", 16, "a.jsonl", False),
        ("1", 14, "b.jsonl", False),
    ],
)
def test_an_upload_that_an_sdk_repeats_is_the_same_file(
    api: Api, clock: Clock, count: str, minutes: int, name: str, *, is_same: bool
) -> None:
    first = uploaded(api, part("purpose", "batch"), part("file", FILE, "a.jsonl"))
    clock.advance(minutes=minutes)
    body = form(part("purpose", "batch"), part("file", FILE, name))
    again = api.client.generic(
        "POST",
        "/v1/files",
        body,
        content_type=f"multipart/form-data; boundary={BOUNDARY}",
        headers={"x-stainless-retry-count": count},
    )
    assert (again.json()["id"] == first["id"], again.get("idempotent-replayed") == "true") == (is_same, is_same)
    assert StoredFile.objects.count() == len(blobs()) == (1 if is_same else 2)


@override_settings(STORED_FILES_MAX_BYTES=len(FILE))
def test_a_repeated_upload_needs_no_room_of_its_own(api: Api) -> None:
    body = form(part("purpose", "batch"), part("file", FILE, "a.jsonl"))
    for repeated in ({"Idempotency-Key": "k-1"}, {"x-stainless-retry-count": "1"}):
        ids = {
            api.client.generic(
                "POST", "/v1/files", body, content_type=f"multipart/form-data; boundary={BOUNDARY}", headers=headers
            ).json()["id"]
            for headers in (repeated, repeated)
        }
        assert len(ids) == 1
    error_of(upload(api), 413, "payload_too_large", "file")


def test_a_list_is_paged_in_both_orders(api: Api, clock: Clock) -> None:
    ids = []
    for _ in range(5):
        ids.append(uploaded(api)["id"])
        clock.advance(seconds=1)
    newest = api.get("/v1/files?limit=2").json()
    assert [each["id"] for each in newest["data"]] == [ids[4], ids[3]]
    assert (newest["first_id"], newest["last_id"], newest["has_more"]) == (ids[4], ids[3], True)
    rest = api.get(f"/v1/files?limit=3&after={ids[3]}").json()
    assert ([each["id"] for each in rest["data"]], rest["has_more"]) == ([ids[2], ids[1], ids[0]], False)
    oldest = api.get(f"/v1/files?order=asc&after={ids[1]}").json()
    assert [each["id"] for each in oldest["data"]] == ids[2:]
    assert api.get("/v1/files?purpose=batch_output").json() == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }
    assert len(api.get("/v1/files?purpose=batch").json()["data"]) == 5


@pytest.mark.parametrize("query", ["limit=0", "limit=10001", "order=up"])
def test_a_list_asked_wrongly_is_refused(api: Api, query: str) -> None:
    error_of(api.get(f"/v1/files?{query}"), 400, "invalid_value", query.split("=", maxsplit=1)[0])


def test_a_list_never_holds_what_the_file_says(api: Api) -> None:
    uploaded(api)
    assert PROMPT_WORD not in json.dumps(api.get("/v1/files").json())
