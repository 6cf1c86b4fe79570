"""A made-up month: a provider's bill that differs from our attempts in every way with a name, and in one without.

For tests, figures and the sample of ``make run``. Each cause stands on days of its own, so that its amount is known.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import numpy as np

from billing.domain.cells import exact_usd_cell
from billing.domain.rating import row_charges_pico_usd
from billing.domain.records import AttemptOutcome, Attempts, CollectedJob, JobTerms
from billing.reconciliation.domain.records import TokenClass
from billing.reconciliation.domain.sides import BreakKind
from catalog.domain.records import Rates

PROVIDER: Final = "openai"
MODEL: Final = "gpt-4o-mini-2024-07-18"
PROJECT: Final = "proj_lanehouse"
# The bill prints eight decimals of a dollar and cuts off the rest.
_DECIMALS: Final = 8
_UNIT_PICO_USD: Final = 10 ** (12 - _DECIMALS)
_METERS: Final = {
    TokenClass.INPUT_UNCACHED: "Input Tokens",
    TokenClass.INPUT_CACHE_READ: "Cached Input Tokens",
    TokenClass.OUTPUT: "Output Tokens",
}
_COLUMNS: Final = (
    "BilledCost", "BillingAccountId", "BillingCurrency", "ChargeCategory", "ChargeDescription", "ChargePeriodStart",
    "ChargePeriodEnd", "ConsumedQuantity", "ConsumedUnit", "InvoiceId", "SkuMeter", "SkuPriceDetails", "SubAccountId",
)  # fmt: skip
_COLUMN_OF: Final = {TokenClass.INPUT_UNCACHED: 0, TokenClass.INPUT_CACHE_READ: 1, TokenClass.OUTPUT: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledLine:
    """A line of the made-up bill."""

    day: date
    token_class: TokenClass = TokenClass.INPUT_UNCACHED
    tokens: int = 0
    pico_usd: int = 0
    model: str = MODEL
    tier: str = "batch"
    category: str = "Usage"
    currency: str = "USD"
    meter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMonth:
    """What was made: jobs with their attempts, the bill's bytes (FOCUS, CSV), and what matching has to find.

    ``expected`` has the differences (invoiced less ours, pico-USD) of each class, sorted.
    """

    jobs: tuple[tuple[CollectedJob, Attempts], ...]
    bill: bytes
    expected: dict[BreakKind, list[int]]


@dataclass(slots=True, kw_only=True)
class _Maker:
    month: date
    organisation_id: int
    account: str
    rates: Rates
    list_rates: Rates
    first_job_id: int
    jobs: list[tuple[CollectedJob, Attempts]] = field(default_factory=list)
    lines: list[BilledLine] = field(default_factory=list)
    expected: dict[BreakKind, list[int]] = field(default_factory=dict)

    def day(self, number: int) -> date:
        return self.month + timedelta(days=number - 1)

    def run(
        self,
        number: int,
        tokens: dict[TokenClass, int],
        *,
        rows: int = 4,
        failed_rows: int = 0,
        at: time = time(12),
        rates: Rates | None = None,
        twin_of: int = 0,
    ) -> None:
        """Make a job on a day whose rows share its tokens evenly; ``twin_of`` names the batch it repeats."""
        number_of_job = self.first_job_id - len(self.jobs)
        batch = twin_of or number_of_job
        per_row = np.zeros((rows, 5), dtype=np.int64)
        for token_class, count in tokens.items():
            per_row[:, _COLUMN_OF[token_class]] = count // rows
            per_row[0, _COLUMN_OF[token_class]] += count % rows
        rates = rates or self.rates
        job = CollectedJob(
            organisation_id=self.organisation_id,
            batch_id=batch,
            job_id=number_of_job,
            lane_id="openai-direct",
            provider=PROVIDER,
            provider_account=self.account,
            provider_project=PROJECT,
            completed_at=datetime.combine(self.day(number), at, UTC),
            terms=JobTerms(
                batch_public_id=f"batch_sample{-batch:06}",
                model_snapshot=MODEL,
                model_id=MODEL,
                is_test=False,
                rates=rates,
            ),
        )
        attempts = Attempts(
            attempt_number=1,
            rows=np.arange(rows),
            verdicts=((AttemptOutcome.SUCCEEDED, ""), (AttemptOutcome.EXPIRED, "batch_expired")),
            verdict_indexes=(np.arange(rows) >= rows - failed_rows).astype(np.int64),
            tokens=per_row,
            costs_pico_usd=row_charges_pico_usd(per_row, rates),
        )
        self.jobs.append((job, attempts))

    def bill(self, number: int, tokens: int, rate: int, **more: object) -> int:
        """Write a line of tokens at a rate; gives its amount in pico-USD."""
        pico_usd = tokens * rate
        self.lines.append(BilledLine(day=self.day(number), tokens=tokens, pico_usd=pico_usd, **more))  # type: ignore[arg-type]  # a line's fields
        return pico_usd

    def expect(self, kind: BreakKind, *differences: int) -> None:
        self.expected[kind] = sorted([*self.expected.get(kind, []), *differences])


def make_month(
    month: date, *, organisation_id: int, account: str, rates: Rates, list_rates: Rates, first_job_id: int = -1
) -> MadeMonth:
    """Make a month.

    Args:
        month: Its first day.
        organisation_id: Whose batches these were.
        account: Our account at the provider.
        rates: What the provider bills for a batch; the catalog knows them, as it does ``list_rates``.
        list_rates: What it lists for synchronous calls.
        first_job_id: Ids count down from here, below what the engine gives.
    """
    maker = _Maker(
        month=month,
        organisation_id=organisation_id,
        account=account,
        rates=rates,
        list_rates=list_rates,
        first_job_id=first_job_id,
    )
    _agreeing(maker)
    _doubled_and_missing(maker)
    _moved(maker)
    _priced_otherwise(maker)
    _beside_usage(maker)
    _riddle(maker)
    return MadeMonth(jobs=tuple(maker.jobs), bill=_focus(maker), expected=maker.expected)


def _agreeing(maker: _Maker) -> None:
    """Give most of the month no difference at all."""
    rates = maker.rates
    for number in range(1, 29):
        tokens = 40_000_000 + 1_200_000 * number
        maker.run(number, {TokenClass.OUTPUT: tokens}, rows=400)
        maker.bill(number, tokens, rates.output_rate_micro_usd_per_mtok, token_class=TokenClass.OUTPUT)


def _doubled_and_missing(maker: _Maker) -> None:
    rate = maker.rates.input_rate_micro_usd_per_mtok
    maker.run(2, {TokenClass.INPUT_UNCACHED: 120_000})
    maker.run(2, {TokenClass.INPUT_UNCACHED: 120_000}, twin_of=maker.jobs[-1][0].batch_id)
    maker.expect(BreakKind.DUPLICATE_RECEIPT, -maker.bill(2, 120_000, rate))
    maker.run(4, {TokenClass.INPUT_UNCACHED: 84_000})
    maker.bill(4, 84_000, rate)
    maker.expect(BreakKind.DUPLICATE_INVOICE_LINE, maker.bill(4, 84_000, rate))
    maker.expect(BreakKind.MISSING_RECEIPT, maker.bill(6, 56_000, rate))
    maker.run(8, {TokenClass.INPUT_UNCACHED: 72_000})
    maker.expect(BreakKind.MISSING_INVOICE, -72_000 * rate)
    maker.run(10, {TokenClass.INPUT_UNCACHED: 64_000}, failed_rows=1)
    maker.bill(10, 48_000, rate)
    maker.expect(BreakKind.UNBILLED_FAILED, -16_000 * rate)


def _moved(maker: _Maker) -> None:
    """Put the same tokens on another day, into another class, under another name."""
    rates = maker.rates
    rate, cached_rate = rates.input_rate_micro_usd_per_mtok, rates.cached_input_rate_micro_usd_per_mtok
    maker.run(12, {TokenClass.INPUT_UNCACHED: 92_000}, at=time(23, 58))
    moved = maker.bill(13, 92_000, rate)
    maker.expect(BreakKind.TIME_BOUNDARY, moved, -moved)
    maker.run(15, {TokenClass.INPUT_UNCACHED: 100_000, TokenClass.INPUT_CACHE_READ: 40_000})
    maker.bill(15, 70_000, rate)
    maker.bill(15, 70_000, cached_rate, token_class=TokenClass.INPUT_CACHE_READ)
    maker.expect(BreakKind.CACHE_CLASS, -30_000 * rate)
    if cached_rate:
        maker.expect(BreakKind.CACHE_CLASS, 30_000 * cached_rate)
    maker.run(17, {TokenClass.INPUT_UNCACHED: 44_000})
    renamed = maker.bill(17, 44_000, rate, model="gpt-4o-mini-latest")
    maker.expect(BreakKind.MODEL_ALIAS, renamed, -renamed)


def _priced_otherwise(maker: _Maker) -> None:
    """Bill the same tokens at another rate, or others at the same."""
    rate, list_rate = maker.rates.input_rate_micro_usd_per_mtok, maker.list_rates.input_rate_micro_usd_per_mtok
    maker.run(19, {TokenClass.INPUT_UNCACHED: 36_000})
    maker.expect(BreakKind.TIER, maker.bill(19, 36_000, list_rate, tier="standard"), -36_000 * rate)
    maker.run(20, {TokenClass.INPUT_UNCACHED: 52_000})
    maker.bill(20, 20_000, rate)
    long_billed = maker.bill(20, 32_000, 2 * rate, meter="Input Tokens (long context)")
    maker.expect(BreakKind.CONTEXT_TIER, long_billed - 32_000 * rate)
    earlier = Rates(
        input_rate_micro_usd_per_mtok=rate - rate // 5,
        cached_input_rate_micro_usd_per_mtok=0,
        cache_write_5m_rate_micro_usd_per_mtok=0,
        cache_write_1h_rate_micro_usd_per_mtok=0,
        output_rate_micro_usd_per_mtok=0,
    )
    maker.run(21, {TokenClass.INPUT_UNCACHED: 28_000}, rates=earlier)
    maker.expect(BreakKind.PRICE_VERSION, maker.bill(21, 28_000, rate) - 28_000 * earlier.input_rate_micro_usd_per_mtok)
    maker.run(22, {TokenClass.INPUT_UNCACHED: 76_000})
    maker.expect(BreakKind.QUANTITY, maker.bill(22, 77_000, rate) - 76_000 * rate)
    # So few tokens that the eighth decimal cuts something off.
    maker.run(23, {TokenClass.INPUT_UNCACHED: 1_001})
    cut = maker.bill(23, 1_001, rate) % _UNIT_PICO_USD
    maker.expect(BreakKind.ROUNDING, *([-cut] if cut else []))


def _beside_usage(maker: _Maker) -> None:
    """Bill what is no usage of ours: taxes, credits, another currency, a line that nobody understands."""
    rate = maker.rates.input_rate_micro_usd_per_mtok
    maker.lines.append(BilledLine(day=maker.day(24), pico_usd=1_190_000_000_000, category="Tax"))
    maker.lines.append(BilledLine(day=maker.day(24), pico_usd=-2_500_000_000_000, category="Credit"))
    maker.expect(BreakKind.TAX, 1_190_000_000_000)
    maker.expect(BreakKind.CREDIT_OR_COMMITMENT, -2_500_000_000_000)
    maker.lines.append(BilledLine(day=maker.day(25), pico_usd=310_000_000_000, category="Gift"))
    maker.expect(BreakKind.FORMAT, 310_000_000_000)
    maker.run(26, {TokenClass.INPUT_UNCACHED: 68_000})
    maker.bill(26, 68_000, rate, currency="EUR")
    # The line itself is worth no USD; what we have there is what it leaves uncompared.
    maker.expect(BreakKind.CURRENCY, 0, -68_000 * rate)


def _riddle(maker: _Maker) -> None:
    rate = maker.rates.input_rate_micro_usd_per_mtok
    maker.run(28, {TokenClass.INPUT_UNCACHED: 88_000})
    maker.lines.append(BilledLine(day=maker.day(28), tokens=88_000, pico_usd=88_000 * rate + 1_234_560_000))
    maker.expect(BreakKind.UNEXPLAINED, 1_234_560_000)


def _focus(maker: _Maker) -> bytes:
    """Write the bill."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(_rows(maker))
    return written.getvalue().encode()


def _rows(maker: _Maker) -> Iterator[tuple[str, ...]]:
    for line in sorted(maker.lines, key=lambda each: (each.day, each.category, each.token_class, each.pico_usd)):
        is_usage = line.category == "Usage"
        start = datetime.combine(line.day, time(), UTC)
        # Cut off, not rounded: some bills do.
        printed_pico_usd = line.pico_usd - line.pico_usd % _UNIT_PICO_USD
        yield (
            exact_usd_cell(printed_pico_usd)[: _DECIMALS - 12],
            "org-lanehouse",
            line.currency,
            line.category,
            "" if is_usage else f"{line.category} of {line.day:%B}",
            f"{start:%Y-%m-%dT%H:%M:%SZ}",
            f"{start + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
            str(line.tokens) if is_usage else "",
            "Tokens" if is_usage else "",
            f"{maker.month:%Y%m}-4471",
            line.meter or (_METERS[line.token_class] if is_usage else ""),
            json.dumps({"x_model": line.model, "x_Tier": line.tier}) if is_usage else "",
            PROJECT if is_usage else "",
        )
