"""Pages of API keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from playwright.sync_api import Page, expect

from accounts.domain.scopes import Scope
from accounts.domain.staff_scopes import StaffScope
from accounts.models import Organisation, StaffKey
from accounts.services.organisations import create_api_key, revoke_api_key
from accounts.services.staff_keys import create_staff_key
from tests.browser.cases import PageCase, Role, World

_KEYS = "/app/keys/"
_STAFF_KEYS = "/fin/keys/"
_ADMINS: Mapping[Role, int] = {"nobody": 302, "viewer": 403, "operator": 404}


def _made(world: World, organisation: Organisation, name: str, *scopes: Scope, days: int | None = None) -> str:
    lifetime = timedelta(days=days) if days else None
    key, _new = create_api_key(
        organisation=organisation, name=name, at=world.clock.now(), scopes=scopes, lifetime=lifetime
    )
    return key.public_id


def _some_keys(world: World) -> str:
    organisation = world.tenant.organisation
    _made(world, organisation, "old runner", days=7)
    revoked = _made(world, organisation, "leaked", Scope.READ)
    revoke_api_key(organisation=organisation, public_id=revoked, at=world.clock.now())
    world.clock.advance(days=8)
    _made(world, organisation, "n" * 80, Scope.QUOTES, Scope.BATCHES, days=90)
    _made(world, organisation.test_twin, "continuous integration", *Scope)
    return _KEYS


def _no_keys(world: World) -> str:
    world.tenant.api_key.delete()
    return _KEYS


def _revoke(world: World) -> str:
    return f"{_KEYS}{world.tenant.api_key.public_id}/revoke/"


def _create(page: Page) -> None:
    page.get_by_role("link", name="New key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Nightly jobs")
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog.get_by_text("Copy the key now")).to_be_visible()


def _create_without_scopes(page: Page) -> None:
    page.get_by_label("Name").fill("Nightly jobs")
    for tick in page.get_by_role("checkbox").all():
        tick.uncheck()
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_text("This could not be saved")).to_be_visible()


def _open_revoke(page: Page) -> None:
    page.get_by_role("link", name="Revoke test", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Revoke key")).to_be_visible()


def _staff_keys(world: World) -> str:
    fay = world.person("finance")
    assert fay is not None
    for name, scope in (("Month end", StaffScope.FINANCE_WRITE), ("n" * 80, StaffScope.FINANCE_READ)):
        create_staff_key(fay, name=name, scopes=[scope], at=world.clock.now(), lifetime=timedelta(days=90))
    return _STAFF_KEYS


def _revoke_staff_key(world: World) -> str:
    _staff_keys(world)
    return f"{_STAFF_KEYS}{StaffKey.objects.latest('pk').public_id}/revoke/"


def _create_staff_key(page: Page) -> None:
    page.get_by_role("link", name="New key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("Month end")
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog.get_by_text("Copy the key now")).to_be_visible()


def _staff_case(
    name: str, page: str, make: Callable[[World], str], act: Callable[[Page], None] | None = None
) -> PageCase:
    others: Mapping[Role, int] = {"nobody": 302, "admin": 404, "operator": 403}
    return PageCase(name=name, url_name=f"accounts:{page}", seen_by="finance", make=make, others=others, act=act)


def _case(
    name: str,
    page: str,
    make: Callable[[World], str],
    others: Mapping[Role, int] | None = None,
    act: Callable[[Page], None] | None = None,
) -> PageCase:
    return PageCase(name=name, url_name=f"accounts:{page}", seen_by="admin", make=make, others=others or {}, act=act)


OF_KEYS = (
    _case("no keys", "key-list", _no_keys),
    _case("keys", "key-list", _some_keys, _ADMINS),
    _case("no keys that match", "key-list", lambda _world: f"{_KEYS}?state=revoked&text=x"),
    _case("a new key in its dialog", "key-list", lambda _world: _KEYS, act=_create),
    _case("revoking a key in its dialog", "key-list", lambda _world: _KEYS, act=_open_revoke),
    _case("new key", "key-new", lambda _world: f"{_KEYS}new/", _ADMINS),
    _case("new key with mistakes", "key-new", lambda _world: f"{_KEYS}new/", act=_create_without_scopes),
    _staff_case("no staff keys", "staff-key-list", lambda _world: _STAFF_KEYS),
    _staff_case("staff keys", "staff-key-list", _staff_keys),
    _staff_case("a new staff key in its dialog", "staff-key-list", lambda _world: _STAFF_KEYS, act=_create_staff_key),
    _staff_case("new staff key", "staff-key-new", lambda _world: f"{_STAFF_KEYS}new/"),
    _staff_case("revoke a staff key", "staff-key-revoke", _revoke_staff_key),
    _case("revoke a key", "key-revoke", _revoke, {**_ADMINS, "stranger": 404}),
)
