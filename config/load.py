"""What this web process reports of itself: its gate, the versions it holds, and how long its quotes took."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from django.conf import settings
from django.db import connection

from catalog.selectors import held_versions
from config.gate import GateMiddleware
from routing.learned import held_count
from routing.quote_path import Reporter

_log = logging.getLogger(__name__)
_starting: Final = threading.Lock()
_started = False


def load_of_this_process() -> dict[str, Any]:
    """Give how full the gate is, and which versions of the in-process maps are held (0: none yet)."""
    catalog_version, sla_version = held_versions()
    return {
        "gate": GateMiddleware.load(),
        "catalog_version": catalog_version,
        "sla_version": sla_version,
        "learned_maps": held_count(),
    }


def report_from_now_on() -> None:
    """Let this process report each few seconds, in a thread of its own; called more than once it does nothing more.

    Not before the first request: a server's main process, which answers none, has nothing to say.
    """
    global _started  # noqa: PLW0603 -- one thread a process
    if _started or not settings.REPORT_SECONDS:
        return
    with _starting:
        if not _started:
            _started = True
            threading.Thread(target=_report_for_ever, name="quote-path-reports", daemon=True).start()


def _report_for_ever() -> None:
    reporter, is_well, rest = Reporter(), True, threading.Event()
    while not rest.wait(settings.REPORT_SECONDS):
        try:
            reporter.report(load_of_this_process())
            is_well = True
        except Exception:  # noqa: BLE001 -- whatever it was, the next report is tried
            # The database may be away for a while: what was counted is said later.
            if is_well:
                _log.warning("this process cannot report how its quotes do", exc_info=True)
            is_well = False
        finally:
            connection.close()


class ReportMiddleware:
    """Begins the reports of a process with its first request."""

    def __init__(self, get_response: Any) -> None:  # noqa: ANN401 -- Django's own
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:  # noqa: ANN401 -- Django's own
        """Pass on."""
        report_from_now_on()
        return self._get_response(request)
