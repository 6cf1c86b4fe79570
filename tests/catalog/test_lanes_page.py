"""The operators' lanes page."""

from __future__ import annotations

import re

import pytest
from django.http import HttpResponse, HttpResponseBase
from django.test import Client
from django.urls import reverse

from accounts.models import StaffRole, User
from catalog.domain.records import LaneHealth, Rotation
from catalog.models import LaneRotation
from catalog.selectors import current_catalog
from catalog.services.rotation import rotate_lane
from catalog.services.sla import record_sla_snapshot
from tests.harness.clock import Clock
from tests.harness.world import keep_models_in_service

PAGE = "/ops/lanes/"
KEY = ("gpt-4o", "openai-direct")
ROTATE = "/ops/lanes/gpt-4o/openai-direct/rotate/"
REGION = {"HX-Request": "true", "HX-Target": "lanes"}
DIALOG = {"HX-Request": "true", "HX-Target": "dialog"}
ROW = '<tr id="lane-gpt-4o-openai-direct">'


def _signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def desk(operator: User) -> Client:
    return _signed_in(operator)


def _html(response: HttpResponseBase) -> str:
    assert isinstance(response, HttpResponse)
    return response.content.decode()


def _text(response: HttpResponseBase) -> str:
    return " ".join(_html(response).split())


def _region(response: HttpResponseBase) -> str:
    found = re.search(r'<section id="lanes".*?</section>', _text(response))
    assert found
    return found.group()


def _rows(response: HttpResponseBase) -> list[str]:
    return re.findall(r'<tr id="(lane-[^"]+)"', _html(response))


def test_the_page_shows_every_lane_those_in_rotation_first(desk: Client) -> None:
    response = desk.get(PAGE)
    assert response.status_code == 200
    rows = _rows(response)
    assert len(rows) == len(set(rows)) == len(current_catalog().lanes)
    taking = sum(lane.rotation is Rotation.IN for lane in current_catalog().lanes.values())
    assert not any("openai-azure-global" in row for row in rows[:taking])
    assert any("openai-azure-global" in row for row in rows[taking:])


def test_a_row_says_what_an_operator_needs(desk: Client, clock: Clock) -> None:
    health = LaneHealth(
        error_ppm=12_300,
        p95_dispatch_ms=30,
        p50_completion_minutes=4,
        p95_completion_minutes=55,
        sample_count=1_200,
        enqueued_tokens=2_000_000,
    )
    record_sla_snapshot({KEY: health}, clock.now())
    row = _text(desk.get(PAGE, {"text": "gpt-4o-2024-08-06"}))
    row = row[row.index(ROW) : row.index("</tr>", row.index(ROW))]
    for shown in (
        "In rotation",
        ">55 min<",
        "1.23 %",
        "of 1,200",
        "$1.25",
        "$5.00",
        ">2,000,000<",
        "4,998,000,000 tokens free",
    ):
        assert shown in row
    assert "not measured" not in row


def test_a_lane_without_measurement_is_marked(desk: Client) -> None:
    assert ">not measured<" in _text(desk.get(PAGE, {"text": "gpt-4o-2024-08-06"}))


def test_page_and_fragment_show_the_same_region(desk: Client) -> None:
    page = desk.get(PAGE, {"provider": "openai"})
    fragment = desk.get(PAGE, {"provider": "openai"}, headers=REGION)
    assert "<html" in page.content.decode()
    assert "<html" not in fragment.content.decode()
    clock_of = re.compile(r"<time .*?</time>")
    assert clock_of.sub("", _region(page)) == clock_of.sub("", _region(fragment))


def test_going_back_in_history_gets_the_whole_page(desk: Client) -> None:
    response = desk.get(PAGE, headers={**REGION, "HX-History-Restore-Request": "true"})
    assert "<html" in response.content.decode()


def test_polling_answers_nothing_until_something_moves(desk: Client, operator: User) -> None:
    found = re.search(r'hx-get="(/ops/lanes/\?[^"]*v=[^"]*)"', desk.get(PAGE).content.decode())
    assert found
    poll_url = found.group(1).replace("&amp;", "&")
    assert desk.get(poll_url, headers=REGION).status_code == 204
    rotate_lane(*KEY, Rotation.DRAIN, "seen by the poll", operator)
    response = desk.get(poll_url, headers=REGION)
    assert response.status_code == 200
    assert "seen by the poll" in _text(response)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"text": "CLAUDE-3-5-HAIKU-latest"}, 1),
        ({"text": "amazon-bedrock-us-east-1", "rotation": "out"}, 6),
        ({"text": "gpt-4o-mini", "provider": "openai", "rotation": "in"}, 1),
        ({"provider": "openai", "rotation": "out"}, 0),
        ({"rotation": "sideways"}, 148),
    ],
)
def test_filters_stand_in_the_address(desk: Client, query: dict[str, str], count: int) -> None:
    keep_models_in_service()
    assert len(_rows(desk.get(PAGE, query))) == count


def test_no_match_says_so_and_offers_to_clear(desk: Client) -> None:
    text = _text(desk.get(PAGE, {"text": "nothing like it"}))
    assert "No lanes match these filters" in text
    assert 'href="/ops/lanes/">Clear filters' in text


def test_each_filter_can_be_taken_away(desk: Client) -> None:
    text = _text(desk.get(PAGE, {"provider": "openai", "rotation": "in"}))
    assert 'href="?rotation=in" aria-label="Remove filter Provider: OpenAI"' in text
    assert 'href="?provider=openai" aria-label="Remove filter Rotation: In rotation"' in text


