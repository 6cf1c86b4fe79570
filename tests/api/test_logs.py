"""What the logs say of an address: no key, and no more than 200 characters."""

from __future__ import annotations

import logging

import pytest
from django.test import Client

KEY = "sk-lh-acme-" + "a" * 46


def test_a_key_in_an_address_is_never_logged(client: Client, db: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert client.get(f"/nothing/{KEY}/here").status_code == 404
    assert "Not Found: /nothing/[key]/here" in caplog.text
    assert "sk-lh" not in caplog.text


def test_of_a_long_address_the_first_199_characters_are_logged(
    client: Client, db: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert client.get("/" + "x" * 3_000).status_code == 404
    assert [each.getMessage() for each in caplog.records] == ["Not Found: /" + "x" * 198 + "…"]
