"""How often somebody may try to sign in, and what is removed afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client, RequestFactory, override_settings

from accounts.models import SignInBucket, User
from accounts.services.sign_in import Try, address_of, sweep_sign_ins
from tests.harness.clock import Clock

HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"
EMAIL, PASSWORD = "owner@example.com", "a long password"


@pytest.fixture
def still(clock: Clock) -> Clock:
    """Time stands still, so that no bucket fills meanwhile."""
    clock.freeze(datetime.now(UTC).replace(microsecond=0))
    return clock


@pytest.fixture
def owner(still: Clock) -> User:
    return User.objects.create_user(email=EMAIL, password=PASSWORD, name="Owner", created_at=still.now())


def sign_in(email: str = EMAIL, password: str = PASSWORD, *, address: str = HERE) -> Any:
    return Client().post("/login", {"username": email, "password": password}, REMOTE_ADDR=address)


def test_after_ten_wrong_tries_the_right_one_waits_here_and_nowhere_else(owner: User, still: Clock) -> None:
    wrong = [sign_in(password="wrong").status_code for _ in range(11)]
    assert wrong == [422] * 10 + [429]
    refused = sign_in(EMAIL.upper())
    # Ten in 15 minutes: one each 90 s.
    assert (refused.status_code, refused["Retry-After"]) == (429, "90")
    assert "Try again in 2 minutes." in refused.content.decode()
    assert sign_in(address=ELSEWHERE).status_code == 302
    User.objects.create_user(email="other@example.com", password=PASSWORD, name="Other", created_at=still.now())
    assert sign_in("other@example.com").status_code == 302
    still.advance(seconds=90)
    assert sign_in().status_code == 302
    assert sign_in(password="wrong").status_code == 422


def test_an_address_that_tries_many_accounts_waits_for_all_of_them(still: Clock) -> None:
    tries = [Try(email=f"u{number}@example.com", address=HERE).begin() for number in range(51)]
    # Fifty in 15 minutes: one each 18 s.
    assert tries == [0] * 50 + [18]
    assert Try(email="u0@example.com", address=ELSEWHERE).begin() == 0


def test_an_account_tried_from_many_addresses_stays_open_where_its_owner_was(owner: User, still: Clock) -> None:
    assert sign_in().status_code == 302
    tries = [Try(email=EMAIL, address=f"198.51.100.{number}").begin() for number in range(101)]
    # A hundred in 15 minutes: one each 9 s.
    assert tries == [0] * 100 + [9]
    assert sign_in().status_code == 302


def test_a_sign_in_that_succeeds_counts_for_nothing(owner: User) -> None:
    assert [sign_in().status_code for _ in range(12)] == [302] * 12


@override_settings(HTTPS=True)
def test_behind_a_proxy_the_address_is_the_one_the_proxy_saw() -> None:
    request = RequestFactory().get("/login", headers={"X-Forwarded-For": "10.9.9.9, 2001:db8:1:2:3::4"})
    assert address_of(request) == "2001:db8:1:2::/64"


def test_a_forwarded_address_is_not_believed_without_a_proxy() -> None:
    request = RequestFactory().get("/login", headers={"X-Forwarded-For": "10.9.9.9"})
    assert address_of(request) == "127.0.0.1"


def test_ended_sessions_and_full_buckets_are_swept(owner: User, still: Clock) -> None:
    assert sign_in().status_code == 302
    sign_in("nobody@example.com", "wrong", address=ELSEWHERE)
    assert (Session.objects.count(), SignInBucket.objects.count()) == (1, 6)
    still.advance(minutes=16)
    sweep_sign_ins()
    # What is known of the owner's address stays for 30 days, the session for 14.
    assert (Session.objects.count(), SignInBucket.objects.count()) == (1, 1)
    still.advance(days=31)
    Session.objects.update(expire_date=still.now() - timedelta(seconds=1))
    sweep_sign_ins()
    assert (Session.objects.count(), SignInBucket.objects.count()) == (0, 0)
