"""The Bedrock adapter: boto3 for the control plane and for S3, with our own deadlines and bounds around it.

The SDK makes, signs and parses; it never sends (``sending`` does) and never retries.
"""

import os
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from tempfile import SpooledTemporaryFile
from typing import Any, Self

import boto3  # type: ignore[import-untyped]  # it comes without types
import botocore.session  # type: ignore[import-untyped]  # the same
import httpx2
import msgspec
from botocore.config import Config  # type: ignore[import-untyped]  # the same
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # the same

from catalog.domain.records import Endpoint
from ground.errors import ProviderError
from ground.fault_points import FaultPoint, reach
from routing.domain.parameters.lanes import Family
from routing.providers.anthropic.requests import RequestMaker
from routing.providers.base import (
    BrokenLine,
    Deadlines,
    Fault,
    JobEnding,
    JobReport,
    JobState,
    LineProblem,
    ListedJob,
    ProviderAccount,
    ResultItem,
    Submission,
    SubmittedJob,
)
from routing.providers.bedrock import jobs, wire
from routing.providers.bedrock.account import BedrockAccount, read_account
from routing.providers.bedrock.sending import sender
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
from routing.providers.lines import split_lines

MAXIMUM_INPUT_BYTES = 10**9
_PAGE_SIZE = 100
_MAXIMUM_PAGES = 1_000
_CHUNK_BYTES = 2**16
_TIMEOUT_HOURS = 24
# Lists are asked for from a little earlier on: the provider's border does not belong to them.
_BORDER = timedelta(seconds=1)
# The session is shared, for it holds the descriptions of the services; making a client of it is not safe for threads.
_MAKING_CLIENTS = threading.Lock()


