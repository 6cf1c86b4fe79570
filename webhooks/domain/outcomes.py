"""What an answer means for its delivery and its endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from webhooks.domain.records import Answer, Outcome

_GONE = 410
_TOO_MANY = 429


class Next(StrEnum):
    """What becomes of the delivery."""

    DELIVERED = "delivered"
    RETRY = "retry"
    END = "end"


class Reason(StrEnum):
    """Why a delivery is over without having arrived."""

    REDIRECTED = "redirected"
    GONE = "gone"
    ADDRESS_NOT_ALLOWED = "address_not_allowed"
    ATTEMPTS_USED_UP = "attempts_used_up"
    ENDPOINT_DELETED = "endpoint_deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What follows from an attempt. ``disables_because`` is a sentence where the endpoint is to be switched off."""

    outcome: Outcome
    next: Next
    reason: Reason | None = None
    disables_because: str = ""


def judge(answer: Answer) -> Verdict:
    """Give what follows from an answer.

    Only a 2xx head is a success. Everything else is tried again, because receivers answer 401 or 404 while they are
    deployed; except a redirect, which is never followed, 410, and an address that may not be connected to.
    """
    if answer.status_code is None:
        return _without_answer(answer.failure)
    status_code = answer.status_code
    if 200 <= status_code < 300:  # noqa: PLR2004 -- HTTP's classes
        return Verdict(outcome=Outcome.DELIVERED, next=Next.DELIVERED)
    if 300 <= status_code < 400:  # noqa: PLR2004
        return Verdict(outcome=Outcome.HTTP_3XX, next=Next.END, reason=Reason.REDIRECTED)
    if status_code == _GONE:
        return Verdict(
            outcome=Outcome.HTTP_4XX,
            next=Next.END,
            reason=Reason.GONE,
            disables_because="The receiver answered 410 Gone.",
        )
    return Verdict(outcome=_failure_of(status_code), next=Next.RETRY)


def _failure_of(status_code: int) -> Outcome:
    if status_code == _TOO_MANY:
        return Outcome.HTTP_429
    # What is no class of HTTP's is no HTTP.
    return {4: Outcome.HTTP_4XX, 5: Outcome.HTTP_5XX}.get(status_code // 100, Outcome.PROTOCOL)


def _without_answer(failure: Outcome | None) -> Verdict:
    assert failure is not None, "an attempt has an answer or a failure"
    if failure is not Outcome.BLOCKED:
        return Verdict(outcome=failure, next=Next.RETRY)
    return Verdict(
        outcome=failure,
        next=Next.END,
        reason=Reason.ADDRESS_NOT_ALLOWED,
        disables_because="Its host leads to an address that is not allowed.",
    )
