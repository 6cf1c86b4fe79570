"""Keys of our own people: made on a page and shown once, seen in use, revoked; and each step in the audit log."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from accounts.models import AuditEntry, StaffKey, StaffRole, User
from accounts.services.staff_keys import revoke_staff_key
from ground.errors import PermissionRefused
from tests.harness.clock import Clock
from tests.routing.pages.conftest import html_of, signed_in
from tests.routing.pages.scenes import staff

LIST = "/fin/keys/"
WISH = {"name": "Month end", "scope": "finance:write", "lifetime_days": "30"}


@pytest.fixture
def fay(db: None) -> User:
    return staff(StaffRole.FINANCE, name="Fay Finance")


def made(client: Client, **changes: str) -> str:
    """Give the text of a new key."""
    texts: set[str] = set(
        re.findall(r"sk-lh-staff-[A-Za-z0-9]{46}", html_of(client.post(f"{LIST}new/", {**WISH, **changes})))
    )
    (text,) = texts
    return text


def asked(text: str) -> int:
    return Client().get("/v1/finance/invoices", headers={"Authorization": f"Bearer {text}"}).status_code


def test_a_key_is_shown_once_says_when_it_was_used_and_stops_at_its_next_call(fay: User, clock: Clock) -> None:
    at = clock.freeze(datetime(2026, 11, 9, 12, tzinfo=UTC))
    client = signed_in(fay)
    text = made(client)
    key = StaffKey.objects.get()
    assert (key.user, key.scopes, (key.expires_at - at).days, key.last_used_at) == (fay, ["finance:write"], 30, None)
    page = html_of(client.get(LIST))
    assert (text in page, "Never" in page, "Month end" in page) == (False, True, True)
    assert asked(text) == 200
    clock.advance(seconds=59)
    assert asked(text) == 200
    assert StaffKey.objects.get().last_used_at == at
    used_at = clock.advance(seconds=2)
    asked(text)
    assert StaffKey.objects.get().last_used_at == used_at
    for _ in range(2):
        client.post(f"{LIST}{key.public_id}/revoke/")
    assert asked(text) == 401
    entries = AuditEntry.objects.filter(object_type="staff_key").order_by("pk")
    assert [(each.action, each.user, each.object_id) for each in entries] == [
        ("key.created", fay, key.public_id),
        ("key.revoked", fay, key.public_id),
    ]
    assert text not in repr([each.changes for each in entries])


def test_others_see_it_and_a_superadmin_alone_revokes_it_for_them(fay: User, clock: Clock) -> None:
    text = made(signed_in(fay), scope="finance:read")
    key = StaffKey.objects.get()
    sam = staff(StaffRole.FINANCE, name="Sam Second")
    page = html_of(signed_in(sam).get(LIST))
    assert ("Fay Finance" in page, key.public_id in page) == (True, False)
    assert signed_in(sam).post(f"{LIST}{key.public_id}/revoke/").status_code == 404
    with pytest.raises(PermissionRefused):
        revoke_staff_key(key.public_id, by=sam, at=clock.now())
    assert asked(text) == 200
    assert (
        signed_in(staff(StaffRole.SUPERADMIN, name="Root Ruth")).post(f"{LIST}{key.public_id}/revoke/").status_code
        == 302
    )
    assert asked(text) == 401
    assert AuditEntry.objects.get(action="key.revoked").actor_name == "Root Ruth"


@pytest.mark.parametrize("changes", [{"name": " "}, {"name": "n" * 81}, {"scope": "all"}, {"lifetime_days": "never"}])
def test_what_no_key_can_be_is_refused(fay: User, changes: dict[str, str]) -> None:
    assert signed_in(fay).post(f"{LIST}new/", {**WISH, **changes}).status_code == 422
    assert not StaffKey.objects.exists()


def test_many_keys_are_paged_and_filtered(fay: User) -> None:
    client = signed_in(fay)
    for number in range(20):
        made(client, name=f"Program {number}")
    assert client.post(f"{LIST}new/", WISH).status_code == 422
    assert html_of(client.get(f"{LIST}?text=Program 13&state=active")).count('scope="row"') == 1
    for odd in (f"{LIST}?after=skey_x", f"{LIST}skey_%00/revoke/", f"{LIST}?text=%00"):
        assert client.get(odd).status_code in {200, 404}
    for role in (StaffRole.OPERATOR, StaffRole.SUPPORT):
        assert signed_in(staff(role, name=f"{role} Olu")).get(LIST).status_code == 403
