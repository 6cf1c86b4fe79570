"""OpenAI's batch objects, lists and refusals as the port's records. Pure.

Nothing but a well-formed answer decides: what is not the provider's own JSON is never a state and never a verdict.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import msgspec

from ground.errors import ProviderError
from routing.providers.base import Fault, JobEnding, JobReport, JobState, ListedJob
from routing.providers.calls import PERMANENT_FAULTS
from routing.providers.redaction import redact
from routing.providers.retry_after import retry_after_seconds

TOKEN_METADATA_KEY = "lanehouse_token"  # noqa: S105  # the name of a metadata member
_MESSAGE_LENGTH = 300
_WORD_LENGTH = 100
_STATED_ERRORS = 5

_ENDINGS = {each.value: each for each in JobEnding}
_WORD_FAULTS = {
    "token_limit_exceeded": Fault.LANE_FULL,
    "model_not_found": Fault.MODEL_GONE,
    "model_deprecated": Fault.MODEL_GONE,
    "insufficient_quota": Fault.QUOTA_EXHAUSTED,
    "billing_hard_limit_reached": Fault.QUOTA_EXHAUSTED,
    "invalid_api_key": Fault.ACCOUNT_REFUSED,
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

_Instant = int | float | None
_T = TypeVar("_T")


class _Counts(msgspec.Struct, frozen=True):
    total: int | None = None
    completed: int | None = None
    failed: int | None = None


class _JobError(msgspec.Struct, frozen=True):
    code: str | None = None
    line: int | None = None
    message: str | None = None


class _JobErrors(msgspec.Struct, frozen=True):
    data: list[_JobError] | None = None


class _Job(msgspec.Struct, frozen=True):
    id: str
    status: str
    created_at: int | float
    completed_at: _Instant = None
    failed_at: _Instant = None
    expired_at: _Instant = None
    cancelled_at: _Instant = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: _Counts | None = None
    errors: _JobErrors | None = None
    metadata: dict[str, str] | None = None


class _Page(msgspec.Struct, frozen=True):
    data: list[_Job]
    has_more: bool | None = None


class _Named(msgspec.Struct, frozen=True):
    id: str


class _Error(msgspec.Struct, frozen=True):
    code: str | int | None = None
    type: str | None = None
    param: str | None = None


class _Envelope(msgspec.Struct, frozen=True):
    error: _Error


class JobPage(NamedTuple):
    """One page of a list, newest first; ``next_after`` is None on the last one."""

    jobs: tuple[ListedJob, ...]
    next_after: str | None


def read_reference(answer: bytes) -> str:
    """Give the id of the file or batch an answer names.

    Raises:
        ProviderError: The answer is not that of the provider.
    """
    named = _decode(answer, _Named)
    if not named.id:
        raise broken_answer()
    return named.id


def read_report(answer: bytes, batch_ref: str) -> JobReport:
    """Read a batch object.

    Raises:
        ProviderError: ``broken_answer``, when it is not the batch object of ``batch_ref``.
    """
    job = _decode(answer, _Job)
    if job.id != batch_ref:
        raise broken_answer()
    ending = _ENDINGS.get(job.status)
    counts = job.request_counts or _Counts()
    fault, message = _job_fault(job) if ending is JobEnding.FAILED else (None, None)
    instants = {
        JobEnding.COMPLETED: job.completed_at,
        JobEnding.FAILED: job.failed_at,
        JobEnding.EXPIRED: job.expired_at,
        JobEnding.CANCELLED: job.cancelled_at,
    }
    files = (job.output_file_id, job.error_file_id)
    return JobReport(
        batch_ref=job.id,
        state=JobState.RUNNING if ending is None else JobState.ENDED,
        ending=ending,
        provider_status=job.status[:_WORD_LENGTH],
        done_count=counts.completed or 0,
        failed_count=counts.failed or 0,
        completed_at=None if ending is None else _instant(instants[ending]),
        result_refs=() if ending is None else tuple(each for each in files if each),
        fault=fault,
        message=message,
    )


def read_page(answer: bytes) -> JobPage:
    """Read one page of the list of batches.

    Raises:
        ProviderError: The answer is no list, or it is empty and says that more follow.
    """
    page = _decode(answer, _Page)
    if not page.data:
        if page.has_more:
            raise broken_answer()
        return JobPage((), None)
    jobs = tuple(_listed(job) for job in page.data)
    # A missing has_more says nothing: only an empty page is then the last.
    return JobPage(jobs, None if page.has_more is False else jobs[-1].batch_ref)


def refusal(status_code: int, answer: bytes, headers: Mapping[str, str], *, at: datetime) -> ProviderError:
    """Translate an answer that is no success.

    Only the provider's own error envelope can be permanent; a page of something between us and the provider never is.
    The message holds status, code, type and param, none of the provider's sentences: they may quote a prompt.

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
        return ProviderError(f"OpenAI: status {status_code}, {words}.", code=fault, retry_after_seconds=wait)
    code = str(error.code) if error.code is not None else None
    fault = _fault(status_code, code, error.type)
    stated = [
        f"{name} {redact(value, maximum_length=_WORD_LENGTH)}"
        for name, value in (("code", code), ("type", error.type), ("param", error.param))
        if value and value.isprintable()
    ]
    return ProviderError(
        f"OpenAI: {', '.join([f'status {status_code}', *stated])}.",
        code=fault,
        permanent=fault in PERMANENT_FAULTS,
        retry_after_seconds=wait,
    )


def broken_answer() -> ProviderError:
    """Give the error for a success status whose body cannot be read; it decides nothing."""
    return ProviderError("OpenAI: an answer that cannot be read.", code=Fault.BROKEN_ANSWER)


def _fault(status_code: int, code: str | None, error_type: str | None) -> Fault:
    """Say what an error means: a server's failure by its status, a refusal by its code, its type, its status."""
    if not 400 <= status_code < 500:  # noqa: PLR2004  # the class of refusals
        return Fault.UNAVAILABLE
    for word in (code, error_type):
        if word in _WORD_FAULTS:
            return _WORD_FAULTS[word]
    return _STATUS_FAULTS.get(status_code, Fault.REFUSED)


def _job_fault(job: _Job) -> tuple[Fault, str]:
    """Say why a batch failed as a whole: its first known code, and codes with lines for operators."""
    errors = (job.errors.data if job.errors else None) or []
    known = [_WORD_FAULTS[error.code] for error in errors if error.code in _WORD_FAULTS]
    fault = known[0] if known else Fault.REFUSED
    stated = [
        redact(error.code or "no code", maximum_length=_WORD_LENGTH) + (f" (line {error.line})" if error.line else "")
        for error in errors[:_STATED_ERRORS]
    ]
    message = "; ".join(stated) or "no reason given"
    if fault is Fault.LANE_FULL:
        # This sentence names the model and the limit; it is about the account and cannot quote a prompt.
        said = next((error.message for error in errors if error.code == "token_limit_exceeded"), None)
        message = redact(said or message, maximum_length=_MESSAGE_LENGTH)
    return fault, message


def _listed(job: _Job) -> ListedJob:
    row_count = job.request_counts.total if job.request_counts else None
    created_at = _instant(job.created_at)
    assert created_at is not None, "the decoder demands created_at"
    return ListedJob(
        batch_ref=job.id,
        token=(job.metadata or {}).get(TOKEN_METADATA_KEY),
        row_count=row_count or None,
        created_at=created_at,
    )


def _instant(seconds: _Instant) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise broken_answer() from None


def _decode(answer: bytes, shape: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer, type=shape)
    except (msgspec.DecodeError, RecursionError):
        raise broken_answer() from None
