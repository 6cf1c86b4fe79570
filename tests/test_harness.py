"""The harness itself: the role tests run as, deferred triggers, sockets, clocks."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import psycopg
import pytest
from django.db import connection
from pytest_socket import SocketConnectBlockedError

import ground.clock
from accounts.models import Organisation
from accounts.services.organisations import create_organisation
from tests.harness.clock import Clock


def test_tests_run_as_the_application_role(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, session_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
        )
        assert cursor.fetchone() == ("lanehouse_app", "lanehouse_app", False)


def test_a_deferred_trigger_really_fires_at_commit(owner_cursor: psycopg.Cursor) -> None:
    organisation = create_organisation(slug="acme", name="Acme", at=ground.clock.now())
    owner_cursor.execute("BEGIN")
    # A header without legs: nothing is wrong with it until the transaction wants to end.
    owner_cursor.execute(
        "INSERT INTO billing_ledgertransaction (business_key, body_hash, kind, organisation_id, reference,"
        " effective_at) VALUES ('k', sha256('x'), 'top_up', %s, 'r', now())",
        [organisation.pk],
    )
    with pytest.raises(psycopg.errors.IntegrityError, match="legs"):
        owner_cursor.execute("COMMIT")


def test_the_application_role_may_not_truncate(app_cursor: psycopg.Cursor) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_cursor.execute("TRUNCATE accounts_organisation CASCADE")


def test_a_test_begins_without_the_rows_of_another(db: None) -> None:
    assert not Organisation.objects.exists()
    Organisation.objects.create(public_id="org_1", slug="one", name="One", created_at=ground.clock.now())


def test_a_test_begins_without_the_rows_of_another_again(db: None) -> None:
    test_a_test_begins_without_the_rows_of_another(db)


def test_sockets_beyond_loopback_are_blocked() -> None:
    with socket.socket() as outside, pytest.raises((SocketConnectBlockedError, UserWarning)):
        outside.connect(("192.0.2.1", 80))


def test_sql_and_python_share_one_clock(clock: Clock) -> None:
    at = clock.freeze(datetime(2027, 2, 28, 23, 59, 59, tzinfo=UTC))
    clock.advance(seconds=2)
    with connection.cursor() as cursor:
        cursor.execute("SELECT lanehouse_now()")
        (database_now,) = cursor.fetchone()
    assert ground.clock.now() == database_now == datetime(2027, 3, 1, 0, 0, 1, tzinfo=UTC)
    assert at < database_now
