"""Billing's fixtures: both roles attack."""

from __future__ import annotations

import psycopg
import pytest

from accounts.models import Organisation
from tests.billing.kit import make_organisation


@pytest.fixture
def organisation(db: None) -> Organisation:
    """An organisation with 1,000 micro-USD."""
    return make_organisation(money=1_000)


@pytest.fixture(params=["app", "owner"])
def attacker(
    request: pytest.FixtureRequest, app_cursor: psycopg.Cursor, owner_cursor: psycopg.Cursor
) -> psycopg.Cursor:
    """A cursor of each role in turn."""
    return app_cursor if request.param == "app" else owner_cursor
