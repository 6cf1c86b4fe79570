"""The page of our accounts at providers, and the secret of a provider's notices."""

from __future__ import annotations

import pytest
from django.test import Client

from accounts.models import AuditEntry, StaffRole
from ground.secrets import decrypt
from routing.models import ProviderAccount
from tests.harness.world import use_simulator
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, signed_in, words_of

PAGE = "/ops/accounts/"
SECRET_PAGE = f"{PAGE}openai/customer/notices/"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u"


@pytest.fixture
def operator(db: None) -> Client:
    use_simulator("http://127.0.0.1:9/v1")
    return signed_in(scenes.staff())


def stored_secret() -> str:
    encrypted = bytes(ProviderAccount.objects.get(provider="openai", kind="customer").notice_secret_encrypted)
    return decrypt(encrypted) if encrypted else ""


def test_an_operator_sets_and_ends_the_secret_of_notices_and_nobody_reads_it_again(operator: Client) -> None:
    assert 'data-copy="http://testserver/provider-notices/openai/customer"' in html_of(operator.get(PAGE))
    assert operator.post(SECRET_PAGE, {"secret": SECRET, "reason": "they sign now"}).status_code == 302
    assert stored_secret() == SECRET
    assert SECRET not in words_of(operator.get(PAGE)) + words_of(operator.get(SECRET_PAGE))
    assert operator.post(SECRET_PAGE, {"secret": "", "reason": "they went mad"}).status_code == 302
    assert stored_secret() == ""
    changes = [entry.changes for entry in AuditEntry.objects.exclude(reason="").order_by("pk")]
    assert changes == [{"notice_secret": ["none", "one"]}, {"notice_secret": ["one", "none"]}]


@pytest.mark.parametrize("secret", ["sk-something", "whsec_", "whsec_%%%", "whsec_c2hvcnQ=", "whsec_\u00e9"])
def test_what_is_no_secret_is_refused_beside_its_field(operator: Client, secret: str) -> None:
    answer = operator.post(SECRET_PAGE, {"secret": secret, "reason": "they sign now"})
    assert answer.status_code == 422
    assert "A secret is whsec_ and the Base64 of 24 to 64 bytes." in words_of(answer)
    assert stored_secret() == ""


def test_support_looks_and_does_not_set(operator: Client) -> None:
    support = signed_in(scenes.staff(StaffRole.SUPPORT, name="Sue Support"))
    assert support.get(PAGE).status_code == 200
    assert support.post(SECRET_PAGE, {"secret": SECRET, "reason": "they sign now"}).status_code == 403
    assert operator.get(f"{PAGE}openai/nobody/notices/").status_code == 404
