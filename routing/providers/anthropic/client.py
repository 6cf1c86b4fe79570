"""The Anthropic adapter: the official SDK with our own deadlines and bounds around it.

The SDK makes and sends the requests and never retries; ``jobs`` and ``wire`` read the bytes, because the SDK checks
nothing of an answer. Three calls go through its raw verbs and not its batch methods: ``batches.create`` would hold a
job of 256 MB in memory, ``batches.results`` follows whatever host ``results_url`` names and sends our key there.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from tempfile import SpooledTemporaryFile
from typing import Any, Self
from urllib.parse import quote

import anthropic
import httpx2
import msgspec
from anthropic import Stream

from catalog.domain.records import Endpoint
from ground.errors import ProviderError
from routing.domain.parameters.lanes import Family
from routing.providers.anthropic import jobs, wire
from routing.providers.anthropic.requests import RequestMaker
from routing.providers.base import (
    BrokenLine,
    Deadlines,
    Fault,
    JobReport,
    JobState,
    LineProblem,
    ListedJob,
    ProviderAccount,
    ResultItem,
    Submission,
    SubmittedJob,
)
from routing.providers.calls import (
    AMBIGUOUS_FAULTS,
    ANSWER_BYTES,
    MAXIMUM_LINE_BYTES,
    RESULT_FILE_BYTES,
    SPOOL_BYTES,
    NotSentError,
    call_limits,
    connection_error,
    open_http,
)
from routing.providers.lines import split_lines

# Under the version that the SDK names by itself a row with a temperature is refused, also by models that take one.
API_VERSION = "2023-06-01"
MAXIMUM_INPUT_BYTES = 256 * 10**6
_BATCHES = "/v1/messages/batches"
_PAGE_SIZE = 100
_MAXIMUM_PAGES = 1_000


class AnthropicProvider:
    """One account at Anthropic, or at a server that speaks its wire format; the contract is that of the port."""

    def __init__(self, account: ProviderAccount, deadlines: Deadlines) -> None:
        """Prepare; nothing is sent. ``account.base_url`` is without ``/v1``; ``account.project`` names a workspace."""
        self._account = account
        self._deadlines = deadlines
        self._maker = RequestMaker(Family.ANTHROPIC)
        self._opened: list[anthropic.Anthropic] = []

    def encode_row(
        self,
        *,
        row_key: str,
        endpoint: Endpoint,
        model_id: str,
        body: Mapping[str, msgspec.Raw],
        max_output_tokens: int | None = None,
    ) -> bytes:
        """Give the provider's request for one row, LF included."""
        return wire.encode_row(
            self._maker,
            row_key=row_key,
            endpoint=endpoint,
            model_id=model_id,
            body=body,
            max_output_tokens=max_output_tokens,
        )

    def splice_rows(
        self,
        *,
        token: str,  # noqa: ARG002 -- the port's
        rows: Sequence[int],  # noqa: ARG002
        endpoint: Endpoint,  # noqa: ARG002
        model_id: str,  # noqa: ARG002
        lines: Sequence[bytes],
    ) -> Sequence[bytes | None]:
        """Give none: Claude's requests are made member by member."""
        return [None] * len(lines)

    def submit(self, submission: Submission) -> SubmittedJob:
        """Create a batch in one call that holds all rows; Anthropic has no place for a token but the rows' ids.

        The body goes through a temporary file, so memory stays flat at 256 MB.

        Raises:
            ProviderError: As the port says; ``refused`` when the body is larger than 256 MB.
        """
        with SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            _write_body(spool, submission)
            try:
                with _translated():
                    answer = self._uploads.post(
                        _BATCHES,
                        cast_to=httpx2.Response,
                        content=_chunks(spool),
                        options={
                            "headers": {
                                "Content-Type": "application/json",
                                "Content-Length": str(_size_bytes(spool)),
                                "Idempotency-Key": submission.token,
                            }
                        },
                    )
                    created = answer.content
                return SubmittedJob(batch_ref=jobs.read_reference(created), input_ref=None)
            except NotSentError:
                raise
            except ProviderError as error:
                error.ambiguous = error.code in AMBIGUOUS_FAULTS
                raise

    def find_since(self, since: datetime) -> Sequence[ListedJob]:
        """Give every batch of this account since ``since``, newest first, read to the end, all without a token."""
        found: dict[str, ListedJob] = {}
        after: str | anthropic.Omit = anthropic.omit
        for _ in range(_MAXIMUM_PAGES):
            with _translated():
                answer = self._calls.messages.batches.with_raw_response.list(limit=_PAGE_SIZE, after_id=after)
                page = jobs.read_page(answer.http_response.content)
            if any(job.batch_ref in found for job in page.jobs):
                break
            found.update((job.batch_ref, job) for job in page.jobs)
            if page.next_after is None or all(job.created_at < since for job in page.jobs):
                return tuple(job for job in found.values() if job.created_at >= since)
            after = page.next_after
        raise ProviderError("Anthropic: the list of batches has no end.", code=Fault.BROKEN_ANSWER)

    def poll(self, batch_ref: str) -> JobReport:
        """Give the state of one batch; counts stay zero until it has ended."""
        with _translated():
            answer = self._calls.messages.batches.with_raw_response.retrieve(batch_ref)
            content = answer.http_response.content
        return jobs.read_report(content, batch_ref)

    def results(self, report: JobReport, *, token: str, answer_prefix: str) -> Iterator[ResultItem]:
        """Stream the results of a batch."""
        assert report.state is JobState.ENDED, "only an ended job has results"
        created_at_seconds = int(report.completed_at.timestamp()) if report.completed_at else 0
        for result_ref in report.result_refs:
            with closing(self._download(result_ref)) as chunks:
                lines = split_lines(chunks, maximum_bytes=MAXIMUM_LINE_BYTES)
                for line, (text, size_bytes) in enumerate(lines, start=1):
                    if size_bytes > MAXIMUM_LINE_BYTES:
                        yield BrokenLine(
                            result_ref=result_ref, line=line, size_bytes=size_bytes, problem=LineProblem.TOO_LONG
                        )
                    elif text and not text.isspace():
                        yield wire.read_line(
                            text,
                            token=token,
                            answer_prefix=answer_prefix,
                            result_ref=result_ref,
                            line=line,
                            created_at_seconds=created_at_seconds,
                        )

    def cancel(self, batch_ref: str) -> None:
        """Ask that a batch stop; one that has ended or is canceling already is left as it is."""
        try:
            with _translated():
                self._calls.messages.batches.with_raw_response.cancel(batch_ref)
        except ProviderError as error:
            if error.code not in {Fault.REFUSED, Fault.UNAVAILABLE}:
                raise
            report = self.poll(batch_ref)
            if report.state is not JobState.ENDED and report.provider_status != "canceling":
                raise

    def close(self) -> None:
        """Let go of the connections."""
        while self._opened:
            self._opened.pop().close()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def _download(self, batch_ref: str) -> Generator[bytes]:
        """Stream the results of one batch from our own base; ends only at their real end."""
        tail = b"\n"
        with _translated(results=True):
            answer = self._downloads.get(
                f"{_BATCHES}/{quote(batch_ref, safe='')}/results",
                cast_to=httpx2.Response,
                options={"headers": {"Accept": "application/binary"}},
                stream=True,
                stream_cls=Stream[Any],
            )
            assert isinstance(answer, httpx2.Response), "the SDK gives what it was asked to cast to"
            with closing(answer):
                for chunk in answer.iter_bytes():
                    tail = chunk[-1:] or tail
                    yield chunk
                framed = "content-length" in answer.headers or "transfer-encoding" in answer.headers
        if tail != b"\n" and not framed:
            raise ProviderError("Anthropic: the results were cut.", code=Fault.UNREACHABLE)

    @cached_property
    def _calls(self) -> anthropic.Anthropic:
        return self._open(self._deadlines.call_seconds)

    @cached_property
    def _uploads(self) -> anthropic.Anthropic:
        return self._open(self._deadlines.upload_seconds)

    @cached_property
    def _downloads(self) -> anthropic.Anthropic:
        return self._open(self._deadlines.download_seconds, RESULT_FILE_BYTES)

    def _open(self, total_seconds: float, answer_bytes: int = ANSWER_BYTES) -> anthropic.Anthropic:
        limits = call_limits(self._deadlines, total_seconds=total_seconds, answer_bytes=answer_bytes)
        headers = {"Accept-Encoding": "identity", "anthropic-version": API_VERSION}
        if self._account.project:
            headers["anthropic-workspace-id"] = self._account.project
        client = anthropic.Anthropic(
            api_key=self._account.api_key,
            base_url=self._account.base_url,
            max_retries=0,
            timeout=limits.timeout(),
            default_headers=headers,
            http_client=open_http(limits),
        )
        self._opened.append(client)
        return client


