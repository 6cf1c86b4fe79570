"""What the customers' documentation is made of: its pages, its figures and its snippets, each from where it is true."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.conf import settings

from accounts.domain.scopes import SAID
from accounts.models import Organisation
from accounts.services.kept_calls import KEPT_FOR
from accounts.services.organisations import KEYS_MAX_COUNT
from console.error_codes import ACCEPT_CODES, CALL_CODES, FILE_CODES, ROW_CODES
from routing.domain.jsonl.checks import ENDPOINTS, MAXIMUM_CUSTOM_ID_CHARACTERS
from routing.domain.jsonl.table import MAXIMUM_ROW_BYTES, MAXIMUM_ROWS, MAXIMUM_ROWS_BY_FILE
from routing.domain.refusal import ROW_ERRORS_MAX_COUNT
from routing.services.files import LIFETIME_MAX_SECONDS, LIFETIME_MIN_SECONDS
from routing.services.notices import ITEMS_MAX_COUNT
from routing.services.workflows import WORKFLOWS_MAX_COUNT
from webhooks.domain.ladder import ATTEMPTS_MAX_COUNT, DELAYS_SECONDS, RETRY_AFTER_MAX_SECONDS
from webhooks.services.endpoints import ENDPOINTS_MAX_COUNT

_SNIPPETS: Final = settings.BASE_DIR / "docs" / "snippets"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidePage:
    """One page; ``name`` is its address and its template."""

    name: str
    label: str


GUIDE: Final = (
    GuidePage(name="quickstart", label="Quickstart"),
    GuidePage(name="quotes", label="Quotes"),
    GuidePage(name="batches", label="Batches"),
    GuidePage(name="files", label="Files"),
    GuidePage(name="receipts", label="Receipts"),
    GuidePage(name="webhooks", label="Webhooks"),
    GuidePage(name="limits", label="Limits"),
    GuidePage(name="errors", label="Errors"),
)


@cache
def snippets() -> dict[str, str]:
    """Give the texts of the snippets by name: files that the tests run as they stand."""
    return {path.name: path.read_text(encoding="utf-8") for path in _SNIPPETS.iterdir()}


def figures() -> dict[str, Any]:
    """Give the figures that the pages state; none of them is written down a second time."""
    defaults = {field.name: field.default for field in Organisation._meta.fields}  # noqa: SLF001 -- Django's documented way
    return {
        "endpoints": list(ENDPOINTS),
        "error_groups": (
            ("file", "Files and their rows", FILE_CODES),
            ("accept", "Accepting", ACCEPT_CODES),
            ("call", "Any call", CALL_CODES),
            ("row", "Rows of the results", ROW_CODES),
        ),
        "scopes": [(scope.value, said) for scope, said in SAID.items()],
        "body_max_bytes": settings.QUOTE_BODY_MAX_BYTES,
        "file_max_bytes": settings.FILE_MAX_BYTES,
        "stored_files_max_bytes": settings.STORED_FILES_MAX_BYTES,
        "stored_quotes_max_bytes": settings.STORED_QUOTES_MAX_BYTES,
        "row_max_bytes": MAXIMUM_ROW_BYTES,
        "rows_max_count": MAXIMUM_ROWS,
        "rows_by_file_max_count": MAXIMUM_ROWS_BY_FILE,
        "row_errors_max_count": ROW_ERRORS_MAX_COUNT,
        "custom_id_max_characters": MAXIMUM_CUSTOM_ID_CHARACTERS,
        "calls_per_minute": defaults["calls_per_minute"],
        "input_tokens_per_minute": defaults["input_tokens_per_minute"],
        "accepts_per_minute": defaults["accepts_per_minute"],
        "keys_max_count": KEYS_MAX_COUNT,
        "workflows_max_count": WORKFLOWS_MAX_COUNT,
        "endpoints_max_count": ENDPOINTS_MAX_COUNT,
        "quote_seconds": int(settings.QUOTE_LIFETIME.total_seconds()),
        "window_seconds": int(settings.BATCH_WINDOW.total_seconds()),
        "file_seconds": int(settings.FILE_LIFETIME.total_seconds()),
        "idempotency_seconds": int(KEPT_FOR.total_seconds()),
        "file_min_seconds": LIFETIME_MIN_SECONDS,
        "file_max_seconds": LIFETIME_MAX_SECONDS,
        "fee_micro_usd": settings.CONTROL_PLANE_FEE_MICRO_USD,
        "hold_margin_basis_points": settings.HOLD_MARGIN_BASIS_POINTS,
        "low_cost_below_micro_usd": settings.LOW_COST_BELOW_MICRO_USD,
        "event_types": settings.WEBHOOK_EVENT_TYPES,
        "gathered_max_count": ITEMS_MAX_COUNT,
        "attempts_max_count": ATTEMPTS_MAX_COUNT,
        "delays_seconds": DELAYS_SECONDS,
        "retry_after_max_seconds": RETRY_AFTER_MAX_SECONDS,
    }
