"""``/v1/finance``: how it shows periods, and attempts that came too late for one."""

from __future__ import annotations

from typing import Any, Literal

from ninja import Schema

from billing.reconciliation import period_selectors
from billing.reconciliation.checklist import checklist
from billing.reconciliation.period_models import AttemptRecording, Period
from billing.reconciliation.schemas import instant_answer


class ConditionAnswer(Schema):
    """One condition of a close."""

    key: str
    is_met: bool
    said: str


class PeriodAnswer(Schema):
    """A month's books."""

    object: Literal["period"] = "period"
    month: str
    state: str
    requested_by: str | None
    closed_by: str | None
    closed_at: int | None
    sha256: str | None

    @classmethod
    def of(cls, period: Period) -> PeriodAnswer:
        """Shape a month that may have no row yet."""
        return cls(**_period_fields(period))


class PeriodDetailAnswer(PeriodAnswer):
    """A month with its checklist, and what was recorded of it after it was closed."""

    checklist: list[ConditionAnswer]
    late_attempt_count: int
    late_cost_pico_usd: int

    @classmethod
    def of(cls, period: Period) -> PeriodDetailAnswer:
        """Shape a month. Not inside a transaction: the ledger is proven."""
        items = [ConditionAnswer(key=each.key, is_met=each.is_met, said=each.said) for each in checklist(period.month)]
        late = period_selectors.late_totals(period.month)
        return cls(
            **_period_fields(period),
            checklist=items,
            late_attempt_count=late.attempt_count,
            late_cost_pico_usd=late.cost_pico_usd,
        )


class PeriodListAnswer(Schema):
    """A page of months that have something, the newest first; `month` is the cursor."""

    object: Literal["list"] = "list"
    data: list[PeriodAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


class LateAttemptsAnswer(Schema):
    """What was recorded of one job after its month was closed; the break of `carried_to` is where it is decided."""

    id: str
    object: Literal["late_attempts"] = "late_attempts"
    month: str
    carried_to: str
    provider: str
    provider_account: str
    batch_id: str
    job: int
    completed_at: int
    recorded_at: int
    attempt_count: int
    cost_pico_usd: int

    @classmethod
    def of(cls, recording: AttemptRecording) -> LateAttemptsAnswer:
        """Shape a recording that was late."""
        return cls(
            id=period_selectors.late_cursor(recording),
            month=f"{recording.late_for:%Y-%m}",
            carried_to=f"{recording.carried_to:%Y-%m}",
            provider=recording.provider,
            provider_account=recording.provider_account,
            batch_id=recording.batch_public_id,
            job=recording.job_id,
            completed_at=int(recording.completed_at.timestamp()),
            recorded_at=int(recording.recorded_at.timestamp()),
            attempt_count=recording.attempt_count,
            cost_pico_usd=int(recording.cost_pico_usd),
        )


class LateAttemptsListAnswer(Schema):
    """A page of late attempts, the newest first."""

    object: Literal["list"] = "list"
    data: list[LateAttemptsAnswer]
    first_id: str | None
    last_id: str | None
    has_more: bool


def _period_fields(period: Period) -> dict[str, Any]:
    return {
        "month": f"{period.month:%Y-%m}",
        "state": period.state,
        "requested_by": period.requested_by.email if period.requested_by else None,
        "closed_by": period.closed_by.email if period.closed_by else None,
        "closed_at": instant_answer(period.closed_at),
        "sha256": bytes(period.export_sha256).hex() if period.export_sha256 else None,
    }
