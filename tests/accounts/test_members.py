"""An organisation's settings and people, and passwords by mail."""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.test import Client

from accounts.models import AuditEntry, Membership, Organisation, User
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of

INVITE = {"name": "Nadia New", "email": "Nadia@Example.com", "role": "developer"}
SETTINGS = "/app/settings/"
LONG = "a long enough password"


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    return signed_in(scenes.member(tenant.organisation))


def link_in_the_mail() -> str:
    found = re.search(r"http://testserver(/reset/\S+)", str(mail.outbox[-1].body))
    assert found
    return found.group(1)


def choose(client: Client, link: str, password: str) -> tuple[int, str]:
    """Follow a link as a browser does, and send the form behind it."""
    form = client.get(link, follow=True)
    assert form.status_code == 200
    action = form.redirect_chain[-1][0] if form.redirect_chain else link
    answer = client.post(action, {"new_password1": password, "new_password2": password})
    return answer.status_code, html_of(client.get("/login"))


def test_who_is_invited_chooses_a_password_and_is_in(admin: Client, tenant: Tenant) -> None:
    answer = admin.post(f"{SETTINGS}members/invite/", INVITE, follow=True)
    assert "a mail with a link went to nadia@example.com" in words_of(answer)
    assert mail.outbox[0].to == ["nadia@example.com"]
    assert mail.outbox[0].subject == "You are invited to Acme on Lanehouse"
    visitor, link = Client(), link_in_the_mail()
    assert choose(visitor, link, "short")[0] == 422
    status, login = choose(visitor, link, LONG)
    assert status == 302
    assert "Your password was saved." in login
    assert "This link is no longer good" in words_of(Client().get(link, follow=True))
    visitor.post("/login", {"username": "nadia@example.com", "password": LONG})
    assert "Nadia New nadia@example.com Developer" in words_of(visitor.get(SETTINGS))
    entries = AuditEntry.objects.filter(object_id="nadia@example.com").order_by("pk")
    assert [(entry.action, entry.actor_name) for entry in entries] == [
        ("member.role_set", "Casey Customer"),
        ("sign_in.password_chosen", "Nadia New"),
        ("sign_in.made", "Nadia New"),
    ]


def test_nobody_learns_by_inviting_who_is_whose_customer(admin: Client) -> None:
    scenes.member(make_tenant("other").organisation, name="Stranger Sam")
    scenes.staff()
    said = set()
    for email in ("stranger@example.com", "olu@lanehouse.example", "casey@example.com"):
        answer = admin.post(f"{SETTINGS}members/invite/", INVITE | {"email": email})
        assert answer.status_code == 422
        said.add(re.findall(r"(This address[^<]+|This person[^<]+)", html_of(answer))[0])
    assert len(said) == 2
    assert mail.outbox == []


def test_an_organisation_keeps_an_admin(admin: Client, tenant: Tenant) -> None:
    own = f"{SETTINGS}members/casey@example.com/"
    for form in ({"role": "viewer"}, {"role": "admin", "remove": "yes"}):
        answer = admin.post(own, form)
        assert answer.status_code == 422
        assert "An organisation needs an admin." in words_of(answer)
    scenes.member(tenant.organisation, "viewer", name="Vera Viewer")
    assert admin.post(f"{SETTINGS}members/vera@example.com/", {"role": "admin"}).status_code == 302
    assert admin.post(own, {"role": "admin", "remove": "yes"}).status_code == 302
    assert list(Membership.objects.values_list("user__email", "role")) == [("vera@example.com", "admin")]
    assert admin.get(SETTINGS).status_code == 404


def test_members_are_changed_by_an_admin_of_their_own(admin: Client, tenant: Tenant) -> None:
    scenes.member(make_tenant("other").organisation, name="Stranger Sam")
    assert admin.get(f"{SETTINGS}members/stranger@example.com/").status_code == 404
    viewer = signed_in(scenes.member(tenant.organisation, "viewer", name="Vera Viewer"))
    assert "Change Casey" not in html_of(viewer.get(SETTINGS))
    assert viewer.post(SETTINGS, {"reporting_zone": "Asia/Kathmandu"}).status_code == 403
    for path in ("invite/", "casey@example.com/"):
        assert viewer.get(f"{SETTINGS}members/{path}").status_code == 403
        assert viewer.post(f"{SETTINGS}members/{path}", {"role": "viewer"}).status_code == 403
    assert admin.post(SETTINGS, {"reporting_zone": "Asia/Kathmandu"}).status_code == 302
    assert admin.post(SETTINGS, {"reporting_zone": "Asia/Atlantis"}).status_code == 422
    zones = Organisation.objects.filter(slug="acme").values_list("reporting_zone", flat=True)
    assert set(zones) == {"Asia/Kathmandu"}
    assert AuditEntry.objects.get(action="organisation.reporting_zone_set").changes == {
        "reporting_zone": ["UTC", "Asia/Kathmandu"]
    }


def test_a_page_that_refuses_leaves_no_stack_in_the_log(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    viewer = signed_in(scenes.member(tenant.organisation, "viewer", name="Vera Viewer"))
    assert viewer.get(f"{SETTINGS}members/invite/").status_code == 403
    assert "Forbidden" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_forgotten_password_is_told_to_its_owner_alone(client: Client, tenant: Tenant) -> None:
    user = scenes.member(tenant.organisation)
    pages = [
        words_of(client.post("/reset/", {"email": email}, follow=True))
        for email in ("nobody@example.com", "CASEY@example.com")
    ]
    assert pages[0] == pages[1]
    assert [each.to for each in mail.outbox] == [["casey@example.com"]]
    assert choose(Client(), link_in_the_mail(), LONG)[0] == 302
    user.refresh_from_db()
    assert user.check_password(LONG)
    assert client.post("/reset/", {"email": "no address"}).status_code == 422


def test_links_are_not_asked_for_without_end(client: Client, tenant: Tenant) -> None:
    scenes.member(tenant.organisation)
    answers = [client.post("/reset/", {"email": "casey@example.com"}).status_code for _ in range(11)]
    assert answers == [302] * 10 + [429]
    assert len(mail.outbox) == 10
    # Nobody is kept from signing in by that.
    pair = {"username": "casey@example.com", "password": scenes.PASSWORD}
    assert client.post("/login", pair).status_code == 302
    assert User.objects.count() == 1


@pytest.mark.parametrize("link", ["%00/x-y/", "%FF/x-y/", "MQ/set-password/", "x" * 900 + "/y/", "////", "MTI/a-%00/"])
def test_a_link_that_nobody_sent_is_refused_in_words(client: Client, tenant: Tenant, link: str) -> None:
    answer = client.get(f"/reset/{link}", follow=True)
    assert answer.status_code in {200, 404}
    assert "Save the password" not in html_of(answer)


@pytest.mark.parametrize("name", ["%00", "nobody@example.com", "x" * 900, "%F0%9F%A6%80", "invite%2F.."])
def test_a_member_that_is_none_is_not_found(admin: Client, name: str) -> None:
    for answer in (
        admin.get(f"{SETTINGS}members/{name}/"),
        admin.post(f"{SETTINGS}members/{name}/", {"remove": "yes"}),
    ):
        assert answer.status_code == 404
