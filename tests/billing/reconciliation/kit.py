"""A month of attempts and a bill, stored, read and matched."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from accounts.models import User
from billing.reconciliation.domain.records import Format
from billing.reconciliation.models import InvoiceFile, ProviderInvoice
from billing.reconciliation.sample_month import PROVIDER, MadeMonth, make_month
from billing.reconciliation.services.files import Report, take_file
from billing.reconciliation.services.matching import match_next_invoice
from billing.reconciliation.services.reading import read_next_file
from billing.services.attempts import ensure_partitions, record_attempts
from catalog.domain.records import Rates

MONTH = date(2026, 10, 1)
ACCOUNT = "openai-lanes"
# Micro-USD per million tokens, so pico-USD a token; those of gpt-4o-mini in the catalog.
RATES = Rates(
    input_rate_micro_usd_per_mtok=75_000,
    cached_input_rate_micro_usd_per_mtok=37_500,
    cache_write_5m_rate_micro_usd_per_mtok=93_750,
    cache_write_1h_rate_micro_usd_per_mtok=150_000,
    output_rate_micro_usd_per_mtok=300_000,
)
LIST_RATES = replace(RATES, input_rate_micro_usd_per_mtok=150_000, output_rate_micro_usd_per_mtok=600_000)


def month_of(organisation_id: int = 1) -> MadeMonth:
    return make_month(MONTH, organisation_id=organisation_id, account=ACCOUNT, rates=RATES, list_rates=LIST_RATES)


def record(made: MadeMonth) -> None:
    ensure_partitions(datetime(2026, 10, 1, tzinfo=UTC))
    for job, attempts in made.jobs:
        record_attempts(job, attempts)


def report(**more: Any) -> Report:
    said = {"report_format": Format.FOCUS, "file_name": "october.csv", "period": MONTH}
    return Report(provider=PROVIDER, provider_account=ACCOUNT, **{**said, **more})


def taken(content: bytes, *, by: User | None = None, **more: Any) -> InvoiceFile:
    """Hand a file in, and let it be read and matched."""
    file = take_file(report(**more), [content], by=by)
    while read_next_file() or match_next_invoice():
        pass
    file.refresh_from_db()
    return file


def matched_month() -> ProviderInvoice:
    made = month_of()
    record(made)
    return ProviderInvoice.objects.get(pk=taken(made.bill).invoice_id)
