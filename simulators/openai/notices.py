"""Notices that a batch has ended, as OpenAI sends them: Standard Webhooks, to the address that the settings name."""

import base64
import hashlib
import hmac
import queue
import secrets
import threading
from collections.abc import Callable
from http.client import HTTPException
from urllib.request import Request, urlopen

import orjson

from simulators.clock import SimClock
from simulators.openai.records import BatchRecord
from simulators.openai.settings import Settings

_TRIES = 3
_TIMEOUT_SECONDS = 5.0


class Notifier:
    """Sends from a thread of its own, so that no call of a client waits for the receiver."""

    def __init__(self, clock: SimClock, settings: Callable[[], Settings]) -> None:
        """Sign with the time of `clock`; `settings` gives those of the moment."""
        self._clock = clock
        self._settings = settings
        self._waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._sender: threading.Thread | None = None

    def tell(self, batch: BatchRecord) -> None:
        """Send the notice of a batch that has ended; called by one thread at a time."""
        if not self._settings().notice_url:
            return
        event = {
            "id": f"evt_{secrets.token_hex(12)}",
            "object": "event",
            "created_at": int(self._clock.now()),
            "type": f"batch.{batch.status}",
            "data": {"id": batch.id},
        }
        self._waiting.put(orjson.dumps(event))
        if self._sender is None:
            self._sender = threading.Thread(target=self._work, name="notices", daemon=True)
            self._sender.start()

    def _work(self) -> None:
        while True:
            body = self._waiting.get()
            for _ in range(_TRIES):
                try:
                    self._send(body)
                except (OSError, HTTPException, ValueError):
                    continue
                break

    def _send(self, body: bytes) -> None:
        settings = self._settings()
        event_id, seconds = f"wh_{secrets.token_hex(12)}", int(self._clock.now())
        key = base64.b64decode(settings.notice_secret.removeprefix("whsec_"))
        signature = hmac.digest(key, f"{event_id}.{seconds}.".encode() + body, hashlib.sha256)
        headers = {
            "content-type": "application/json",
            "webhook-id": event_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
        }
        request = Request(settings.notice_url, data=body, headers=headers, method="POST")  # noqa: S310 -- the test's own
        with urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310 -- see above
            pass
