"""What the start script takes from its shell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config.env import EnvironmentInvalid
from config.supervisor.environment import ENV_FILE, forget_own_env_file, read_options


@pytest.mark.parametrize("port", ["0", "-1", "65536", "80000", "abc"])
def test_a_port_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("PORT", port)
    with pytest.raises(EnvironmentInvalid, match="PORT must be"):
        read_options()


def test_a_shell_that_read_our_env_file_can_start_us_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ENV_FILE, str(tmp_path / "env"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://lanehouse_app@127.0.0.1:1/lanehouse")
    forget_own_env_file(tmp_path / "env")
    assert "DATABASE_URL" not in os.environ


def test_a_database_that_was_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ENV_FILE, str(tmp_path / "other" / "env"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/lanehouse")
    forget_own_env_file(tmp_path / "env")
    assert os.environ["DATABASE_URL"] == "postgresql://db.example/lanehouse"
