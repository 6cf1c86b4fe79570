from __future__ import annotations

import os
from pathlib import Path

import pytest

from config.postgres.account import Account
from config.postgres.installation import _runs, binaries_for

NOBODY = Account(name="nobody", uid=65534, gid=65534)


def programs(folder: Path) -> Path:
    folder.mkdir()
    for name in ("postgres", "initdb"):
        (folder / name).write_text("#!/bin/sh\necho 18\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another user")
def test_programs_in_a_folder_that_the_account_may_not_enter_are_not_taken_to_run(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert _runs(programs(closed / "bin"), NOBODY) is False


def test_our_own_account_runs_the_programs_where_they_are(tmp_path: Path) -> None:
    own = Account(name="own", uid=os.geteuid(), gid=os.getegid())
    assert _runs(programs(tmp_path / "bin"), own) is True
    assert binaries_for(own).parent.name == "pginstall18"


def test_a_folder_without_programs_is_not_taken_to_run(tmp_path: Path) -> None:
    assert _runs(tmp_path, Account(name="own", uid=os.geteuid(), gid=os.getegid())) is False
