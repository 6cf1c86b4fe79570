"""Pages of batches and quotes whose file is still read, or was not taken."""

from __future__ import annotations

from django.test import Client

from routing.models import Batch, FilePricing
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from tests.harness.world import Tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import REGION, html_of, poll_url_of, signed_in, text_of, words_of

OF_QUOTE = {**REGION, "HX-Target": "quote"}
WRONG = scenes.rows(count=2) + scenes.rows(count=1) + b"not json\n"


def url(batch: Batch) -> str:
    return f"/app/batches/{batch.public_id}/"


def test_a_validating_batch_asks_again_until_its_file_is_taken(customer: Client, tenant: Tenant) -> None:
    batch = scenes.validating(tenant, scenes.rows())
    page = customer.get(url(batch))
    assert "The file is being checked" in words_of(page)
    assert "Requests done" not in words_of(page)
    assert customer.get(poll_url_of(page), headers=REGION).status_code == 204
    price_next_file()
    validate_next_batch()
    fragment = customer.get(poll_url_of(page), headers=REGION)
    assert "0 / 10" in words_of(fragment)
    assert "Accepted, in progress" in words_of(fragment)


def test_a_batch_whose_file_was_not_taken_says_what_is_wrong_and_asks_no_more(customer: Client, tenant: Tenant) -> None:
    batch = scenes.validating(tenant, WRONG)
    price_next_file()
    validate_next_batch()
    page = customer.get(url(batch))
    words = words_of(page)
    assert "The file was not taken" in words
    assert "This custom_id already stands on line 1." in words
    assert "invalid_json_line" in words
    assert "hx-trigger" not in text_of(page).split('id="batch"')[1]
    assert "Failed" in words_of(customer.get("/app/batches/"))
    operator = signed_in(scenes.staff())
    assert "The file was not taken" in words_of(operator.get(f"/ops/batches/{batch.public_id}/"))
    assert operator.get("/ops/batches/").status_code == 200


def test_a_batch_is_cancelled_from_its_page_before_its_file_was_read(customer: Client, tenant: Tenant) -> None:
    batch = scenes.validating(tenant, scenes.rows())
    assert "nothing was held or sent" in words_of(customer.get(f"{url(batch)}cancel/"))
    assert customer.post(f"{url(batch)}cancel/", follow=True).status_code == 200
    words = words_of(customer.get(url(batch)))
    assert "This batch was cancelled before its file was priced" in words
    assert "Cancel the batch" not in words


def test_a_pending_quote_shows_how_far_its_file_was_read_until_it_is_priced(customer: Client, tenant: Tenant) -> None:
    quote_id = scenes.pending_quote(tenant, scenes.rows())
    path = f"/app/quotes/{quote_id}/"
    page = customer.get(path)
    assert "The file is being read" in words_of(page)
    assert customer.get(poll_url_of(page), headers=OF_QUOTE).status_code == 204
    size_bytes = len(scenes.rows())
    FilePricing.objects.update(read_bytes=size_bytes // 4)
    moved = customer.get(poll_url_of(page), headers=OF_QUOTE)
    assert f'value="{size_bytes // 4}"' in html_of(moved)
    price_next_file()
    priced = customer.get(poll_url_of(moved), headers=OF_QUOTE)
    assert "hx-trigger" not in html_of(priced)
    assert "<html" not in html_of(priced)
    assert "Accept and start the batch" in words_of(priced)
    assert customer.post(f"{path}accept/").status_code == 302


def test_a_quote_whose_file_was_refused_lists_what_is_wrong(customer: Client, tenant: Tenant) -> None:
    quote_id = scenes.pending_quote(tenant, WRONG)
    price_next_file()
    page = customer.get(f"/app/quotes/{quote_id}/")
    words = words_of(page)
    assert "The file could not be priced" in words
    assert "This custom_id already stands on line 1." in words
    assert "Correct the file and upload it again." in words
    assert 'id="quote"' in html_of(page)
    assert "hx-trigger" not in html_of(page).split('id="quote"')[1]
    assert "Failed" in words_of(customer.get("/app/quotes/?state=failed"))
