"""The provider port: what the engine may ask of any provider's Batch API, in one vocabulary.

An adapter translates; it decides nothing. It holds no state of ours, retries nothing, sleeps never, and answers
within its deadlines. Every failure is a :class:`ground.errors.ProviderError` whose ``code`` is a :class:`Fault`;
``permanent``, ``retry_after_seconds`` and ``ambiguous`` alone say what the engine does next.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Protocol, Self, TypeAlias

import msgspec

from catalog.domain.records import Endpoint
from routing.providers.answered import AnsweredRows

TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{8,48}")
ROW_NUMBER_DIGITS = 12
_ROW_NUMBERS = 10**ROW_NUMBER_DIGITS


class Fault(enum.StrEnum):
    """Why a call or a whole job failed; the ``code`` of every ``ProviderError`` and of a failed :class:`JobReport`.

    A fault says what the engine may do, not which status came: ``lane_full`` is a ``waiting`` (the same rows later),
    ``model_gone`` concerns one pin, ``account_refused`` and ``quota_exhausted`` concern every lane of the account.
    """

    UNREACHABLE = "provider_unreachable"
    TIMED_OUT = "provider_timed_out"
    UNAVAILABLE = "provider_unavailable"
    RATE_LIMITED = "provider_rate_limited"
    LANE_FULL = "provider_lane_full"
    MODEL_GONE = "provider_model_gone"
    ACCOUNT_REFUSED = "provider_account_refused"
    QUOTA_EXHAUSTED = "provider_quota_exhausted"
    NOT_FOUND = "provider_not_found"
    REFUSED = "provider_refused"
    BROKEN_ANSWER = "provider_broken_answer"


class Outcome(enum.StrEnum):
    """How one row ended in one attempt."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class RowCode(enum.StrEnum):
    """The stable codes of rows that did not succeed, as customers see them, as far as a provider can cause them."""

    BATCH_EXPIRED = "batch_expired"
    BATCH_CANCELLED = "batch_cancelled"
    PROVIDER_ERROR = "provider_error"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    CONTENT_FILTERED = "content_filtered"
    MODEL_GONE = "model.deprecated_post_quote"


class JobState(enum.StrEnum):
    """Whether the provider still works on a job."""

    RUNNING = "running"
    ENDED = "ended"


