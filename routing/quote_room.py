"""How many bytes the quotes of one organisation may keep stored at once; those that became batches do not count."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Sum

from accounts.models import Organisation
from ground.errors import StoreFull
from routing.models import Quote

# A quote is answered in milliseconds: the sum is read this seldom, and what was added since is added here. Several
# processes may together let in a little more than the limit, and none much more.
_KNOWN_FOR_SECONDS = 10.0
_FORGOTTEN_ABOVE = 10_000


@dataclass(slots=True, kw_only=True)
class _Known:
    stored_bytes: int
    read_at_seconds: float


_lock = threading.Lock()
_known: dict[str, _Known] = {}


def take_quote_room(organisation: Organisation, wanted_bytes: int, *, maximum_bytes: int | None = None) -> None:
    """Count bytes that are about to be stored for a quote.

    Args:
        organisation: Whose quote it is.
        wanted_bytes: How many they are.
        maximum_bytes: How many it may have with them; None for all that it may have.

    Raises:
        StoreFull: The organisation's open quotes would have more than they may; room comes as they expire.
    """
    if maximum_bytes is None:
        maximum_bytes = settings.STORED_QUOTES_MAX_BYTES
    now_seconds = time.monotonic()
    with _lock:
        known = _known.get(organisation.public_id)
        is_enough = (
            known is not None
            and now_seconds - known.read_at_seconds < _KNOWN_FOR_SECONDS
            and known.stored_bytes + wanted_bytes <= maximum_bytes
        )
        if is_enough:
            assert known is not None, "what is enough is known"
            known.stored_bytes += wanted_bytes
            return
    stored_bytes = stored_quote_bytes(organisation)
    if stored_bytes + wanted_bytes > maximum_bytes:
        raise StoreFull(
            f"The organisation's open quotes have {stored_bytes} bytes; with this file they would be more than the"
            f" {maximum_bytes} it may store. Room comes as quotes expire or become batches."
        )
    with _lock:
        if len(_known) >= _FORGOTTEN_ABOVE:
            _known.clear()
        _known[organisation.public_id] = _Known(stored_bytes=stored_bytes + wanted_bytes, read_at_seconds=now_seconds)


def stored_quote_bytes(organisation: Organisation) -> int:
    """Give the bytes of quotes whose payload is kept for a while only."""
    kept = Quote.objects.filter(organisation=organisation, payload_kept_until__isnull=False)
    return kept.aggregate(total=Sum("body_size_bytes"))["total"] or 0
