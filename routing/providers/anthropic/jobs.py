"""Anthropic's batch objects, lists and refusals as the port's records. Pure.

A batch has no name, no metadata and no model; its counts stay zero until it has ended; ``ended`` says nothing of how.
Nothing but a well-formed answer decides.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from ground.errors import ProviderError
from routing.providers.base import Fault, JobEnding, JobReport, JobState, ListedJob
from routing.providers.calls import PERMANENT_FAULTS
from routing.providers.redaction import redact
from routing.providers.retry_after import retry_after_seconds

_WORD_LENGTH = 100
_ENDED = "ended"

_WORD_FAULTS = {
    "enforced_spend_limit_reached": Fault.QUOTA_EXHAUSTED,
    "billing_error": Fault.QUOTA_EXHAUSTED,
    "organization_on_hold": Fault.ACCOUNT_REFUSED,
    "cmek_key_disabled": Fault.ACCOUNT_REFUSED,
    "claude_code_key_creator_not_member": Fault.ACCOUNT_REFUSED,
    "workspace_human_review_disabled": Fault.ACCOUNT_REFUSED,
}
_STATUS_FAULTS = {
    401: Fault.ACCOUNT_REFUSED,
    402: Fault.QUOTA_EXHAUSTED,
    403: Fault.ACCOUNT_REFUSED,
    404: Fault.NOT_FOUND,
    408: Fault.TIMED_OUT,
    409: Fault.UNAVAILABLE,
    425: Fault.UNAVAILABLE,
    429: Fault.RATE_LIMITED,
}

_Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_T = TypeVar("_T")


class _Counts(msgspec.Struct, frozen=True):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _Job(msgspec.Struct, frozen=True):
    id: str
    processing_status: str
    created_at: _Instant
    request_counts: _Counts = _Counts()
    ended_at: _Instant | None = None
    cancel_initiated_at: _Instant | None = None
    archived_at: _Instant | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[_Job]
    has_more: bool | None = None


class _Named(msgspec.Struct, frozen=True):
    id: str


class _Details(msgspec.Struct, frozen=True):
    error_code: str | None = None


class _Error(msgspec.Struct, frozen=True):
    type: str
    details: _Details | None = None


class _Envelope(msgspec.Struct, frozen=True):
    error: _Error


class JobPage(NamedTuple):
    """One page of a list, newest first; ``next_after`` is None on the last one."""

    jobs: tuple[ListedJob, ...]
    next_after: str | None


def read_reference(answer: bytes) -> str:
    """Give the id of the batch an answer names.

    Raises:
        ProviderError: The answer is not that of the provider.
    """
    named = _decode(answer, _Named)
    if not named.id:
        raise broken_answer()
    return named.id


def read_report(answer: bytes, batch_ref: str) -> JobReport:
    """Read a batch object.

    Anthropic says only that a batch has ended: it was cancelled if somebody asked for that, expired if rows were not
    reached, else completed; each may hold answers. Its results are gone once it is archived.

    Raises:
        ProviderError: ``broken_answer``, when it is not the batch object of ``batch_ref``.
    """
    job = _decode(answer, _Job)
    if job.id != batch_ref:
        raise broken_answer()
    counts = job.request_counts
    ending = _ending(job) if job.processing_status == _ENDED else None
    return JobReport(
        batch_ref=job.id,
        state=JobState.RUNNING if ending is None else JobState.ENDED,
        ending=ending,
        provider_status=job.processing_status[:_WORD_LENGTH],
        done_count=counts.succeeded,
        failed_count=counts.errored + counts.canceled + counts.expired,
        completed_at=None if ending is None else job.ended_at,
        result_refs=() if ending is None or job.archived_at is not None else (job.id,),
    )


def read_page(answer: bytes) -> JobPage:
    """Read one page of the list of batches; a batch has no place for a token.

    Raises:
        ProviderError: The answer is no list, or it is empty and says that more follow.
    """
    page = _decode(answer, _Page)
    if not page.data:
        if page.has_more:
            raise broken_answer()
        return JobPage((), None)
    jobs = tuple(_listed(job) for job in page.data)
    return JobPage(jobs, None if page.has_more is False else jobs[-1].batch_ref)


def refusal(status_code: int, answer: bytes, headers: Mapping[str, str], *, at: datetime) -> ProviderError:
    """Translate an answer that is no success.

    Only the provider's own error envelope can be permanent; a page of something between us and the provider never is.
    The message holds status, type and code, none of the provider's sentences: they may quote a prompt.

    Args:
        status_code: The HTTP status, 300 or more.
        answer: The body.
        headers: The answer's headers, with lower-case names.
        at: Now, for a ``retry-after`` that is a date.
    """
    wait = retry_after_seconds(headers, at=at)
    try:
        error = msgspec.json.decode(answer, type=_Envelope).error
    except (msgspec.DecodeError, RecursionError):
        fault = Fault.RATE_LIMITED if status_code == 429 else Fault.UNAVAILABLE  # noqa: PLR2004  # the HTTP status
        words = "an answer that is not the provider's"
        return ProviderError(f"Anthropic: status {status_code}, {words}.", code=fault, retry_after_seconds=wait)
    code = error.details.error_code if error.details else None
    fault = _fault(status_code, code, error.type)
    stated = [
        f"{name} {redact(value, maximum_length=_WORD_LENGTH)}"
        for name, value in (("type", error.type), ("code", code))
        if value and value.isprintable()
    ]
    return ProviderError(
        f"Anthropic: {', '.join([f'status {status_code}', *stated])}.",
        code=fault,
        permanent=fault in PERMANENT_FAULTS,
        retry_after_seconds=wait,
    )


def broken_answer() -> ProviderError:
    """Give the error for a success status whose body cannot be read; it decides nothing."""
    return ProviderError("Anthropic: an answer that cannot be read.", code=Fault.BROKEN_ANSWER)


def _ending(job: _Job) -> JobEnding:
    if job.cancel_initiated_at is not None:
        return JobEnding.CANCELLED
    return JobEnding.EXPIRED if job.request_counts.expired else JobEnding.COMPLETED


def _listed(job: _Job) -> ListedJob:
    counts = job.request_counts
    row_count = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
    return ListedJob(batch_ref=job.id, token=None, row_count=row_count or None, created_at=job.created_at)


def _fault(status_code: int, code: str | None, error_type: str) -> Fault:
    """Say what an error means: a server's failure by its status, a refusal by its code, its type, its status."""
    if not 400 <= status_code < 500:  # noqa: PLR2004  # the class of refusals
        return Fault.UNAVAILABLE
    for word in (code, error_type):
        if word in _WORD_FAULTS:
            return _WORD_FAULTS[word]
    return _STATUS_FAULTS.get(status_code, Fault.REFUSED)


def _decode(answer: bytes, shape: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer, type=shape)
    except (msgspec.DecodeError, RecursionError):
        raise broken_answer() from None
