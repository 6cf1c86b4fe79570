"""The list of batches."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from django.test import Client

from routing.models import Batch, SubLane
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, text_of, words_of

PAGE = "/app/batches/"


def copies(batch: Batch, numbers: range) -> None:
    """Older batches like this one, each with one sub-lane."""
    for number in numbers:
        sub_lane = batch.sub_lanes.get()
        copy = Batch.objects.get(pk=batch.pk)
        copy.pk = None
        copy.public_id, copy.quote_id = f"batch_{number:026d}", f"qt_{number:026d}"
        copy.created_at -= timedelta(seconds=number)
        copy.save(force_insert=True)
        sub_lane.pk = None
        sub_lane.batch = copy
        sub_lane.save(force_insert=True)


def test_the_newest_batch_stands_first(customer: Client, tenant: Tenant) -> None:
    for name in ("alpha", "beta"):
        scenes.accepted(tenant, name=name)
    page = words_of(customer.get(PAGE))
    assert page.index("beta") < page.index("alpha")


def test_a_row_says_what_a_person_looks_for(customer: Client, tenant: Tenant) -> None:
    batch = scenes.running(scenes.accepted(tenant, "gpt-4o-mini", "gpt-4o", count=60), completed=31, failed=2)
    page = customer.get(PAGE)
    assert f'href="/app/batches/{batch.public_id}/"' in page.content.decode()
    assert 'aria-valuetext="31 of 120 requests done, 2 failed"' in page.content.decode()
    for shown in ("nightly-classify-1129", "gpt-4o-mini and gpt-4o", "In progress", "31 / 120", "at most $0.05"):
        assert shown in words_of(page)


def test_many_models_are_counted(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    for number in range(3):
        lane = scenes.with_second_lane(batch, rows_there=1)
        SubLane.objects.filter(pk=lane.pk).update(
            model_slug=f"model-{number}", model_snapshot=f"model-{number}", lane_id="openai-direct"
        )
    assert "gpt-4o-mini and 3 more" in words_of(customer.get(PAGE))


def test_a_batch_without_name_is_listed_by_its_id(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant, name="")
    assert f'<span class="id" title="{batch.public_id}">' in text_of(customer.get(PAGE))


def test_a_long_name_is_cut_and_kept_in_the_title(customer: Client, tenant: Tenant) -> None:
    scenes.accepted(tenant, name=scenes.LONG_NAME)
    page = customer.get(PAGE)
    assert scenes.LONG_NAME not in words_of(page)
    assert f'title="{scenes.LONG_NAME}"' in page.content.decode()


def test_only_the_own_organisations_batches_are_listed(customer: Client, tenant: Tenant) -> None:
    scenes.accepted(make_tenant("other"), name="of-the-others")
    scenes.accepted(tenant, name="of-ours")
    page = words_of(customer.get(PAGE))
    assert "of-ours" in page
    assert "of-the-others" not in page


def test_older_batches_follow_without_gap_or_double(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    copies(batch, range(1, 61))
    seen: list[str] = []
    address = PAGE
    while address:
        page = customer.get(address).content.decode()
        seen += re.findall(r'href="/app/batches/(batch_\w+)/"', page)
        older = re.search(r'rel="next"\s+href="([^"]+)"', page)
        address = older.group(1) if older else ""
    assert len(seen) == len(set(seen)) == 61
    assert seen[0] == batch.public_id


def test_an_older_page_leads_back_to_the_newest(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    assert "Newest</a>" not in customer.get(PAGE).content.decode()
    assert "Newest</a>" in customer.get(f"{PAGE}?after={batch.public_id}").content.decode()


def test_past_the_last_batch_it_is_not_said_that_there_are_none(customer: Client, tenant: Tenant) -> None:
    batch = scenes.accepted(tenant)
    page = words_of(customer.get(f"{PAGE}?after={batch.public_id}"))
    assert "No batches yet" not in page
    assert "There are no older batches" in page


@pytest.mark.parametrize("after", ["batch_01", "nonsense", "%00"])
def test_an_unknown_cursor_is_not_found(customer: Client, after: str) -> None:
    assert customer.get(f"{PAGE}?after={after}").status_code == 404


def test_first_use_shows_how_to_begin(customer: Client) -> None:
    page = words_of(customer.get(PAGE))
    assert "No batches yet" in page
    assert "curl -sS http://testserver/v1/quotes/model" in page


def test_ten_and_a_hundred_rows_take_the_same_queries(
    tenant: Tenant, customer: Client, django_assert_num_queries: Callable[[int], AbstractContextManager[object]]
) -> None:
    batch = scenes.accepted(tenant)
    for numbers in (range(1, 10), range(10, 100)):
        copies(batch, numbers)
        # Session, user, membership, batches, sub-lanes.
        with django_assert_num_queries(5):
            customer.get(PAGE)


def test_a_visitor_is_led_to_sign_in(db: None) -> None:
    assert Client().get(PAGE)["Location"] == f"/login?next={PAGE}"


def test_staff_without_an_organisation_find_nothing(db: None) -> None:
    assert signed_in(scenes.staff()).get(PAGE).status_code == 404
