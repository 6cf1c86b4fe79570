from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from config.embedded_postgres import EmbeddedPostgres
from config.postgres import ports, processes
from config.postgres.problem import PostgresProblem

ROOT = Path(__file__).resolve().parents[2]
START_AND_SLEEP = """
import sys, time
from pathlib import Path
from config.embedded_postgres import EmbeddedPostgres
from config.postgres.problem import PostgresProblem
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
try:
    server.start()
except PostgresProblem as problem:
    print(f"refused: {problem}", flush=True)
    sys.exit(1)
print(f"started {server.pid} {server.port}", flush=True)
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "postgres"
    yield path
    EmbeddedPostgres(path).destroy()


@contextmanager
def running(folder: Path, **options: int) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(folder, durable=False, port=options.get("port"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    return row[0] if row is not None else None


def starter(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START_AND_SLEEP, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill_starter(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_fresh_server_is_postgresql_18_in_utf_8_with_the_c_locale(folder: Path) -> None:
    with running(folder) as server:
        dsn = server.dsn("lanehouse_app")
        assert str(ask(dsn, "SHOW server_version")).startswith("18.")
        assert ask(dsn, "SHOW server_encoding") == "UTF8"
        assert ask(dsn, "SELECT datcollate FROM pg_database WHERE datname = 'lanehouse'") == "C.UTF-8"


def test_each_role_connects_as_itself_and_only_the_owner_makes_tables(folder: Path) -> None:
    with running(folder) as server:
        for role in ("lanehouse_owner", "lanehouse_app", "lanehouse_broker"):
            assert ask(server.dsn(role), "SELECT current_user") == role
        with psycopg.connect(server.dsn("lanehouse_owner")) as connection:
            connection.execute("CREATE TABLE owned (id int)")
        with (
            psycopg.connect(server.dsn("lanehouse_app")) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute("CREATE TABLE taken (id int)")


def test_a_wrong_password_is_refused(folder: Path) -> None:
    with running(folder) as server:
        wrong = f"postgresql://lanehouse_app:wrong@127.0.0.1:{server.port}/lanehouse"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)


def test_it_listens_on_loopback_alone_and_keeps_its_passwords_private(folder: Path) -> None:
    with running(folder) as server:
        assert ask(server.superuser_dsn, "SHOW listen_addresses") == "127.0.0.1"
        assert stat.S_IMODE((server.home / "secrets.json").stat().st_mode) == 0o600
        assert stat.S_IMODE(server.home.stat().st_mode) == 0o700
        assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700


def test_data_port_and_passwords_stay_over_a_restart(folder: Path) -> None:
    with running(folder) as server:
        dsn = server.dsn("lanehouse_owner")
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS id")
    with running(folder) as server:
        assert server.dsn("lanehouse_owner") == dsn
        assert ask(dsn, "SELECT id FROM kept") == 7


def test_stop_leaves_no_process_even_with_a_client_in_the_middle_of_a_query(folder: Path) -> None:
    with running(folder) as server:
        pid = server.pid
        assert pid is not None
        client = psycopg.connect(server.dsn("lanehouse_app"))
        client.execute("SELECT 1")
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 5
        assert not processes.is_alive(pid)
        client.close()


def test_a_second_start_of_the_folder_is_refused_with_the_holder(folder: Path) -> None:
    with running(folder), pytest.raises(PostgresProblem, match=f"already run by process {os.getpid()}"):
        EmbeddedPostgres(folder, durable=False).start()


def test_a_taken_fixed_port_is_said_in_one_sentence(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PostgresProblem, match=f"Port {port} on 127.0.0.1, .* is taken"):
            EmbeddedPostgres(folder, durable=False, port=port).start()


def test_a_kept_port_that_another_program_took_is_replaced(folder: Path) -> None:
    with running(folder) as server:
        port = server.port
    with socket.create_server(("127.0.0.1", port)), running(folder) as server:
        assert server.port != port
        assert ask(server.dsn("lanehouse_app"), "SELECT 1") == 1


def test_a_pid_file_that_names_a_stranger_does_not_stop_the_start(folder: Path) -> None:
    with running(folder) as server:
        pid_file = server.home / "data" / "postmaster.pid"
        text = pid_file.read_text()
        server.stop()
        pid_file.write_text(text.replace(text.split("\n")[0], str(os.getpid()), 1))
        server.start()
        assert ask(server.dsn("lanehouse_app"), "SELECT 1") == 1


def test_missing_passwords_are_said_and_nothing_is_overwritten(folder: Path) -> None:
    with running(folder) as server:
        secrets_file = server.home / "secrets.json"
    aside = secrets_file.rename(secrets_file.with_suffix(".aside"))
    with pytest.raises(PostgresProblem, match=r"secrets\.json are missing"):
        EmbeddedPostgres(folder, durable=False).start()
    aside.rename(secrets_file)
    with running(folder) as server:
        assert ask(server.dsn("lanehouse_app"), "SELECT 1") == 1


def test_destroy_leaves_nothing(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres", durable=False)
    server.start()
    home = server.home
    server.destroy()
    assert not home.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.faults
def test_a_killed_server_starts_again_with_its_committed_data(folder: Path) -> None:
    with running(folder) as server:
        with psycopg.connect(server.dsn("lanehouse_owner")) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS id")
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert processes.wait_until(lambda: server.pid is None, seconds=5)
        server.start()
        assert ask(server.dsn("lanehouse_owner"), "SELECT id FROM kept") == 7


@pytest.mark.faults
def test_a_killed_starter_takes_its_server_with_it_and_the_next_start_is_clean(folder: Path) -> None:
    process = starter(folder)
    pid = int(first_line(process).split()[1])
    kill_starter(process)
    with running(folder) as server:
        assert not processes.is_alive(pid)
        assert ask(server.dsn("lanehouse_app"), "SELECT 1") == 1


@pytest.mark.faults
def test_a_server_that_lost_its_starter_but_runs_on_is_ended_by_the_next_start(folder: Path) -> None:
    process = starter(folder)
    pid = int(first_line(process).split()[1])
    # Stopped, it cannot follow the kernel's wish to end: as a server that hangs.
    os.kill(pid, signal.SIGSTOP)
    kill_starter(process)
    resume = subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {pid}"])
    with running(folder) as server:
        assert server.pid != pid
        assert not processes.is_alive(pid)
    resume.wait()


@pytest.mark.faults
def test_of_two_starts_at_once_one_runs_and_one_is_told(folder: Path) -> None:
    both = [starter(folder), starter(folder)]
    lines = sorted(first_line(process) for process in both)
    for process in both:
        kill_starter(process)
    assert lines[0].startswith("refused: The database in")
    assert lines[1].startswith("started ")


@pytest.mark.faults
def test_a_full_disk_is_said_in_one_sentence(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.call(["mount", "-t", "tmpfs", "-o", "size=20m,mode=1777", "none", small]) != 0:
        pytest.skip("only root may mount a small disk")
    try:
        (small / "postgres").mkdir()
        (small / "postgres" / "something").touch()
        for path in (small / "postgres", small / "postgres" / "something"):
            os.chown(path, 65534, 65534)
        with pytest.raises(PostgresProblem, match="is full"):
            EmbeddedPostgres(small / "postgres", durable=False).start()
    finally:
        subprocess.run(["umount", small], check=True)


def test_free_ports_lie_below_the_range_of_outgoing_connections() -> None:
    port = ports.find_free()
    assert port is not None
    assert 20_000 <= port < 32_000
