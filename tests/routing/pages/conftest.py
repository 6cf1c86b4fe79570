"""Who looks at the pages."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.http import HttpResponse, HttpResponseBase
from django.test import Client

from accounts.models import User
from tests.harness.world import Tenant
from tests.routing.pages.scenes import member

REGION = {"HX-Request": "true", "HX-Target": "batch"}


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def html_of(response: HttpResponseBase) -> str:
    assert isinstance(response, HttpResponse)
    return response.content.decode()


def text_of(response: HttpResponseBase) -> str:
    """The answer with white space made single and out of the way of tags."""
    return re.sub(r"> | <", lambda found: found.group().strip(), " ".join(html_of(response).split()))


def words_of(response: HttpResponseBase) -> str:
    """What a person reads."""
    return " ".join(re.sub(r"<[^>]+>", " ", html_of(response)).split()).replace("&nbsp;", " ")


def poll_url_of(response: HttpResponseBase) -> str:
    found = re.search(r'data-poll\s[^>]*?hx-get="([^"]+)"', html_of(response))
    assert found, "the page does not poll"
    return found.group(1)


@pytest.fixture
def customer(tenant: Tenant) -> Client:
    return signed_in(member(tenant.organisation))


@pytest.fixture
def as_role(tenant: Tenant) -> Callable[[str], Client]:
    return lambda role: signed_in(member(tenant.organisation, role, name=f"{role.title()} Person"))
