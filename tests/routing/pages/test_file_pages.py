"""Pages of batches and quotes whose file is still read, or was not taken."""

from __future__ import annotations

from django.test import Client

from routing.models import Batch
from routing.services.file_batches import validate_next_batch
from routing.services.file_quotes import price_next_file
from tests.harness.world import Tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import REGION, poll_url_of, signed_in, text_of, words_of

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
