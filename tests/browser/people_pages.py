"""Settings of an organisation, its people, and passwords."""

from __future__ import annotations

from django.contrib.auth.tokens import default_token_generator
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from tests.browser.cases import PageCase, Role, World

_SETTINGS, _RESET = "/app/settings/", "/reset/"
_ADMINS: dict[Role, int] = {"nobody": 302, "viewer": 403, "operator": 404}


def _settings(world: World) -> str:
    world.person("viewer")
    return _SETTINGS


def _member(world: World) -> str:
    viewer = world.person("viewer")
    assert viewer is not None
    return f"{_SETTINGS}members/{viewer.email}/"


def _link(world: World) -> str:
    user = world.person("viewer")
    assert user is not None
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return f"{_RESET}{uid}/{default_token_generator.make_token(user)}/"


OF_PEOPLE = (
    PageCase(
        name="settings",
        url_name="accounts:settings",
        seen_by="admin",
        make=_settings,
        others={**_ADMINS, "viewer": 200},
    ),
    PageCase(
        name="invite somebody",
        url_name="accounts:member-invite",
        seen_by="admin",
        make=lambda _world: f"{_SETTINGS}members/invite/",
        others=_ADMINS,
    ),
    PageCase(name="a member", url_name="accounts:member-edit", seen_by="admin", make=_member, others=_ADMINS),
    PageCase(
        name="forgotten password",
        url_name="accounts:password-forgotten",
        seen_by="nobody",
        make=lambda _world: _RESET,
    ),
    PageCase(name="choose a password", url_name="accounts:password-choose", seen_by="nobody", make=_link),
    PageCase(
        name="link that is no longer good",
        url_name="accounts:password-choose",
        seen_by="nobody",
        make=lambda _world: f"{_RESET}MQ/x-y/",
    ),
)
