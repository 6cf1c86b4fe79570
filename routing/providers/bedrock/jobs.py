"""Bedrock's job objects, lists and refusals, as the SDK parses them, as the port's records. Pure.

A job has no metadata, but a name of ours: it carries the token. Nothing but a well-formed answer decides.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from ground.errors import ProviderError
from routing.providers.base import TOKEN_PATTERN, Fault, JobEnding, JobReport, JobState, ListedJob
from routing.providers.calls import PERMANENT_FAULTS
from routing.providers.redaction import redact
from routing.providers.retry_after import retry_after_seconds

INPUT_NAME = "input.jsonl"
_NAME_PREFIX = "lanehouse-"
_WORD_LENGTH = 100
_MESSAGE_LENGTH = 300
_CLIENT_TOKEN = re.compile(r"[a-zA-Z0-9](?:-*[a-zA-Z0-9])*")
_EXCEPTION = re.compile(r"[A-Za-z]+")

# PartiallyCompleted: the time was up before every record was reached.
_ENDINGS = {
    "Completed": JobEnding.COMPLETED,
    "PartiallyCompleted": JobEnding.EXPIRED,
    "Expired": JobEnding.EXPIRED,
    "Stopped": JobEnding.CANCELLED,
    "Failed": JobEnding.FAILED,
}
# A job that never began has no output, also none that is empty.
_WITHOUT_OUTPUT = frozenset({"Expired", "Failed"})
_CODE_FAULTS = {
    "AccessDeniedException": Fault.ACCOUNT_REFUSED,
    "UnrecognizedClientException": Fault.ACCOUNT_REFUSED,
    "MissingAuthenticationTokenException": Fault.ACCOUNT_REFUSED,
    "InvalidSignatureException": Fault.ACCOUNT_REFUSED,
    "IncompleteSignatureException": Fault.ACCOUNT_REFUSED,
    "ExpiredTokenException": Fault.ACCOUNT_REFUSED,
    "AccessDenied": Fault.ACCOUNT_REFUSED,
    "InvalidAccessKeyId": Fault.ACCOUNT_REFUSED,
    "SignatureDoesNotMatch": Fault.ACCOUNT_REFUSED,
    "ExpiredToken": Fault.ACCOUNT_REFUSED,
    "NoSuchBucket": Fault.ACCOUNT_REFUSED,
    "ResourceNotFoundException": Fault.NOT_FOUND,
    "NoSuchKey": Fault.NOT_FOUND,
    "ThrottlingException": Fault.RATE_LIMITED,
    "SlowDown": Fault.RATE_LIMITED,
    "ServiceQuotaExceededException": Fault.LANE_FULL,
    # A job of this name or token is there: whoever asks for the list finds it.
    "ConflictException": Fault.UNAVAILABLE,
}
_MODEL_SENTENCE = re.compile(r"model identifier is invalid|end of its life", re.IGNORECASE)


class JobPage(NamedTuple):
    """One page of a list, newest first; ``next_token`` is None on the last one."""

    jobs: tuple[ListedJob, ...]
    next_token: str | None


class OutputPlace(NamedTuple):
    """Where an output lies."""

    bucket: str
    key: str


def job_name(token: str) -> str:
    """Give the name that carries a token; names have no ``_``, tokens no ``+``."""
    return _NAME_PREFIX + token.replace("_", "+")


def client_token(token: str) -> str:
    """Give the idempotency token of a create, in the alphabet it has: the token itself where it can be."""
    return token if _CLIENT_TOKEN.fullmatch(token) else sha256(token.encode()).hexdigest()


def read_reference(answer: Mapping[str, Any]) -> str:
    """Give the ARN of the job an answer names.

    Raises:
        ProviderError: The answer is not that of the provider.
    """
    reference = answer.get("jobArn")
    if not isinstance(reference, str) or not reference:
        raise broken_answer()
    return reference


def read_report(answer: Mapping[str, Any], batch_ref: str) -> JobReport:
    """Read a job object.

    Raises:
        ProviderError: ``broken_answer``, when it is not the job object of ``batch_ref``.
    """
    status = answer.get("status")
    if answer.get("jobArn") != batch_ref or not isinstance(status, str):
        raise broken_answer()
    ending = _ENDINGS.get(status)
    has_output = ending is not None and status not in _WITHOUT_OUTPUT
    fault, message = _job_fault(answer) if ending is JobEnding.FAILED else (None, None)
    return JobReport(
        batch_ref=batch_ref,
        state=JobState.RUNNING if ending is None else JobState.ENDED,
        ending=ending,
        provider_status=status[:_WORD_LENGTH],
        done_count=_count(answer.get("successRecordCount")),
        failed_count=_count(answer.get("errorRecordCount")),
        completed_at=None if ending is None else _instant(answer.get("endTime")),
        result_refs=(_output_ref(answer, batch_ref),) if has_output else (),
        fault=fault,
        message=message,
    )


def read_page(answer: Mapping[str, Any]) -> JobPage:
    """Read one page of the list of jobs.

    Raises:
        ProviderError: The answer is no list.
    """
    summaries = answer.get("invocationJobSummaries")
    next_token = answer.get("nextToken")
    if not isinstance(summaries, list) or not (next_token is None or isinstance(next_token, str)):
        raise broken_answer()
    return JobPage(tuple(map(_listed, summaries)), next_token)


def place_of(result_ref: str) -> OutputPlace:
    """Give bucket and key of an output that a report names."""
    bucket, _, key = result_ref.removeprefix("s3://").partition("/")
    return OutputPlace(bucket, key)


def refusal(answer: Mapping[str, Any], *, at: datetime) -> ProviderError:
    """Translate an answer that is no success, as the SDK gives it with its exceptions.

    Only an exception of the provider's own can be permanent; a page of something between us and the provider never is.
    The message holds status and exception, none of the provider's sentences.

    Args:
        answer: ``response`` of the SDK's ``ClientError``.
        at: Now, for a ``retry-after`` that is a date.
    """
    metadata = answer.get("ResponseMetadata", {})
    status_code = _count(metadata.get("HTTPStatusCode"))
    wait = retry_after_seconds(metadata.get("HTTPHeaders", {}), at=at)
    error = answer.get("Error", {})
    code = str(error.get("Code", ""))
    if not _EXCEPTION.fullmatch(code):
        fault = Fault.RATE_LIMITED if status_code == 429 else Fault.UNAVAILABLE  # noqa: PLR2004  # the HTTP status
        words = "an answer that is not the provider's"
        return ProviderError(f"Bedrock: status {status_code}, {words}.", code=fault, retry_after_seconds=wait)
    fault = _fault(status_code, code, str(error.get("Message", "")))
    return ProviderError(
        f"Bedrock: status {status_code}, {code[:_WORD_LENGTH]}.",
        code=fault,
        permanent=fault in PERMANENT_FAULTS,
        retry_after_seconds=wait,
    )


def broken_answer() -> ProviderError:
    """Give the error for a success status whose body cannot be read; it decides nothing."""
    return ProviderError("Bedrock: an answer that cannot be read.", code=Fault.BROKEN_ANSWER)


def _fault(status_code: int, code: str, sentence: str) -> Fault:
    """Say what an error means: a server's failure by its status, a refusal by its exception."""
    if code in _CODE_FAULTS:
        return _CODE_FAULTS[code]
    if not 400 <= status_code < 500:  # noqa: PLR2004  # the class of refusals
        return Fault.UNAVAILABLE
    return Fault.MODEL_GONE if _MODEL_SENTENCE.search(sentence) else Fault.REFUSED


