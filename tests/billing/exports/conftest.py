"""A customer whose books have something of everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import Organisation
from billing.services.settlement import settle_batch
from billing.services.wallets import record_top_up
from catalog.domain.records import TokenKind
from tests.billing.kit import fee, group, make_organisation, settlement, usage

FIRST = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)


@pytest.fixture
def customer(db: None) -> Organisation:
    """Charged 0.35, 1,615 + 20,000 and 700 micro-USD, the last 200 below its usage; one name begins a formula."""
    organisation = make_organisation(money=10_000_000)
    organisation.reporting_zone = "Asia/Kathmandu"
    organisation.save()
    # One token at 0.35 USD per million: 0.35 micro-USD, rounded to nothing.
    tiny = group("tiny", (TokenKind.INPUT, 350_000, 1))
    settle_batch(settlement(organisation, "batch_tiny", tiny, settled_at=FIRST))
    plain = group("=1+1", (TokenKind.OUTPUT, 1_000_000, 1_615))
    settle_batch(
        settlement(
            organisation, "batch_plain", plain, fees=[fee("=1+1", 20_000)], settled_at=FIRST + timedelta(hours=1)
        )
    )
    late = FIRST + timedelta(days=1)
    settle_batch(settlement(organisation, "batch_dear", usage("dear", 900), settled_at=late, ceiling_micro_usd=700))
    record_top_up(organisation, reference='=cmd|"x"', amount_micro_usd=5_000_000, effective_at=late, recorded_by=None)
    return organisation
