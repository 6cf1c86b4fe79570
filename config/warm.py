"""Doing once, before a web process serves, what would make its first quote ten times as slow as the next."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.util import setup_testing_defaults

import orjson
from django.db import DatabaseError, connection

from accounts.domain.keys import make_key
from catalog.domain.records import Catalog, Endpoint
from catalog.selectors import current_catalog
from ground import clock
from ground.errors import AuthenticationFailed, LanehouseError
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from routing.services.admission import take_call
from routing.services.quotes import quote_settings

_log = logging.getLogger(__name__)


def warm_up(application: Callable[..., Iterable[bytes]]) -> None:
    """Take a call with a key that nobody has, price one row for each model, and send a request.

    So every address and what stands behind it is imported, a connection open and the first statement planned, the
    catalog read, the pass over rows compiled and the tables of weights unpacked. Where the database is not
    there yet, all of it is left to the first request.
    """
    try:
        with contextlib.suppress(AuthenticationFailed):
            take_call(make_key("nobody", is_test=False).text)
        _price(current_catalog())
        _request(application)
    except DatabaseError as error:
        _log.warning("Not warm yet: %s", type(error).__name__)
    finally:
        connection.close()


def _request(application: Callable[..., Iterable[bytes]]) -> None:
    environ: dict[str, Any] = {"PATH_INFO": "/healthz", "QUERY_STRING": "", "wsgi.url_scheme": "https"}
    setup_testing_defaults(environ)
    for _ in application(environ, lambda _status, _headers: None):
        pass


def _price(catalog: Catalog) -> None:
    for model in catalog.models.values():
        if Endpoint.CHAT_COMPLETIONS not in model.endpoints or not any(lane.rate_card for lane in model.lanes):
            continue
        body = {"model": model.slug, "messages": [{"role": "user", "content": "Good morning."}], "max_tokens": 9}
        row = {"custom_id": "1", "method": "POST", "url": Endpoint.CHAT_COMPLETIONS.value, "body": body}
        # one that no lane takes now is none the less read and weighed
        with contextlib.suppress(LanehouseError):
            make_quote_plan(orjson.dumps(row), catalog, WorkflowProfile(), quote_settings(), clock.now())
