"""The stand-in receiver shows what it took, also after a restart."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from simulators.receiver.app import create_app
from simulators.running import running_on_thread


def call(url: str, body: bytes | None = None) -> Any:
    headers = {"webhook-id": "evt_1", "x-other": "left out"}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 -- loopback
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 -- loopback
        return answer.read()


def test_it_shows_what_it_took_after_a_restart(tmp_path: Path) -> None:
    with running_on_thread(create_app(tmp_path)) as receiver:
        assert call(f"{receiver.url}/hooks", b'{"a": 1}') == b"taken"
    with running_on_thread(create_app(tmp_path)) as receiver:
        (taken,) = json.loads(call(f"{receiver.url}/received"))
    assert taken["body"] == '{"a": 1}'
    assert taken["headers"]["webhook-id"] == "evt_1"
    assert "x-other" not in taken["headers"]


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    with running_on_thread(create_app(tmp_path)) as receiver:
        with pytest.raises(urllib.error.HTTPError, match="413") as refused:
            call(f"{receiver.url}/hooks", b"x" * 1_000_001)
        refused.value.close()
        assert json.loads(call(f"{receiver.url}/received")) == []
