"""Pages of quotes: pricing a file, the list, one quote, accepting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from routing.models import Batch, Quote, StoredFile
from routing.services.file_quotes import price_next_file
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, text_of, words_of

LIST, NEW = "/app/quotes/", "/app/quotes/new/"


def price(client: Client, body: bytes, **fields: str) -> str:
    """Price a file by the form, and give the address of its quote."""
    response = client.post(NEW, {"file": SimpleUploadedFile("a.jsonl", body), **fields})
    assert response.status_code == 302, text_of(response)
    return response["Location"]


def test_a_file_is_priced_and_its_quote_says_what_and_why(customer: Client) -> None:
    words = words_of(customer.get(price(customer, scenes.rows("gpt-4o-mini", count=3))))
    assert "openai-direct is the only lane of gpt-4o-mini. Its score:" in words
    # the stated prior: 30 min x 500 and 10,000 ppm x 5,000 / 10,000, and the charge with its fee
    assert "+ $0.015000 for 30 min (p95) + $0.005000 for 1 % errors, a stated prior" in words
    assert "5000 a percent" in words
    assert "Accept and start the batch" in words


def test_pasted_lines_are_priced_like_a_file(customer: Client) -> None:
    text = scenes.rows("gpt-4o-mini", count=3).decode().replace("\n", "\r\n")
    pasted = customer.post(NEW, {"text": text})
    assert pasted.status_code == 302
    price(customer, scenes.rows("gpt-4o-mini", count=3))
    by_text, by_file = Quote.objects.order_by("created_at", "public_id")
    assert by_text.body_size_bytes == by_file.body_size_bytes


def test_wrong_rows_stand_in_a_table_and_nothing_is_stored(customer: Client) -> None:
    response = customer.post(NEW, {"text": '{"custom_id": "a"}\nZanzibar\n'})
    assert response.status_code == 422
    words = words_of(response)
    assert "What is wrong with the file" in words
    assert "invalid_json_line" in words
    assert not Quote.objects.exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Choose a file, or paste its lines below."),
        ({"text": "x", "file": SimpleUploadedFile("a.jsonl", b"x")}, "Choose a file or paste lines, not both."),
        ({"text": "x", "workflow": "unknown"}, "Select a valid choice"),
    ],
)
def test_a_form_that_cannot_be_read_says_why(customer: Client, fields: dict[str, str], said: str) -> None:
    response = customer.post(NEW, fields)
    assert response.status_code == 422
    assert said in words_of(response)


def test_a_longer_file_is_kept_and_priced_in_the_background(customer: Client, settings: Any) -> None:
    body = scenes.rows("gpt-4o-mini", count=3)
    settings.QUOTE_BODY_MAX_BYTES = len(body) - 1
    page = price(customer, body)
    assert StoredFile.objects.get().filename == "a.jsonl"
    assert Quote.objects.get().status == "pending"
    assert price_next_file()
    words = words_of(customer.get(page))
    assert "openai-direct is the only lane of gpt-4o-mini." in words
    assert "Accept and start the batch" in words


def test_what_is_too_long_for_its_way_is_refused_before_it_is_read(customer: Client, settings: Any) -> None:
    settings.QUOTE_BODY_MAX_BYTES, settings.FILE_MAX_BYTES = 1_048_576, 2 * 1_048_576
    file = {"file": SimpleUploadedFile("a.jsonl", b"x" * (2 * 1_048_576 + 1))}
    for fields, said in ((file, "A file is up to 2 MiB."), ({"text": "x" * 1_048_577}, "Up to 1 MiB can be pasted.")):
        response = customer.post(NEW, fields)
        assert response.status_code == 422
        assert said in words_of(response)
    assert not StoredFile.objects.exists()


def test_it_is_accepted_from_its_page_once(customer: Client, tenant: Tenant) -> None:
    path = price(customer, scenes.rows())
    first = customer.post(f"{path}accept/", {"name": "from the page"})
    again = customer.post(f"{path}accept/", {"name": "from the page"})
    batch = Batch.objects.get()
    assert first["Location"] == again["Location"] == f"/app/batches/{batch.public_id}/"
    assert batch.metadata == {"name": "from the page"}
    words = words_of(customer.get(path))
    assert "Open its batch" in words
    assert "Accept and start" not in words


def test_an_expired_quote_cannot_be_accepted(customer: Client, clock: Clock) -> None:
    path = price(customer, scenes.rows())
    clock.advance(hours=1)
    page = words_of(customer.get(path))
    assert "This quote has expired" in page
    assert "Accept and start" not in page
    refused = customer.post(f"{path}accept/")
    assert refused.status_code == 422
    assert "It was not accepted" in words_of(refused)
    assert not Batch.objects.exists()


def test_too_little_credit_is_said_before_and_refused_after(db: None) -> None:
    poor = make_tenant("poor", credit_micro_usd=20_000)
    client = signed_in(scenes.member(poor.organisation, name="Poor Pat"))
    path = price(client, scenes.rows("gpt-4o-mini", count=1))
    assert "The credit is not enough" in words_of(client.get(path))
    refused = client.post(f"{path}accept/")
    assert refused.status_code == 422
    assert "It was not accepted" in words_of(refused)
    assert not Batch.objects.exists()


def test_the_list_filters_by_state(customer: Client, tenant: Tenant, clock: Clock) -> None:
    old = price(customer, scenes.rows())
    clock.advance(hours=1)
    accepted = scenes.accepted(tenant).quote_id
    still_open = price(customer, scenes.rows())
    shown = {
        state: [quote_id for quote_id in (old.split("/")[3], accepted, still_open.split("/")[3]) if quote_id in html]
        for state in ("", "open", "accepted", "expired", "failed")
        for html in [text_of(customer.get(f"{LIST}?state={state}"))]
    }
    ids = [old.split("/")[3], accepted, still_open.split("/")[3]]
    assert shown == {"": ids, "open": [ids[2]], "accepted": [ids[1]], "expired": [ids[0]], "failed": []}


@pytest.mark.parametrize(
    ("role", "new_status", "accept_status"), [("developer", 200, 302), ("billing", 403, 403), ("viewer", 403, 403)]
)
def test_who_may_price_and_accept(
    customer: Client, as_role: Callable[[str], Client], role: str, new_status: int, accept_status: int
) -> None:
    path = price(customer, scenes.rows())
    client = as_role(role)
    assert client.get(path).status_code == 200
    assert client.get(NEW).status_code == new_status
    assert client.post(f"{path}accept/").status_code == accept_status


def test_a_stranger_finds_no_quote(customer: Client) -> None:
    path = price(customer, scenes.rows())
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Sam Stranger"))
    assert stranger.get(path).status_code == 404
    assert stranger.post(f"{path}accept/").status_code == 404