class JobEnding(enum.StrEnum):
    """How a job ended. ``failed`` means that it never ran; all others may have results, also ``cancelled``."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class UsageProblem(enum.StrEnum):
    """Why a usage is not what the provider should have said; such a row is never charged blindly."""

    ABSENT = "absent"
    MALFORMED = "malformed"
    INCONSISTENT = "inconsistent"


class LineProblem(enum.StrEnum):
    """Why a line of a result file could not be read."""

    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    NO_KEY = "no_key"
    TOO_LONG = "too_long"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAccount:
    """Whose key is used where. ``base_url`` is the provider's API root as its SDK wants it; the key is never shown."""

    provider: str
    name: str
    base_url: str
    api_key: str = field(repr=False)
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long calls may take by the wall clock, from their first byte to the last of the answer.

    ``idle_seconds`` bounds each single read or write. A download's deadline includes the time its reader takes.
    """

    connect_seconds: float = 5.0
    idle_seconds: float = 60.0
    call_seconds: float = 30.0
    upload_seconds: float = 900.0
    download_seconds: float = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job to submit.

    ``token`` (matches :data:`TOKEN_PATTERN`) is the idempotency token and the prefix of every row key. ``lines`` gives
    a fresh iterator over the encoded rows each time it is called: in pieces of one or more whole lines, each of which
    an ``encode_row`` or ``splice_rows`` gave, LF included, in any order, ``row_count`` lines in all. It is read once,
    in order, while the job is written; it is never held in memory.
    """

    token: str
    endpoint: Endpoint
    model_id: str
    row_count: int
    lines: Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """A job the provider has accepted. ``input_ref`` names the uploaded input, where there is one."""

    batch_ref: str
    input_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job as the provider lists it.

    ``token`` is None where the provider keeps no metadata, or where the job is not ours. ``row_count`` is None while
    the provider does not know it yet.
    """

    batch_ref: str
    token: str | None
    row_count: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What the provider says of one job now.

    ``ending`` is set exactly when ``state`` is ended. Counts are the provider's, not proven by rows, and may not add
    up. ``completed_at`` is the provider's instant of the ending. ``result_refs`` name what :meth:`Provider.results`
    reads, none when nothing ran. ``fault`` with ``message`` (safe for operators: no prompt text, no key) is set when
    ``ending`` is failed. ``provider_status`` is the provider's own word.
    """

    batch_ref: str
    state: JobState
    ending: JobEnding | None
    provider_status: str
    done_count: int
    failed_count: int
    completed_at: datetime | None
    result_refs: tuple[str, ...] = ()
    fault: Fault | None = None
    message: str | None = None


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Billed tokens of one row, each token counted once.

    ``input_tokens`` are those read at the full input rate: neither from the cache nor written to it.
    ``reasoning_tokens`` are part of ``output_tokens`` and only shown apart. A struct, as :class:`RowResult`: one is
    made for each row, at a fifth of a frozen dataclass's time.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class RowResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of one row of the job.

    ``row`` is the number that was put into the row key. ``code`` is None exactly when the row succeeded.
    ``healable`` is True when the lane failed and not the row: another lane with the same pin may succeed. A cancelled
    row is never healable, because only we cancel.
    ``status_code`` and ``body`` are None when the row never ran. ``body`` is JSON in the shape of the OpenAI endpoint
    the row named, with our id of the answer; for a failure it is ``{"error": {...}}``.
    ``usage`` is all zeros when the provider reported none; on a success ``usage_problem`` then says why, and also
    when the numbers had to be corrected. A failed row has usage only when the provider reported (and bills) it.
    ``provider_code`` is the provider's own code of the failure, for operators.
    """

    row_key: str
    row: int
    outcome: Outcome
    code: RowCode | None
    healable: bool
    status_code: int | None
    body: bytes | None
    usage: TokenUsage
    usage_problem: UsageProblem | None = None
    provider_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLine:
    """A readable line whose key is not of this job; ``row_key`` is cut to 200 characters."""

    row_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenLine:
    """A line that could not be read; ``line`` counts from 1 in the file ``result_ref``. Its text is never kept."""

    result_ref: str
    line: int
    size_bytes: int
    problem: LineProblem


ResultItem: TypeAlias = RowResult | ForeignLine | BrokenLine


class Provider(Protocol):
    """One provider account, opened. Close it, or use it in a ``with``; not to be shared over a fork or by threads."""

    def encode_row(
        self,
        *,
        row_key: str,
        endpoint: Endpoint,
        model_id: str,
        body: Mapping[str, msgspec.Raw],
        max_output_tokens: int | None = None,
    ) -> bytes:
        """Give the provider's line for one row, LF included. Pure; what it gives is what the size limits count.

        Args:
            row_key: From :func:`make_row_key`; stands in for the customer's ``custom_id``.
            endpoint: The endpoint of the row.
            model_id: The pin's spelling on this lane; replaces whatever ``body`` names.
            body: The customer's ``body``, each member as raw JSON, so that number text and unknown members survive.
            max_output_tokens: The model's own limit, for providers that want one in each row; None: not known.

        Raises:
            ProviderError: ``refused``, permanent, when this provider cannot carry the row (the quote should have
                refused it).
        """

    def splice_rows(
        self, *, token: str, rows: Sequence[int], endpoint: Endpoint, model_id: str, lines: Sequence[bytes]
    ) -> Sequence[bytes | None]:
        """Give the provider's lines for many rows, made of the customer's own text; None for rows that need more.

        They mean what :meth:`encode_row` gives, which is asked for the others: a provider with a format of its own
        gives None for all.

        Args:
            token: The job's, for the row keys.
            rows: Row numbers of the batch.
            endpoint: The endpoint of the rows.
            model_id: The pin's spelling on this lane.
            lines: The rows' lines in the customer's file, without their ends; they were read and found good.
        """

    def submit(self, submission: Submission) -> SubmittedJob:
        """Create the job at the provider, with the token wherever the provider has a place for it.

        Record the intent before calling. Not idempotent by itself at every provider: after an ``ambiguous`` error ask
        :meth:`find_since` before anything is sent again.

        Raises:
            ProviderError: ``ambiguous`` is True exactly when a job may exist now (cut or timed out after sending, or
                a 5xx answer to the creating call); it is False when surely none was made, and then what had been
                uploaded was deleted by best effort.
        """

    def find_since(self, since: datetime) -> Sequence[ListedJob]:
        """Give every job of this account created at ``since`` or later, newest first.

        The list is complete or the call fails; a part is never given. Pass the instant of the intent less some margin
        for the two clocks.

        Raises:
            ProviderError: The list could not be read to the end.
        """

    def poll(self, batch_ref: str) -> JobReport:
        """Give the state of one job.

        Only a well-formed answer decides: a 5xx, an HTML page, broken JSON, an unknown status word or a timeout is
        never an ending. An unknown status word counts as running.

        Raises:
            ProviderError: The state could not be read; ``not_found`` is permanent.
        """

    def results(self, report: JobReport, *, token: str, answer_prefix: str) -> Iterator[ResultItem | AnsweredRows]:
        """Stream what became of the rows of an ended job, in the provider's order, from all its result files.

        Successes that follow one another may be given together. Memory does not grow with the job. Rows may come twice
        or not at all: the caller keeps the first and notes the missing ones. Reading again starts from the beginning.

        Args:
            report: The latest :meth:`poll` answer; nothing is read unless it is ended.
            token: The job's token; lines with other keys come as :class:`ForeignLine`.
            answer_prefix: With the row number behind it our id of an answer, ``[A-Za-z0-9_-]``; the adapter puts the
                endpoint's usual prefix before it. No id issued by the provider is left in a body.

        Raises:
            ProviderError: While iterating, when a file could not be read to its end. What came before is true, but
                not everything.
        """

    def cancel(self, batch_ref: str) -> None:
        """Ask that the job stop. It ends some time later; what finished before stays readable. Idempotent.

        Raises:
            ProviderError: The wish could not be delivered. A job that has ended already is no error.
        """

    def close(self) -> None:
        """Let go of the connections."""

    def __enter__(self) -> Self:
        """Give itself."""

    def __exit__(self, *exception: object) -> None:
        """Close."""


def make_row_key(token: str, row: int) -> str:
    """Give our id of a row at a provider: token, ``r``, row number; ``[A-Za-z0-9_-]``, at most 61 characters.

    ``row`` is the 0-based row of the batch, so that the same number names the row on every lane.
    """
    assert 0 <= row < _ROW_NUMBERS, "a row number has at most 12 digits"
    return f"{key_start(token)}{row}"


# Asked for each row of a job: looked at once.
@lru_cache(maxsize=64)
def key_start(token: str) -> str:
    """Give what :func:`make_row_key` puts before the row number."""
    assert TOKEN_PATTERN.fullmatch(token), "a token is 8 to 48 characters of [A-Za-z0-9_-]"
    return f"{token}r"


def row_of_key(token: str, row_key: str) -> int | None:
    """Give the row number of a key made with ``token``; None for every other key."""
    digits = row_key.removeprefix(f"{token}r")
    if digits == row_key or len(digits) > ROW_NUMBER_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    row = int(digits)
    return row if digits == str(row) else None