def _write_body(spool: SpooledTemporaryFile[bytes], submission: Submission) -> None:
    """Write the create's body: every line is one request, its LF becomes a comma."""
    spool.write(b'{"requests":[')
    row_count = 0
    for lines in submission.lines():
        assert lines.endswith(b"\n"), "every encoded row ends in LF"
        if row_count:
            spool.write(b",")
        row_count += lines.count(b"\n")
        # No other LF is left in an encoded row.
        spool.write(lines[:-1].replace(b"\n", b","))
    assert row_count == submission.row_count > 0, "a submission has the rows it says, at least one"
    spool.write(b"]}")
    if spool.tell() > MAXIMUM_INPUT_BYTES:
        raise ProviderError("Anthropic: the rows are larger than 256 MB.", code=Fault.REFUSED, permanent=True)


def _size_bytes(spool: SpooledTemporaryFile[bytes]) -> int:
    return spool.seek(0, 2)


def _chunks(spool: SpooledTemporaryFile[bytes]) -> Iterator[bytes]:
    """Give the whole file in pieces when it is read."""
    spool.seek(0)
    while chunk := spool.read(SPOOL_BYTES):
        yield chunk


@contextmanager
def _translated(*, results: bool = False) -> Iterator[None]:
    """Turn whatever the SDK and the transport raise into a ``ProviderError``.

    The original is not chained: its text may hold the provider's sentence. Missing results are tried again, because
    storage may lag behind the state.
    """
    try:
        yield
    except anthropic.APIStatusError as error:
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        refusal = jobs.refusal(error.status_code, error.response.content, headers, at=datetime.now(UTC))
        if results and refusal.code == Fault.NOT_FOUND:
            refusal.permanent = False
        raise refusal from None
    except anthropic.APIConnectionError as error:
        raise connection_error("Anthropic", error.__cause__) from None
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise connection_error("Anthropic", error) from None
