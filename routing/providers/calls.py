"""What every adapter's calls share: the HTTP client, what a broken connection means, which faults are for good."""

import ssl
from functools import lru_cache
from tempfile import SpooledTemporaryFile

import httpx2

from ground.errors import ProviderError
from routing.providers.base import Deadlines, Fault, Submission
from routing.providers.transport import AnswerEncodedError, AnswerTooLargeError, BoundedTransport, CallLimits

PERMANENT_FAULTS = frozenset(
    {Fault.MODEL_GONE, Fault.ACCOUNT_REFUSED, Fault.QUOTA_EXHAUSTED, Fault.NOT_FOUND, Fault.REFUSED}
)
# The creating call may have worked although one of these came back.
AMBIGUOUS_FAULTS = frozenset({Fault.UNAVAILABLE, Fault.TIMED_OUT, Fault.UNREACHABLE, Fault.BROKEN_ANSWER})
ANSWER_BYTES = 16 * 2**20
RESULT_FILE_BYTES = 8 * 2**30
MAXIMUM_LINE_BYTES = 64 * 2**20
SPOOL_BYTES = 2**20
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class NotSentError(ProviderError):
    """The call surely did not reach the provider."""


def call_limits(deadlines: Deadlines, *, total_seconds: float, answer_bytes: int = ANSWER_BYTES) -> CallLimits:
    """Give the limits of one kind of call."""
    return CallLimits(
        total_seconds=total_seconds,
        idle_seconds=deadlines.idle_seconds,
        connect_seconds=deadlines.connect_seconds,
        answer_bytes=answer_bytes,
    )


def open_http(limits: CallLimits) -> httpx2.Client:
    """Give an HTTP client that keeps the limits.

    Redirects are not followed: a creating call would turn into a GET, and the key would travel.
    """
    return httpx2.Client(
        transport=BoundedTransport(limits, _ssl_context()),
        timeout=limits.timeout(),
        follow_redirects=False,
        trust_env=False,
    )


def connection_error(provider: str, cause: BaseException | None) -> ProviderError:
    """Say how a connection failed, by the transport's error; ``provider`` is the name in the sentence."""
    if isinstance(cause, _BEFORE_SENDING):
        return NotSentError(f"{provider}: no connection.", code=Fault.UNREACHABLE)
    if isinstance(cause, httpx2.TimeoutException):
        return ProviderError(f"{provider}: no answer within the deadline.", code=Fault.TIMED_OUT)
    if isinstance(cause, AnswerTooLargeError | AnswerEncodedError):
        return ProviderError(f"{provider}: an answer that is too large or compressed.", code=Fault.BROKEN_ANSWER)
    return ProviderError(f"{provider}: the connection was cut.", code=Fault.UNREACHABLE)


def write_lines(spool: SpooledTemporaryFile[bytes], submission: Submission) -> None:
    """Write the encoded rows of a job, one after another."""
    row_count = 0
    for lines in submission.lines():
        assert lines.endswith(b"\n"), "every encoded row ends in LF"
        row_count += lines.count(b"\n")
        spool.write(lines)
    assert row_count == submission.row_count > 0, "a submission has the rows it says, at least one"


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()
