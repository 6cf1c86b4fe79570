"""The sample of ``make run``: a month that differs from its bill in every way, handed in like any other."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Final

from django.db import transaction

from accounts.models import Organisation
from billing.reconciliation.domain.records import Format
from billing.reconciliation.models import ProviderInvoice
from billing.reconciliation.sample_month import PROVIDER, make_month
from billing.reconciliation.services.files import Report, take_file
from billing.services.attempts import ensure_partitions, record_attempts
from catalog.selectors import current_catalog
from ground import clock

ACCOUNT: Final = "openai-sample-lanes"
_MODEL, _LANE = "gpt-4o-mini", "openai-direct"


def hand_in_sample_month(organisation: Organisation) -> bool:
    """Record last month's made-up attempts and hand in its bill, once; say whether it was done now."""
    month = (clock.now().date().replace(day=1) - date.resolution).replace(day=1)
    if ProviderInvoice.objects.filter(provider=PROVIDER, provider_account=ACCOUNT).exists():
        return False
    lane = current_catalog().lanes[_MODEL, _LANE]
    assert lane.rate_card is not None, "the sample's lane has rates"
    made = make_month(
        month,
        organisation_id=organisation.pk,
        account=ACCOUNT,
        rates=lane.rate_card.provider_batch,
        list_rates=lane.rate_card.list,
    )
    ensure_partitions(datetime.combine(month, time(), UTC))
    with transaction.atomic():
        for job, attempts in made.jobs:
            record_attempts(job, attempts)
    report = Report(
        provider=PROVIDER,
        provider_account=ACCOUNT,
        period=month,
        report_format=Format.FOCUS,
        file_name=f"openai-{month:%Y-%m}.focus.csv",
        invoice_number=f"SAMPLE-{month:%Y%m}",
        request_parameters="Made up for this sample, with one riddle",
        fetched_at=clock.now(),
    )
    take_file(report, [made.bill], by=None)
    return True
