"""Files on pages: the list with what is gone, one file and its uses, deleting, and doing failed rows again."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.test import Client

from accounts.models import MemberRole
from routing.models import Batch, Quote, StoredFile
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of

LIST = "/app/files/"


def names_at(customer: Client, query: str = "") -> list[str]:
    page = html_of(customer.get(f"{LIST}{query}", headers={"HX-Request": "true", "HX-Target": "list"}))
    return re.findall(r'<a href="/app/files/[^"]*" title="([^"]*)"', page)


def finished_of_file(tenant: Tenant, simulator: RunningSimulator, clock: Clock) -> Batch:
    """A batch of an uploaded file, of which number 3 failed."""
    simulator.control.add_fault("row_error", contains="number 3", status_code=400, code="invalid_request")
    batch = scenes.validating(tenant, scenes.rows())
    price_next_file()
    validate_next_batch()
    batch.refresh_from_db()
    return scenes.finished(batch, simulator, clock)


def test_a_file_says_what_it_is_and_what_was_made_of_it(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = finished_of_file(tenant, simulator, clock)
    output = batch.output_file
    assert output is not None
    uploaded = StoredFile.objects.get(public_id=batch.input_file_id)
    assert names_at(customer, "?purpose=batch") == ["rows.jsonl"]
    assert output.filename in names_at(customer, "?purpose=batch_output&state=kept")
    assert len(names_at(customer)) == StoredFile.objects.count() == 4
    page = customer.get(f"{LIST}{uploaded.public_id}/")
    assert f"({uploaded.size_bytes:,} bytes)" in words_of(page)
    assert "Lines 10" in words_of(page)
    assert f"/app/batches/{batch.public_id}/" in html_of(page)
    assert f"/app/quotes/{batch.quote_id}/" in html_of(page)
    assert "Lines 9" in words_of(customer.get(f"{LIST}{output.public_id}/"))
    content = b"".join(customer.get(f"{LIST}{uploaded.public_id}/content"))
    assert content == scenes.rows()


def test_a_deleted_file_stays_as_a_record(customer: Client, tenant: Tenant) -> None:
    file_id = scenes.file_sent(tenant, scenes.rows())
    url = f"{LIST}{file_id}/"
    assert "This cannot be undone" in words_of(customer.get(f"{url}delete/"))
    assert customer.post(f"{url}delete/").status_code == 302
    assert "This file was deleted" in words_of(customer.get(url))
    assert "by Casey Customer" in words_of(customer.get(url))
    assert customer.get(f"{url}content").status_code == 404
    assert names_at(customer, "?state=deleted") == ["rows.jsonl"]
    assert names_at(customer, "?state=kept") == []
    assert customer.post(f"{url}delete/").status_code == 302


def test_the_files_of_a_batch_go_together_and_its_rows_keep_their_outcomes(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = finished_of_file(tenant, simulator, clock)
    url = f"/app/batches/{batch.public_id}/"
    assert customer.post(f"{url}files/delete/").status_code == 302
    page = words_of(customer.get(url))
    assert "They were deleted" in page
    assert "Retry failed" not in page
    assert customer.get(f"{url}files/results").status_code == 404
    rows = words_of(customer.get(f"{url}requests"))
    assert "Row 3 3 Failed provider_error" in rows
    assert "gpt-4o-mini-3" not in rows
    assert "It is gone" in words_of(customer.get(f"{url}requests/4"))


def test_failed_requests_become_a_quote_of_their_own(
    customer: Client, tenant: Tenant, simulator: RunningSimulator, clock: Clock
) -> None:
    batch = finished_of_file(tenant, simulator, clock)
    assert "Retry failed" in words_of(customer.get(f"/app/batches/{batch.public_id}/"))
    answer = customer.post(f"/app/batches/{batch.public_id}/retry/")
    price_next_file()
    quote = Quote.objects.get(public_id=answer["Location"].split("/")[3])
    assert quote.row_count == batch.failed_count == 1
    assert customer.get(answer["Location"]).status_code == 200
    running = scenes.accepted(tenant)
    assert "Retry failed" not in words_of(customer.get(f"/app/batches/{running.public_id}/"))
    answer = customer.post(f"/app/batches/{running.public_id}/retry/", follow=True)
    assert "its rows can be done again when it has ended" in words_of(answer)


def test_files_are_the_organisations_and_bytes_for_those_who_work_with_them(
    tenant: Tenant, as_role: Callable[[str], Client]
) -> None:
    file_id = scenes.file_sent(tenant, scenes.rows())
    viewer = as_role(MemberRole.VIEWER)
    paths = ("", f"{file_id}/", f"{file_id}/content", f"{file_id}/delete/")
    assert [viewer.get(f"{LIST}{path}").status_code for path in paths] == [200, 200, 403, 403]
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Otto Other"))
    assert names_at(stranger) == []
    assert [stranger.get(f"{LIST}{path}").status_code for path in paths[1:]] == [404, 404, 404]
