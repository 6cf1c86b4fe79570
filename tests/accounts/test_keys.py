"""API keys: their shape, their checksum, who they stand for."""

from __future__ import annotations

import hashlib
import zlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.domain.keys import is_well_formed, make_key
from accounts.models import ApiKey
from accounts.selectors import caller_by_key
from accounts.services.organisations import create_api_key, revoke_api_key
from ground.errors import AuthenticationFailed
from tests.harness.clock import Clock
from tests.harness.world import make_tenant

BASE_62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_a_key_names_its_namespace_and_ends_in_its_checksum() -> None:
    new = make_key("acme", is_test=False)
    start, checksum = new.text[:-6], new.text[-6:]
    assert start.startswith("sk-lh-acme-")
    assert sum(BASE_62.index(digit) * 62 ** (5 - place) for place, digit in enumerate(checksum)) == zlib.crc32(
        start.encode()
    )
    assert new.key_hash == hashlib.sha256(new.text.encode()).digest()


def test_a_test_key_says_so() -> None:
    assert make_key("acme", is_test=True).text.startswith("sk-lh-test-acme-")


@given(st.integers(min_value=11, max_value=56), st.sampled_from(BASE_62))
def test_a_key_with_one_wrong_character_is_refused(place: int, letter: str) -> None:
    text = make_key("acme", is_test=False).text
    mistyped = text[:place] + letter + text[place + 1 :]
    assert is_well_formed(mistyped) == (mistyped == text)


def test_only_a_hash_is_stored(db: None) -> None:
    tenant = make_tenant()
    stored = ApiKey.objects.get()
    values = " ".join(str(value) for value in vars(stored).values())
    assert tenant.key_text not in values
    assert tenant.key_text.rpartition("-")[2][4:-4] not in values


def test_a_key_stands_for_its_organisation(db: None) -> None:
    tenant = make_tenant()
    assert caller_by_key(tenant.key_text).organisation == tenant.organisation


def test_a_revoked_key_is_refused_at_once(clock: Clock) -> None:
    tenant = make_tenant()
    revoke_api_key(organisation=tenant.organisation, public_id=tenant.api_key.public_id, at=clock.now())
    with pytest.raises(AuthenticationFailed):
        caller_by_key(tenant.key_text)


def test_a_key_expires_by_the_clock_of_the_database(clock: Clock) -> None:
    tenant = make_tenant()
    key, new = create_api_key(organisation=tenant.organisation, name="short", at=clock.now())
    ApiKey.objects.filter(pk=key.pk).update(expires_at=clock.now() + timedelta(hours=1))
    assert caller_by_key(new.text).api_key == key
    clock.advance(hours=1, seconds=1)
    with pytest.raises(AuthenticationFailed):
        caller_by_key(new.text)


@pytest.mark.parametrize(
    "text", ["", "sk-lh-acme-", "sk-" + "a" * 5_000, "sk-lh-acme-\x00", "Bearer x", "sk-lh-ACME-a"]
)
def test_what_is_no_key_is_refused_without_the_database(text: str) -> None:
    with pytest.raises(AuthenticationFailed):
        caller_by_key(text)