def test_rotating_by_htmx_answers_the_changed_row(desk: Client, operator: User) -> None:
    dialog = desk.get(ROTATE, headers=DIALOG)
    assert "<html" not in dialog.content.decode()
    response = desk.post(ROTATE, {"rotation": "out", "reason": "errors since noon"}, headers=DIALOG)
    assert response.status_code == 200
    assert _text(response).startswith(ROW)
    assert "errors since noon" in _text(response)
    assert response["HX-Retarget"] == "#lane-gpt-4o-openai-direct"
    assert "dialog-close" in response["HX-Trigger"]
    entry = LaneRotation.objects.get()
    assert (entry.changed_by, entry.to_rotation, entry.reason) == (operator, "out", "errors since noon")


def test_rotating_without_script_leads_back_to_the_list(desk: Client) -> None:
    assert "<html" in desk.get(ROTATE).content.decode()
    response = desk.post(ROTATE, {"rotation": "drain", "reason": "errors since noon"}, follow=True)
    assert response.redirect_chain == [(reverse("catalog:lane-list"), 302)]
    assert "gpt-4o on openai-direct is now draining." in _text(response)


@pytest.mark.parametrize("headers", [DIALOG, {}])
@pytest.mark.parametrize("reason", ["", "  ", "no", "x" * 201])
def test_a_bad_reason_redraws_the_form(desk: Client, headers: dict[str, str], reason: str) -> None:
    response = desk.post(ROTATE, {"rotation": "out", "reason": reason}, headers=headers)
    assert response.status_code == 422
    text = _text(response)
    assert 'aria-invalid="true"' in text
    assert "The rotation was not changed" in text
    assert ("<html" in text) == (not headers)
    assert current_catalog().lanes[KEY].rotation == Rotation.IN


def test_an_unknown_rotation_redraws_the_form(desk: Client) -> None:
    assert desk.post(ROTATE, {"rotation": "sideways", "reason": "why not"}, headers=DIALOG).status_code == 422


def test_a_lane_without_adapter_can_only_stay_out(desk: Client) -> None:
    url = "/ops/lanes/amazon.nova-lite/amazon-bedrock-us-east-1/rotate/"
    assert 'value="in"' not in desk.get(url).content.decode()
    assert desk.post(url, {"rotation": "in", "reason": "let us try"}).status_code == 422


def test_the_same_state_again_changes_nothing(desk: Client) -> None:
    response = desk.post(ROTATE, {"rotation": "in", "reason": "just to be sure"}, headers=DIALOG)
    assert response.status_code == 200
    assert "was already in rotation" in response["HX-Trigger"]
    assert not LaneRotation.objects.exists()


def test_the_form_says_what_is_at_stake_and_what_was_before(desk: Client, operator: User) -> None:
    rotate_lane(*KEY, Rotation.DRAIN, "the first time", operator)
    text = _text(desk.get(ROTATE, headers=DIALOG))
    assert "without this lane gpt-4o cannot be quoted" in text
    assert "the first time" in text


def test_an_unknown_lane_is_not_found(desk: Client) -> None:
    assert desk.get("/ops/lanes/gpt-4o/anthropic-direct/rotate/").status_code == 404


def test_a_reason_is_text_never_markup(desk: Client) -> None:
    desk.post(ROTATE, {"rotation": "out", "reason": "<script>alert(1)</script>"})
    text = _text(desk.get(PAGE, {"text": "gpt-4o-2024-08-06"}))
    assert "&lt;script&gt;" in text
    assert "<script>alert" not in text


def test_support_reads_but_may_not_rotate(support: User) -> None:
    client = _signed_in(support)
    page = client.get(PAGE)
    assert page.status_code == 200
    assert "rotate/" not in page.content.decode()
    for response in (client.get(ROTATE), client.post(ROTATE, {"rotation": "out", "reason": "not mine to do"})):
        assert response.status_code == 403
        assert "operator" in _text(response)
    assert current_catalog().lanes[KEY].rotation == Rotation.IN


def test_a_superadmin_may_rotate(customer: User) -> None:
    customer.staff_role = StaffRole.SUPERADMIN
    customer.save(update_fields=["staff_role"])
    client = _signed_in(customer)
    assert ROTATE in client.get(PAGE).content.decode()
    assert client.post(ROTATE, {"rotation": "out", "reason": "whole house"}).status_code == 302


@pytest.mark.parametrize("address", [PAGE, ROTATE])
def test_customers_find_nothing_here(customer: User, address: str) -> None:
    assert _signed_in(customer).get(address).status_code == 404


@pytest.mark.parametrize("address", [PAGE, ROTATE])
def test_visitors_are_led_to_sign_in(db: None, address: str) -> None:
    response = Client().get(address)
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("accounts:login"))


def test_only_reading_and_posting_is_taken(desk: Client) -> None:
    assert desk.post(PAGE).status_code == 405
    assert desk.put(ROTATE).status_code == 405


def test_a_post_without_csrf_token_is_refused(operator: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    assert client.post(ROTATE, {"rotation": "out", "reason": "forged from afar"}).status_code == 403


def test_the_page_reads_a_bounded_number_of_times(desk: Client, django_assert_max_num_queries: object) -> None:
    desk.get(PAGE)
    assert callable(django_assert_max_num_queries)
    with django_assert_max_num_queries(8):
        desk.get(PAGE)
