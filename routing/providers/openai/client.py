"""The OpenAI adapter: the official SDK with our own deadlines and bounds around it.

The SDK makes and sends the requests and never retries; ``jobs`` and ``wire`` read the bytes, because the SDK checks
nothing of an answer.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from tempfile import SpooledTemporaryFile
from typing import IO, Self, cast

import httpx2
import openai

from ground.errors import ProviderError
from ground.fault_points import FaultPoint, reach
from routing.providers.answered import AnsweredRows
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
    write_lines,
)
from routing.providers.lines import gather_lines
from routing.providers.openai import jobs, wire
from routing.providers.openai.chat_lines import ChatLineReader, OtherLine
from routing.providers.openai.row_lines import splice_rows

MAXIMUM_INPUT_BYTES = 209_715_200
_PAGE_SIZE = 100
_MAXIMUM_PAGES = 1_000
# Nobody reads an input again after its batch, and an upload whose answer was lost is known to nobody.
_INPUT_LIFE_SECONDS = 3 * 86_400
_OUTPUT_LIFE_SECONDS = 30 * 86_400


class OpenAIProvider:
    """One account at OpenAI, or at a server that speaks its wire format; the contract is that of the port."""

    def __init__(self, account: ProviderAccount, deadlines: Deadlines) -> None:
        """Prepare; nothing is sent. ``account.base_url`` ends in ``/v1``."""
        self._account = account
        self._deadlines = deadlines
        self._opened: list[openai.OpenAI] = []

    # No method around it: it is called for each row.
    encode_row = staticmethod(wire.encode_row)
    splice_rows = staticmethod(splice_rows)

    def submit(self, submission: Submission) -> SubmittedJob:
        """Upload ``<token>.jsonl`` and create a batch over it, token in metadata and in the idempotency header.

        The input goes through a temporary file, so memory stays flat at 200 MB. An upload is never ambiguous: by
        itself it starts nothing, and it is deleted at once when no batch came of it, or by its expiry after 3 days.

        Raises:
            ProviderError: As the port says; ``refused`` when the input is larger than 200 MB.
        """
        with SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            write_lines(spool, submission)
            if spool.tell() > MAXIMUM_INPUT_BYTES:
                raise ProviderError("OpenAI: the input is larger than 200 MB.", code=Fault.REFUSED, permanent=True)
            spool.seek(0)
            with _translated():
                uploaded = self._uploads.files.with_raw_response.create(
                    file=(f"{submission.token}.jsonl", cast("IO[bytes]", spool), "application/jsonl"),
                    purpose="batch",
                    expires_after={"anchor": "created_at", "seconds": _INPUT_LIFE_SECONDS},
                )
            input_ref = jobs.read_reference(uploaded.content)
        reach(FaultPoint.SUBMIT_UPLOADED)
        try:
            return SubmittedJob(batch_ref=self._create(submission, input_ref), input_ref=input_ref)
        except ProviderError as error:
            if not error.ambiguous:
                with suppress(ProviderError), _translated():
                    self._calls.files.with_raw_response.delete(input_ref)
            raise

    def find_since(self, since: datetime) -> Sequence[ListedJob]:
        """Give every batch of this account since the whole second of ``since``, newest first, read to the end."""
        earliest = since.replace(microsecond=0)
        found: dict[str, ListedJob] = {}
        after: str | openai.Omit = openai.omit
        for _ in range(_MAXIMUM_PAGES):
            with _translated():
                answer = self._calls.batches.with_raw_response.list(limit=_PAGE_SIZE, after=after)
            page = jobs.read_page(answer.content)
            if any(job.batch_ref in found for job in page.jobs):
                break
            found.update((job.batch_ref, job) for job in page.jobs)
            if page.next_after is None or all(job.created_at < earliest for job in page.jobs):
                return tuple(job for job in found.values() if job.created_at >= earliest)
            after = page.next_after
        raise ProviderError("OpenAI: the list of batches has no end.", code=Fault.BROKEN_ANSWER)

    def poll(self, batch_ref: str) -> JobReport:
        """Give the state of one batch."""
        with _translated():
            answer = self._calls.batches.with_raw_response.retrieve(batch_ref)
        return jobs.read_report(answer.content, batch_ref)

    def results(self, report: JobReport, *, token: str, answer_prefix: str) -> Iterator[ResultItem | AnsweredRows]:
        """Stream the output file, then the error file."""
        assert report.state is JobState.ENDED, "only an ended job has results"
        chat_lines = ChatLineReader(token=token, answer_prefix=answer_prefix)
        for result_ref in report.result_refs:
            line = 1
            with closing(self._download(result_ref)) as chunks:
                for piece in gather_lines(chunks, maximum_bytes=MAXIMUM_LINE_BYTES):
                    if isinstance(piece, int):
                        yield BrokenLine(
                            result_ref=result_ref, line=line, size_bytes=piece, problem=LineProblem.TOO_LONG
                        )
                        line += 1
                        continue
                    for read in chat_lines.read(piece):
                        if not isinstance(read, OtherLine):
                            yield read
                        elif read.text and not read.text.isspace():
                            yield wire.read_line(
                                read.text,
                                token=token,
                                answer_prefix=answer_prefix,
                                result_ref=result_ref,
                                line=line + read.place,
                            )
                    line += piece.count(b"\n")

    def cancel(self, batch_ref: str) -> None:
        """Ask that a batch stop; one that has ended or is cancelling already is left as it is."""
        try:
            with _translated():
                self._calls.batches.with_raw_response.cancel(batch_ref)
        except ProviderError as error:
            if error.code not in {Fault.REFUSED, Fault.UNAVAILABLE}:
                raise
            report = self.poll(batch_ref)
            if report.state is not JobState.ENDED and report.provider_status != "cancelling":
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

    def _create(self, submission: Submission, input_ref: str) -> str:
        """Create the batch; every doubt about whether it exists now is ambiguous."""
        try:
            with _translated():
                created = self._calls.batches.with_raw_response.create(
                    input_file_id=input_ref,
                    endpoint=submission.endpoint.value,
                    completion_window="24h",
                    metadata={jobs.TOKEN_METADATA_KEY: submission.token},
                    output_expires_after={"anchor": "created_at", "seconds": _OUTPUT_LIFE_SECONDS},
                    extra_headers={"Idempotency-Key": submission.token},
                )
            return jobs.read_reference(created.content)
        except NotSentError:
            raise
        except ProviderError as error:
            error.ambiguous = error.code in AMBIGUOUS_FAULTS
            # The file exists, we have just made it: storage may lag behind.
            error.permanent = error.permanent and error.code != Fault.NOT_FOUND
            raise

    def _download(self, result_ref: str) -> Generator[bytes]:
        """Stream one file; ends only at its real end."""
        tail = b"\n"
        with _translated(result_file=True), self._downloads.files.with_streaming_response.content(result_ref) as answer:
            for chunk in answer.iter_bytes():
                tail = chunk[-1:] or tail
                yield chunk
            framed = "content-length" in answer.headers or "transfer-encoding" in answer.headers
        if tail != b"\n" and not framed:
            raise ProviderError("OpenAI: a result file was cut.", code=Fault.UNREACHABLE)

    @cached_property
    def _calls(self) -> openai.OpenAI:
        return self._open(self._deadlines.call_seconds)

    @cached_property
    def _uploads(self) -> openai.OpenAI:
        return self._open(self._deadlines.upload_seconds)

    @cached_property
    def _downloads(self) -> openai.OpenAI:
        return self._open(self._deadlines.download_seconds, RESULT_FILE_BYTES)

    def _open(self, total_seconds: float, answer_bytes: int = ANSWER_BYTES) -> openai.OpenAI:
        limits = call_limits(self._deadlines, total_seconds=total_seconds, answer_bytes=answer_bytes)
        client = openai.OpenAI(
            api_key=self._account.api_key,
            base_url=self._account.base_url,
            max_retries=0,
            timeout=limits.timeout(),
            default_headers={"Accept-Encoding": "identity"},
            http_client=open_http(limits),
        )
        # The constructor reads these from the environment when they are not given; an account is only what it says.
        client.organization = None
        client.project = self._account.project
        self._opened.append(client)
        return client


@contextmanager
def _translated(*, result_file: bool = False) -> Iterator[None]:
    """Turn whatever the SDK and the transport raise into a ``ProviderError``.

    The original is not chained: its text may hold the provider's sentence. A missing result file is tried again,
    because storage may lag behind the state.
    """
    try:
        yield
    except openai.APIStatusError as error:
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        refusal = jobs.refusal(error.status_code, error.response.content, headers, at=datetime.now(UTC))
        if result_file and refusal.code == Fault.NOT_FOUND:
            refusal.permanent = False
        raise refusal from None
    except openai.APIConnectionError as error:
        raise connection_error("OpenAI", error.__cause__) from None
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise connection_error("OpenAI", error) from None