class BedrockProvider:
    """One account and region at Bedrock, or at a server that speaks like it; the contract is that of the port."""

    def __init__(self, account: ProviderAccount, deadlines: Deadlines) -> None:
        """Prepare; nothing is sent. For the account's fields see ``account.read_account``."""
        self._account = account
        self._deadlines = deadlines
        self._maker = RequestMaker(Family.BEDROCK_CLAUDE)
        self._opened: list[httpx2.Client] = []

    def encode_row(
        self,
        *,
        row_key: str,
        endpoint: Endpoint,
        model_id: str,
        body: Mapping[str, msgspec.Raw],
        max_output_tokens: int | None = None,
    ) -> bytes:
        """Give the provider's record for one row, LF included."""
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
        """Put the input into the bucket and create a job over it; the token is its name and its idempotency token.

        The input goes through a temporary file, so memory stays flat at 1 GB. An upload is never ambiguous: by itself
        it starts nothing, and it is deleted when surely no job came of it.

        Raises:
            ProviderError: As the port says; ``refused`` when the input is larger than 1 GB.
        """
        place = self._place
        folder = f"{place.prefix}{submission.token}"
        key = f"{folder}/{jobs.INPUT_NAME}"
        with SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            write_lines(spool, submission)
            if spool.tell() > MAXIMUM_INPUT_BYTES:
                raise ProviderError("Bedrock: the input is larger than 1 GB.", code=Fault.REFUSED, permanent=True)
            spool.seek(0)
            with _translated():
                self._uploads.put_object(Bucket=place.bucket, Key=key, Body=spool)
        reach(FaultPoint.SUBMIT_UPLOADED)
        input_ref = f"s3://{place.bucket}/{key}"
        try:
            output_ref = f"s3://{place.bucket}/{folder}/output/"
            return SubmittedJob(batch_ref=self._create(submission, input_ref, output_ref), input_ref=input_ref)
        except ProviderError as error:
            if not error.ambiguous:
                with suppress(ProviderError), _translated():
                    self._uploads.delete_object(Bucket=place.bucket, Key=key)
            raise

    def find_since(self, since: datetime) -> Sequence[ListedJob]:
        """Give every job of this account and region since ``since``, newest first, read to the end."""
        found: dict[str, ListedJob] = {}
        following: dict[str, str] = {}
        for _ in range(_MAXIMUM_PAGES):
            with _translated():
                answer = self._calls.list_model_invocation_jobs(
                    submitTimeAfter=since - _BORDER,
                    maxResults=_PAGE_SIZE,
                    sortBy="CreationTime",
                    sortOrder="Descending",
                    **following,
                )
            page = jobs.read_page(answer)
            if any(job.batch_ref in found for job in page.jobs):
                break
            found.update((job.batch_ref, job) for job in page.jobs)
            if page.next_token is None:
                return tuple(job for job in found.values() if job.created_at >= since)
            following = {"nextToken": page.next_token}
        raise ProviderError("Bedrock: the list of jobs has no end.", code=Fault.BROKEN_ANSWER)

    def poll(self, batch_ref: str) -> JobReport:
        """Give the state of one job."""
        with _translated():
            answer = self._calls.get_model_invocation_job(jobIdentifier=batch_ref)
        return jobs.read_report(answer, batch_ref)

    def results(self, report: JobReport, *, token: str, answer_prefix: str) -> Iterator[ResultItem]:
        """Stream the output of a job; one that was stopped before its first answer may have none."""
        assert report.state is JobState.ENDED, "only an ended job has results"
        created_at_seconds = int(report.completed_at.timestamp()) if report.completed_at else 0
        for result_ref in report.result_refs:
            may_be_missing = report.ending is JobEnding.CANCELLED
            with closing(self._download(result_ref, may_be_missing=may_be_missing)) as chunks:
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
        """Ask that a job stop; one that has ended or is stopping already is left as it is."""
        try:
            with _translated():
                self._calls.stop_model_invocation_job(jobIdentifier=batch_ref)
        except ProviderError as error:
            if error.code not in {Fault.REFUSED, Fault.UNAVAILABLE}:
                raise
            report = self.poll(batch_ref)
            if report.state is not JobState.ENDED and report.provider_status != "Stopping":
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

    def _create(self, submission: Submission, input_ref: str, output_ref: str) -> str:
        """Create the job; every doubt about whether it exists now is ambiguous."""
        try:
            with _translated():
                answer = self._calls.create_model_invocation_job(
                    jobName=jobs.job_name(submission.token),
                    clientRequestToken=jobs.client_token(submission.token),
                    roleArn=self._place.role_arn,
                    modelId=submission.model_id,
                    inputDataConfig={"s3InputDataConfig": {"s3Uri": input_ref, "s3InputFormat": "JSONL"}},
                    outputDataConfig={"s3OutputDataConfig": {"s3Uri": output_ref}},
                    timeoutDurationInHours=_TIMEOUT_HOURS,
                )
            return jobs.read_reference(answer)
        except NotSentError:
            raise
        except ProviderError as error:
            error.ambiguous = error.code in AMBIGUOUS_FAULTS
            raise

    def _download(self, result_ref: str, *, may_be_missing: bool) -> Generator[bytes]:
        """Stream one output; ends only at its real end."""
        bucket, key = jobs.place_of(result_ref)
        try:
            with _translated():
                answer = self._downloads.get_object(Bucket=bucket, Key=key)
        except ProviderError as error:
            if error.code != Fault.NOT_FOUND:
                raise
            if may_be_missing:
                return
            # Storage may lag behind the job's state.
            error.permanent = False
            raise
        with _translated(), closing(answer["Body"]) as body:
            yield from body.iter_chunks(_CHUNK_BYTES)

    @cached_property
    def _place(self) -> BedrockAccount:
        return read_account(self._account)

    @cached_property
    def _calls(self) -> Any:  # noqa: ANN401 -- boto3 makes its clients' classes as it runs
        return self._open("bedrock", self._place.control_url, self._deadlines.call_seconds)

    @cached_property
    def _uploads(self) -> Any:  # noqa: ANN401 -- the same
        return self._open("s3", self._place.storage_url, self._deadlines.upload_seconds)

    @cached_property
    def _downloads(self) -> Any:  # noqa: ANN401 -- the same
        return self._open("s3", self._place.storage_url, self._deadlines.download_seconds, RESULT_FILE_BYTES)

    def _open(self, service: str, url: str, total_seconds: float, answer_bytes: int = ANSWER_BYTES) -> Any:  # noqa: ANN401 -- the same
        limits = call_limits(self._deadlines, total_seconds=total_seconds, answer_bytes=answer_bytes)
        http = open_http(limits)
        self._opened.append(http)
        with _MAKING_CLIENTS:
            client = _session().client(
                service,
                region_name=self._place.region,
                endpoint_url=url,
                aws_access_key_id=self._place.access_key_id,
                aws_secret_access_key=self._place.secret_access_key,
                aws_session_token=self._place.session_token,
                config=_config(service),
            )
        client.meta.events.register("before-send", sender(http))
        return client


def _config(service: str) -> Any:  # noqa: ANN401 -- boto3 comes without types
    return Config(
        retries={"total_max_attempts": 1},
        # Said, because a bearer token in the environment would go before the account's own key.
        signature_version="s3v4" if service == "s3" else "v4",
        s3={"addressing_style": "path"},
        # A checksum behind the body would need a body signed piece by piece; over TLS nothing is gained by it.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,
    )


@lru_cache(maxsize=1)
def _session() -> Any:  # noqa: ANN401 -- boto3 comes without types
    core = botocore.session.Session()
    # An account is only what it says, not what lies in somebody's home.
    core.set_config_variable("config_file", os.devnull)
    core.set_config_variable("credentials_file", os.devnull)
    return boto3.session.Session(botocore_session=core)


@contextmanager
def _translated() -> Iterator[None]:
    """Turn whatever the SDK and the transport raise into a ``ProviderError``.

    The original is not chained: its text may hold the provider's sentence.
    """
    try:
        yield
    except ClientError as error:
        raise jobs.refusal(error.response, at=datetime.now(UTC)) from None
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise connection_error("Bedrock", error) from None
    except (BotoCoreError, AttributeError, LookupError, TypeError, ValueError):
        # The SDK's parsers take an answer's shape for granted.
        raise jobs.broken_answer() from None