def _job_fault(answer: Mapping[str, Any]) -> tuple[Fault, str]:
    """Say why a job failed as a whole; its sentence is about files and roles and quotes no prompt."""
    said = answer.get("message")
    message = redact(said, maximum_length=_MESSAGE_LENGTH) if isinstance(said, str) else "no reason given"
    return (Fault.MODEL_GONE if _MODEL_SENTENCE.search(message) else Fault.REFUSED), message


def _output_ref(answer: Mapping[str, Any], batch_ref: str) -> str:
    """Give the output's place: under the job's folder, named after the input."""
    folder = _uri(answer, "outputDataConfig", "s3OutputDataConfig").rstrip("/")
    name = _uri(answer, "inputDataConfig", "s3InputDataConfig").rsplit("/", 1)[-1]
    return f"{folder}/{batch_ref.rsplit('/', 1)[-1]}/{name}.out"


def _uri(answer: Mapping[str, Any], outer: str, inner: str) -> str:
    try:
        uri = answer[outer][inner]["s3Uri"]
    except (KeyError, TypeError):
        raise broken_answer() from None
    if not isinstance(uri, str) or not uri.startswith("s3://"):
        raise broken_answer()
    return uri


def _listed(summary: object) -> ListedJob:
    if not isinstance(summary, Mapping):
        raise broken_answer()
    created_at = _instant(summary.get("submitTime"))
    if created_at is None:
        raise broken_answer()
    return ListedJob(
        batch_ref=read_reference(summary),
        token=_token_of(str(summary.get("jobName", ""))),
        row_count=_count(summary.get("totalRecordCount")) or None,
        created_at=created_at,
    )


def _token_of(name: str) -> str | None:
    token = name.removeprefix(_NAME_PREFIX).replace("+", "_")
    return token if name.startswith(_NAME_PREFIX) and TOKEN_PATTERN.fullmatch(token) else None


def _instant(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise broken_answer()
    return value


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
