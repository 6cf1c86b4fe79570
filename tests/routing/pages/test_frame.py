"""What stands around every page."""

from __future__ import annotations

import pytest
from django.test import Client, RequestFactory

from accounts.models import StaffRole, User
from console.views.errors import server_error
from tests.harness.world import Tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of


@pytest.mark.parametrize(
    ("cookie", "zone"),
    [
        ("Asia%2FKolkata", "Asia/Kolkata"),
        ("Asia/Kathmandu", "Asia/Kathmandu"),
        ("Mars%2FOlympus", "UTC"),
        ("../../etc/passwd", "UTC"),
        ("", "UTC"),
    ],
)
def test_the_browsers_zone_is_taken_when_there_is_one(customer: Client, cookie: str, zone: str) -> None:
    customer.cookies["zone"] = cookie
    assert f"Times in {zone}" in words_of(customer.get("/app/batches/"))


def test_a_persons_own_zone_goes_before_the_browsers(tenant: Tenant) -> None:
    user = scenes.member(tenant.organisation)
    User.objects.filter(pk=user.pk).update(time_zone="America/Los_Angeles")
    client = signed_in(user)
    client.cookies["zone"] = "Asia%2FKolkata"
    assert "Times in America/Los_Angeles" in words_of(client.get("/app/batches/"))


def test_the_frame_names_the_viewer_and_the_organisation(customer: Client) -> None:
    page = words_of(customer.get("/app/batches/"))
    assert "Admin · Casey Customer" in page
    assert "Acme" in page


@pytest.mark.parametrize("role", [role for role in StaffRole if role != StaffRole.NONE])
def test_no_two_links_of_anybody_have_one_chord(tenant: Tenant, role: StaffRole) -> None:
    pages = [
        signed_in(scenes.staff(role)).get("/ops/batches/"),
        signed_in(scenes.member(tenant.organisation)).get("/app/"),
    ]
    for page in pages:
        links = [link for section in page.context["nav_sections"] for link in section["links"]]
        chords = [link["chord"] for link in links if link["chord"]]
        assert len(set(chords)) == len(chords)


def test_who_is_staff_and_a_member_has_each_chord_once(tenant: Tenant) -> None:
    user = scenes.member(tenant.organisation)
    User.objects.filter(pk=user.pk).update(staff_role=StaffRole.SUPERADMIN)
    page = signed_in(user).get("/app/")
    links = [link for section in page.context["nav_sections"] for link in section["links"]]
    chords = [link["chord"] for link in links if link["chord"]]
    assert len(set(chords)) == len(chords)


def test_an_error_page_has_the_requests_id(customer: Client) -> None:
    response = customer.get("/app/batches/batch_x/", headers={"x-request-id": "req-of-mine"})
    assert response["x-request-id"] == "req-of-mine"
    assert 'data-copy="req-of-mine"' in response.content.decode()


def test_the_page_of_a_broken_server_asks_no_database() -> None:
    request = RequestFactory().get("/")
    request.META["lanehouse.request_id"] = "req_1"
    response = server_error(request)
    assert response.status_code == 500
    assert 'data-copy="req_1"' in response.content.decode()
