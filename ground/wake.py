"""The only door to the broker: a wake-up without content, sent after commit.

Always holds: a wake-up only says "look now", so losing it, doubling it or sending it late changes nothing but time; the
sender never waits for the broker; no queue is declared here (migration ``ground.0003_broker`` makes them). With
``CELERY_BROKER_URL`` empty nothing is sent, and the sweeps of ``config.celery_beat`` do the work.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import uuid
from functools import partial
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from kombu import Connection, Producer

logger = logging.getLogger(__name__)

# After a failure hints are dropped for this long, so that a broker that is away costs nothing.
PAUSE_SECONDS: Final = 1.0
# A hint that nobody took by then is worthless: a sweep has looked in the meantime.
EXPIRES_SECONDS: Final = 30


def wake(name: str) -> None:
    """Ask for a step to run as soon as the current transaction is committed.

    Args:
        name: the step's task name; the same name asked twice before it is sent is sent once.
    """
    if settings.CELERY_BROKER_URL:
        transaction.on_commit(partial(_sender.ask, name), robust=True)


def drain(seconds: float = 0.25) -> None:
    """Wait, no longer than this, until what was asked for has been sent; then let go of the broker."""
    _sender.drain(seconds)


class Publisher:
    """Sends wake-ups over a broker connection of its own; used by one thread at a time."""

    def __init__(self) -> None:
        self._connection: Any = None
        self._producer: Any = None
        self._paused_until = 0.0

    def publish(self, name: str) -> bool:
        """Send one wake-up and tell whether the broker took it."""
        if not settings.CELERY_BROKER_URL or time.monotonic() < self._paused_until:
            return False
        try:
            self._connected().publish(
                # Celery's task message, version 2: arguments, keywords, and what follows it (nothing).
                [[], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}],
                exchange="",
                routing_key=queue_of(name),
                serializer="json",
                retry=False,
                **_task_properties(name),
            )
        except Exception as error:  # noqa: BLE001 -- a broker may fail in any way, and no way may matter
            logger.debug("wake-up %s was not sent: %s", name, error)
            self.close()
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            return False
        return True

    def waiting_count(self, queue: str) -> int:
        """Count the messages that wait in a queue, without declaring it."""
        self._connected()
        return int(self._producer.channel.queue_declare(queue, passive=True).message_count)

    def close(self) -> None:
        """Let go of the broker."""
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.release()

    def _connected(self) -> Producer:
        if self._producer is None:
            options = {**settings.CELERY_BROKER_TRANSPORT_OPTIONS, "max_retries": 1}
            # Without a number of retries kombu would wait for the broker forever.
            self._connection = Connection(settings.CELERY_BROKER_URL, connect_timeout=2, transport_options=options)
            self._connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=1)
            self._producer = Producer(self._connection.channel(), auto_declare=False)
        producer: Producer = self._producer
        return producer


def queue_of(name: str) -> str:
    """Give the queue of a step."""
    return str(settings.CELERY_TASK_ROUTES.get(name, {}).get("queue", settings.CELERY_TASK_DEFAULT_QUEUE))


def _task_properties(name: str) -> dict[str, Any]:
    """Give the properties that a Celery worker needs to run a task by its name."""
    task_id = str(uuid.uuid4())
    expires_at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + EXPIRES_SECONDS))
    headers = {
        "lang": "py",
        "task": name,
        "id": task_id,
        "root_id": task_id,
        "parent_id": None,
        "group": None,
        "expires": expires_at,
        "retries": 0,
        "timelimit": [None, None],
        "ignore_result": True,
    }
    return {"headers": headers, "correlation_id": task_id}


class _Sender:
    """A thread of this process that sends what was asked for, so that nobody waits for the broker."""

    def __init__(self) -> None:
        self._pid = 0
        self._ready = threading.Condition()
        self._names: dict[str, None] = {}
        self._ends = False
        self._thread = threading.Thread(name="wake")

    def ask(self, name: str) -> None:
        """Note a name; the thread sends it at once."""
        if self._pid != os.getpid():
            self._begin()
        with self._ready:
            self._names[name] = None
            self._ready.notify()

    def drain(self, seconds: float) -> None:
        """End the thread once it has sent what is noted; the next ask starts another."""
        if self._pid != os.getpid():
            return
        thread, self._pid = self._thread, 0
        with self._ready:
            self._ends = True
            self._ready.notify()
        thread.join(seconds)

    def _begin(self) -> None:
        """Start the thread; a forked process starts its own and lets its parent's connection be."""
        self._pid = os.getpid()
        self._ready = threading.Condition()
        self._names = {}
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="wake", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        ready, publisher = self._ready, Publisher()
        while True:
            with ready:
                while not self._names and not self._ends:
                    ready.wait()
                names, self._names = tuple(self._names), {}
            for name in names:
                publisher.publish(name)
            if self._ends and not self._names:
                publisher.close()
                return


_sender = _Sender()
# A command that ends right after its commit still sends its hints.
atexit.register(drain)
