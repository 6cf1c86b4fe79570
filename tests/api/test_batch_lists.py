"""``GET /v1/batches``: narrowed by status, creation and metadata, page by page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.api.world import Api, error_of, row
from tests.harness.clock import Clock


@pytest.fixture
def ids(api: Api, clock: Clock) -> list[str]:
    """Four batches, newest first; the first and the third made were of run 7, the third is being cancelled."""
    clock.freeze(clock.now().replace(microsecond=700_000))
    made: list[str] = []
    for number, metadata in enumerate([{"run": "7", "of": "a"}, {"run": "8"}, {"run": "7"}, None]):
        made.insert(0, api.accept(api.quote(row(f"r{number}"))["id"], metadata=metadata).json()["id"])
        clock.advance(seconds=10)
    api.post(f"/v1/batches/{made[1]}/cancel", {})
    return made


def listed(api: Api, **query: Any) -> list[str]:
    response = api.get(f"/v1/batches?{urlencode(query, doseq=True)}")
    assert response.status_code == 200, response.content
    return [batch["id"] for batch in response.json()["data"]]


def test_batches_are_chosen_by_status_and_metadata(api: Api, ids: list[str]) -> None:
    assert listed(api, status="cancelling") == [ids[1]]
    assert listed(api, status=["cancelling", "in_progress"]) == ids
    assert listed(api, status="completed") == []
    assert listed(api, **{"metadata[run]": "7"}) == [ids[1], ids[3]]
    assert listed(api, **{"metadata[run]": "7", "metadata[of]": "a"}) == [ids[3]]
    assert listed(api, **{"metadata[run]": "7", "status": "in_progress"}) == [ids[3]]
    assert listed(api, **{"metadata[none]": "7"}) == []


def test_bounds_are_compared_with_the_seconds_that_are_shown(api: Api, ids: list[str]) -> None:
    second = api.batch(ids[2])["created_at"]
    assert listed(api, **{"created_at[gte]": second}) == ids[:3]
    assert listed(api, **{"created_at[gt]": second}) == ids[:2]
    assert listed(api, **{"created_at[lte]": second}) == ids[2:]
    assert listed(api, **{"created_at[lt]": second}) == ids[3:]
    assert listed(api, **{"created_at[gte]": second, "created_at[lte]": second}) == [ids[2]]


def test_a_narrowed_list_is_paged_to_its_end(api: Api, ids: list[str]) -> None:
    chosen = {"metadata[run]": "7", "limit": 1}
    first = api.get(f"/v1/batches?{urlencode(chosen)}").json()
    assert ([batch["id"] for batch in first["data"]], first["has_more"]) == ([ids[1]], True)
    # The last entry of a page may have left the list meanwhile.
    last = api.get(f"/v1/batches?{urlencode({**chosen, 'after': ids[1], 'status': 'in_progress'})}").json()
    assert ([batch["id"] for batch in last["data"]], last["has_more"]) == ([ids[3]], False)


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ("status=done", "invalid_value", "status"),
        ("created_at=1", "invalid_value", "created_at"),
        ("created_at[eq]=1", "invalid_value", "created_at"),
        ("created_at[gte]=yesterday", "invalid_type", "created_at[gte]"),
        ("created_at[gte]=-1", "invalid_type", "created_at[gte]"),
        ("created_at[lte]=253402300799", "invalid_type", "created_at[lte]"),
        ("metadata=7", "invalid_value", "metadata"),
        ("metadata[]=7", "invalid_value", "metadata"),
        ("&".join(f"metadata[k{number}]=1" for number in range(17)), "invalid_value", "metadata"),
    ],
)
def test_what_nothing_can_match_is_refused_by_name(api: Api, query: str, code: str, param: str) -> None:
    error_of(api.get(f"/v1/batches?{query}"), 400, code, param)


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        ("batches", "batch_nope"),
        ("files", "file-nope"),
        ("workflows", "wf_nope"),
        ("receipts", "rcpt_nope"),
        ("webhook_endpoints", "whe_nope"),
        ("events", "evt_nope"),
        ("deliveries", "dlv_nope"),
    ],
)
def test_a_page_after_an_unknown_entry_is_not_found_in_every_list(api: Api, path: str, unknown: str) -> None:
    error_of(api.get(f"/v1/{path}?after={unknown}"), 404, "not_found", "after")


def test_empty_metadata_is_none(api: Api) -> None:
    quote_id = api.quote(row("a"))["id"]
    first = api.accept(quote_id, metadata={})
    assert first.json()["metadata"] is None
    assert api.accept(quote_id)["idempotent-replayed"] == "true"
    assert api.accept(quote_id, metadata=None).json()["id"] == first.json()["id"]


def test_a_list_has_twenty_entries_where_no_number_is_asked_for(api: Api, clock: Clock) -> None:
    for number in range(21):
        api.accept(api.quote(row(f"r{number}"))["id"])
    page = api.get("/v1/batches").json()
    assert (len(page["data"]), page["has_more"]) == (20, True)
    rest = api.get(f"/v1/batches?after={page['last_id']}").json()
    assert (len(rest["data"]), rest["has_more"]) == (1, False)
    # Case 201: a page that ends exactly at the end promises nothing.
    assert api.get("/v1/batches?limit=21").json()["has_more"] is False
