"""What the supervisor reads from the environment, and what its children are told."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config import env
from config.embedded_postgres import EmbeddedPostgres
from config.postgres.secrets import APP, BROKER, OWNER
from config.supervisor.children import ChildSpec
from config.supervisor.stand_ins import StandIns
from config.supervisor.state import StateDir

_PORT_MAX: Final = 65_535
BASE_DIR: Final = Path(__file__).resolve().parents[2]
# Carried by everything the supervisor starts, so that the next start can find what a killed one left.
MARKER: Final = "LANEHOUSE_SUPERVISED"
# Names the env file that a shell has read. What came from our own file is no wish of the shell's.
ENV_FILE: Final = "LANEHOUSE_ENV_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a person may choose (docs/operations.md)."""

    host: str
    port: int
    web_workers: int
    engine_processes: int
    make_sample: bool
    show_sample: bool

    @property
    def url(self) -> str:
        """The address people use."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104 -- a comparison
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


def forget_own_env_file(env_file: Path) -> None:
    """Take out of the environment what a shell has from an earlier run's env file.

    Otherwise a shell that sourced the file would ask the next start for a database that only the next start brings up.
    """
    if env.text(ENV_FILE) == str(env_file):
        for name in ("DATABASE_URL", "LANEHOUSE_URL", ENV_FILE):
            os.environ.pop(name, None)


def _port() -> int:
    port = env.integer("PORT", 8000)
    if not 1 <= port <= _PORT_MAX:
        raise env.EnvironmentInvalid(f"PORT must be 1 to {_PORT_MAX}, not {port}")
    return port


def read_options() -> Options:
    """Read the supervisor's own variables."""
    return Options(
        host=env.text("LANEHOUSE_HOST", "127.0.0.1"),
        port=_port(),
        web_workers=env.integer("LANEHOUSE_WEB_WORKERS", 1),
        engine_processes=env.integer("LANEHOUSE_ENGINE_PROCESSES", 2),
        make_sample=env.flag("LANEHOUSE_SAMPLE", default=True),
        show_sample=env.flag("LANEHOUSE_SAMPLE", default=True) and env.flag("LANEHOUSE_SHOW_SAMPLE", default=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The database and broker addresses: the embedded server's, or the environment's."""

    owner_url: str
    app_url: str
    broker_url: str


def addresses(postgres: EmbeddedPostgres | None) -> Addresses:
    """Give the addresses; an address in the environment wins, and an empty broker address switches the broker off."""
    if postgres is None:
        app_url = env.text("DATABASE_URL")
        owner_url = env.text("LANEHOUSE_OWNER_DATABASE_URL", app_url)
        broker_url = f"pgmq:{owner_url.partition(':')[2]}"
    else:
        owner_url, app_url = postgres.dsn(OWNER), postgres.dsn(APP)
        broker_url = f"pgmq:{postgres.dsn(BROKER).partition(':')[2]}"
    return Addresses(owner_url=owner_url, app_url=app_url, broker_url=env.text("CELERY_BROKER_URL", broker_url))


def child_environment(state: StateDir, found: Addresses, options: Options, stand_ins: StandIns) -> dict[str, str]:
    """Give the environment of every child: ours, completed by what the state directory keeps."""
    return {
        **state.keys(),
        "DJANGO_SETTINGS_MODULE": "config.settings.base",
        **os.environ,
        MARKER: str(state.path),
        "LANEHOUSE_STATE_DIR": str(state.path),
        "LANEHOUSE_URL": options.url,
        "LANEHOUSE_WEBHOOK_ALLOWED_RECEIVERS": ",".join(
            filter(None, (env.text("LANEHOUSE_WEBHOOK_ALLOWED_RECEIVERS"), stand_ins.receiver))
        ),
        **stand_ins.environment(),
        "DATABASE_URL": found.app_url,
        "CELERY_BROKER_URL": found.broker_url,
        "PYTHONUNBUFFERED": "1",
    }


def child_specs(state: StateDir, found: Addresses, options: Options, stand_ins: StandIns) -> tuple[ChildSpec, ...]:
    """Give the children in the order they start; they stop in the reverse order."""
    celery = (sys.executable, "-m", "celery", "-A", "config.celery")
    web = ChildSpec(
        name="web",
        command=(
            *(sys.executable, "-m", "config.web", "--host", options.host),
            *("--port", str(options.port), "--workers", str(options.web_workers)),
        ),
        # Each of many threads would keep the memory of the largest file that it has read.
        environment={"MALLOC_ARENA_MAX": "1"},
        stop_seconds=10,
    )
    engine = ChildSpec(
        name="engine",
        command=(
            *(*celery, "worker", "-Q", "engine", "-c", str(options.engine_processes), "-n", "engine@%h"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO"),
        ),
        # One connection a process, kept; a pool would be made and closed around each task.
        environment={"LANEHOUSE_DATABASE_POOL_MAX_SIZE": "0"},
        stop_seconds=10,
    )
    beat = ChildSpec(
        name="beat",
        command=(*celery, "beat", "--loglevel", "INFO"),
        environment={"LANEHOUSE_DATABASE_POOL_MAX_SIZE": "4"},
        stop_seconds=5,
    )
    deliveries = ChildSpec(
        name="deliveries",
        command=(
            *(*celery, "worker", "-Q", "deliveries", "--pool", "threads", "-c", "2", "-n", "deliveries@%h"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO"),
        ),
        environment={"LANEHOUSE_DATABASE_POOL_MAX_SIZE": "3"},
        stop_seconds=12,
    )
    workers = (engine, deliveries) if found.broker_url else ()
    return (*stand_ins.specs(state, options.url), web, *workers, beat)
