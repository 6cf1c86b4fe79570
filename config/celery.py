"""The Celery app: it carries wake-ups, and nothing but time is lost when it does not.

A task is one step; its name is the step's name. Queues are never declared: migration ``ground.0003_broker`` makes them
on our own PostgreSQL, and whoever runs another broker makes them there (``docs/operations.md``).
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Final

from celery import Celery
from celery.signals import task_postrun, task_prerun, worker_init, worker_shutting_down
from kombu import Exchange, Queue

from ground.task_runs import TaskRuns

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")

QUEUES: Final = ("engine", "deliveries")
HEARTBEAT_SECONDS: Final = 5.0
# Longer than the supervisor waits: this is for a worker whose supervisor is gone.
LONGEST_SHUTDOWN_SECONDS: Final = 20.0

app = Celery("lanehouse")
app.config_from_object("django.conf:settings", namespace="CELERY")
# The default exchange leads to the queue of the same name without any binding.
app.conf.task_queues = tuple(Queue(name, exchange=Exchange(""), routing_key=name, no_declare=True) for name in QUEUES)
app.conf.update(task_default_exchange="", beat_scheduler="config.celery_beat:SweepScheduler")
# Celery's own fixup would close the database connection around each task; ``keep_connection_usable`` does better.
app.conf["CELERY_DB_REUSE_MAX"] = 1_000_000_000
app.autodiscover_tasks()

_heard_at = 0.0
# When the tasks that this process is at began, by their id.
_began_s: dict[str, float] = {}
_runs = TaskRuns()


@worker_init.connect(weak=False)
def import_before_forking(sender: Any = None, **_signal: object) -> None:  # noqa: ANN401 -- Celery's own class
    """Import what only the engine's children need, once, in the process that they are forked from."""
    from routing.providers.registry import import_adapters

    if "engine" in sender.app.amqp.queues.consume_from:
        import_adapters()


@task_prerun.connect(weak=False)
def keep_connection_usable(**_signal: object) -> None:
    """Let go of a database connection that is too old or has failed: so a restart of PostgreSQL heals by itself."""
    from django.db import close_old_connections

    close_old_connections()


@task_prerun.connect(weak=False)
def note_begin(task_id: str = "", **_signal: object) -> None:
    """Remember when a task began."""
    _began_s[task_id] = time.monotonic()


@task_postrun.connect(weak=False)
def note_run(task_id: str = "", task: Any = None, retval: object = None, state: str = "", **_signal: object) -> None:  # noqa: ANN401 -- Celery's own class
    """Note how long a task took and whether it failed."""
    began_s = _began_s.pop(task_id, None)
    if began_s is not None:
        error = retval if state == "FAILURE" and isinstance(retval, BaseException) else None
        _runs.note(task.name, took_ms=round((time.monotonic() - began_s) * 1_000), error=error)


@task_postrun.connect(weak=False)
def tell_worker_is_alive(task: Any = None, **_signal: object) -> None:  # noqa: ANN401 -- Celery's own class
    """Note, now and then, that this worker finishes tasks."""
    global _heard_at  # noqa: PLW0603 -- one figure of this process
    if time.monotonic() - _heard_at < HEARTBEAT_SECONDS:
        return
    from ground import heartbeats

    _heard_at = time.monotonic()
    # Each worker serves one queue, so a task tells which one this is.
    heartbeats.beat("deliveries" if task is not None and task.name.startswith("webhooks.") else "worker")


@worker_shutting_down.connect(weak=False)
def end_at_last(**_signal: object) -> None:
    """Kill this worker with its children if it has not ended some time after it was told to.

    A child that was killed while it held the pool's lock leaves the pool waiting for that lock for ever. Leases make up
    for what is cut off. A worker that does not lead its process group is left to whoever started it.
    """
    group = os.getpgrp()
    if group != os.getpid():
        return
    timer = threading.Timer(LONGEST_SHUTDOWN_SECONDS, os.killpg, (group, signal.SIGKILL))
    timer.daemon = True
    timer.start()
