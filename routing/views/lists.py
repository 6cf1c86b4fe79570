"""What the lists of batches share: the chosen filters, the tabs, and when the first page asks again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest

from routing.forms import STATE_WORDS, BatchFilterForm
from routing.models import Batch, SubLane
from routing.selectors import BatchPage
from routing.views import shown
from routing.views.polling import ENDED

REGION = "list"
ROWS_PER_PAGE = 50
_POLL_MS = 5_000
_SHOWN_MODELS = 2


def list_row(batch: Batch, sub_lanes: Sequence[SubLane]) -> dict[str, Any]:
    """Give what a line of a list says of a batch."""
    models = list(dict.fromkeys(sub_lane.model_slug for sub_lane in sub_lanes))
    return {
        "batch": batch,
        "name": shown.batch_name(batch),
        "is_named": shown.batch_name(batch) != batch.public_id,
        "outcome": shown.outcome_of(batch),
        "models": models,
        "more_model_count": len(models) - 1 if len(models) > _SHOWN_MODELS else 0,
    }


def list_frame(
    request: HttpRequest, form: BatchFilterForm, page: BatchPage, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Give a list's tabs, chips, pager and poll. Only a first page that shows running batches asks again."""
    after = request.GET.get("after") or ""
    is_live = not after and any(batch.status not in ENDED for batch in page.batches)
    version = hashlib.blake2b(repr([_seen(row) for row in rows]).encode(), digest_size=8).hexdigest()
    kept = {name: value for name, value in form.chosen().items() if name != "state"}
    return {
        "form": form,
        "tabs": [_tab(request, key, label, kept) for key, label in STATE_WORDS.items()],
        "active_tab": form.chosen().get("state", ""),
        "chips": form.chips(without=frozenset({"state"})),
        "is_filtered": bool(form.chosen()),
        "rows": rows,
        "is_first_page": not after,
        "newest_url": request.path + form.query(),
        "older_url": request.path + form.query(after=page.batches[-1].public_id) if page.has_more else "",
        "version": version,
        "poll_url": request.path + form.query(v=version),
        # Tests shorten every wait by one setting.
        "every_ms": (settings.PAGE_POLL_MILLISECONDS or _POLL_MS) if is_live else None,
    }


def _tab(request: HttpRequest, key: str, label: str, kept: Mapping[str, str]) -> dict[str, str]:
    query = urlencode({**kept, "state": key} if key else kept)
    return {"key": key, "label": label, "url": f"{request.path}?{query}"}


def _seen(row: Mapping[str, Any]) -> tuple[object, ...]:
    batch = row["batch"]
    return (
        batch.pk,
        batch.status,
        batch.completed_count,
        batch.failed_count,
        batch.charge_micro_usd,
        row["models"],
        row.get("waiting_count"),
        row.get("risks"),
    )
