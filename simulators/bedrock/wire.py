"""The shapes of Bedrock's objects, records and errors on the wire."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

import orjson
from starlette.requests import Request
from starlette.responses import Response

from simulators.bedrock.records import JobRecord
from simulators.calls import account_of_key
from simulators.claude.answering import Door
from simulators.claude.rows import RowOutcome

WireObject = dict[str, object]

STATUS_BY_TYPE: Mapping[str, int] = {
    "ValidationException": 400,
    "ConflictException": 400,
    "ServiceQuotaExceededException": 400,
    "AccessDeniedException": 403,
    "UnrecognizedClientException": 403,
    "MissingAuthenticationTokenException": 403,
    "ResourceNotFoundException": 404,
    "ThrottlingException": 429,
    "InternalServerException": 500,
    "ServiceUnavailableException": 503,
}
TYPE_BY_STATUS: Mapping[int, str] = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
_TIMED_OUT = {"errorCode": 408, "errorMessage": "The request timed out."}
_CREDENTIAL = re.compile(r"^AWS4-HMAC-SHA256 Credential=([^/,\s]+)/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request,")
_SIGNED = re.compile(r"SignedHeaders=[a-z0-9;-]+,\s*Signature=[0-9a-f]{64}$")
_MODEL_AFFIXES = re.compile(r"^.*anthropic\.|-v\d+(?::\w+)*$")


def served_model(model_id: str) -> str:
    """The model name that an answer carries: the id without region, vendor and revision."""
    return _MODEL_AFFIXES.sub("", model_id)


DOOR = Door(message_prefix="msg_bdrk_01", tool_prefix="toolu_bdrk_01", usage_extra={}, served_model=served_model)


class ApiError(Exception):
    """A call that ends with one of Bedrock's exceptions."""

    def __init__(self, error_type: str, message: str) -> None:
        """Keep the type, from which the status follows, and the message."""
        super().__init__(message)
        self.error_type = error_type
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who calls, and the region that the request was signed for."""

    key: str
    region: str

    @property
    def account(self) -> str:
        """The account that the key stands for."""
        return account_of_key(self.key)


def identity_of(request: Request) -> Identity:
    """The caller, by the shape of the signature; the signature itself is not checked.

    Raises:
        ApiError: there is no signature, or it has another shape.
    """
    given = request.headers.get("authorization", "")
    scheme, _, token = given.partition(" ")
    if scheme == "Bearer" and token:
        return Identity(key=token, region="us-east-1")
    if not given:
        raise ApiError("MissingAuthenticationTokenException", "Missing Authentication Token")
    credential = _CREDENTIAL.match(given)
    if credential is None or not _SIGNED.search(given) or "x-amz-date" not in request.headers:
        raise ApiError("AccessDeniedException", "The authorization header has an invalid format.")
    if credential[3] != "bedrock":
        message = "Credential should be scoped to correct service: 'bedrock'."
        raise ApiError("UnrecognizedClientException", message)
    return Identity(key=credential[1], region=credential[2])


def error_response(error_type: str, message: str, status_code: int | None = None) -> Response:
    """An exception: its class in a header, its message in the body."""
    response = json_response({"message": message}, status_code or STATUS_BY_TYPE.get(error_type, 400))
    response.headers["x-amzn-errortype"] = f"{error_type}:http://internal.amazon.com/coral/com.amazon.bedrock/"
    return response


def json_response(body: Mapping[str, object], status_code: int = 200) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(body), status_code=status_code, media_type="application/json")


def arn_of(job: JobRecord) -> str:
    """The job's ARN; the account number follows from the account."""
    number = int(sha256(job.account.encode()).hexdigest(), 16) % 10**12
    return f"arn:aws:bedrock:{job.region}:{number:012d}:model-invocation-job/{job.id}"


def job_object(job: JobRecord) -> WireObject:
    """A job, as a get gives it and as a list sums it up; what is not known yet is left out."""
    request: WireObject = orjson.loads(job.request)
    described: WireObject = {
        "jobArn": arn_of(job),
        "jobName": job.name,
        "modelId": job.model_id,
        "clientRequestToken": job.client_token,
        "roleArn": request["roleArn"],
        "status": job.status,
        "message": job.message,
        "submitTime": instant(job.created_at),
        "lastModifiedTime": instant(job.modified_at),
        "endTime": None if job.ended_at is None else instant(job.ended_at),
        "inputDataConfig": request["inputDataConfig"],
        "outputDataConfig": request["outputDataConfig"],
        "vpcConfig": request.get("vpcConfig"),
        "timeoutDurationInHours": request.get("timeoutDurationInHours", 24),
        "jobExpirationTime": instant(job.expires_at),
        "modelInvocationType": request.get("modelInvocationType", "InvokeModel"),
        **(_counters(job) if job.started_at is not None else {}),
    }
    return {name: value for name, value in described.items() if value is not None}


def manifest(job: JobRecord) -> bytes:
    """The manifest beside the output."""
    tokens = {"inputTokenCount": job.input_tokens, "outputTokenCount": job.output_tokens}
    return orjson.dumps({**_counters(job), **tokens})


def result_line(outcome: RowOutcome) -> bytes:
    """One line of the output, ending in LF; an error takes the place of the model's output."""
    result: WireObject = {"error": _TIMED_OUT}
    if outcome.answer is not None:
        result = {"modelOutput": outcome.answer.message}
    elif outcome.refusal is not None:
        refusal = outcome.refusal
        result = {"error": {"errorCode": refusal.status_code, "errorMessage": refusal.message}}
    row = outcome.row
    return orjson.dumps(
        {"recordId": row.custom_id, "modelInput": row.params, **result}, option=orjson.OPT_APPEND_NEWLINE
    )


def instant(at: float) -> str:
    """An instant (Unix seconds) in ISO 8601."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _counters(job: JobRecord) -> WireObject:
    return {
        "totalRecordCount": job.row_count,
        "processedRecordCount": job.answered_rows,
        "successRecordCount": job.succeeded_rows,
        "errorRecordCount": job.errored_rows + job.unrun_rows,
    }
