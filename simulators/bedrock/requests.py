"""The verdict on the body of a create."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from simulators.bedrock.wire import ApiError

Json = Mapping[str, object]

_TEXTS: Mapping[str, tuple[re.Pattern[str], bool]] = {
    "jobName": (re.compile(r"[a-zA-Z0-9]{1,63}(-*[a-zA-Z0-9+\-.]){0,63}"), True),
    "roleArn": (re.compile(r"arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+"), True),
    "modelId": (re.compile(r".{1,2048}"), True),
    "clientRequestToken": (re.compile(r"[a-zA-Z0-9]{1,256}(-*[a-zA-Z0-9]){0,256}"), False),
}
_MAX_CHARS = {"jobName": 63, "clientRequestToken": 256}
_S3_URI = re.compile(r"s3://([a-z0-9][-.a-z0-9]{1,61}[a-z0-9])(?:/([-!_*'().a-z0-9A-Z/]*))?")
_KNOWN = frozenset(
    {
        *_TEXTS,
        "inputDataConfig",
        "outputDataConfig",
        "vpcConfig",
        "timeoutDurationInHours",
        "tags",
        "modelInvocationType",
    }
)
_TIMEOUT_HOURS = range(24, 169)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Place:
    """A bucket, and a key or a prefix in it."""

    bucket: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJob:
    """A create that is well formed."""

    name: str
    model_id: str
    client_token: str | None
    source: S3Place
    timeout_hours: int


def read_wanted_job(body: Json) -> WantedJob:
    """The job that a create asks for.

    Raises:
        ApiError: a member is missing, unknown or of another shape, or the model is not one that is played here.
    """
    for name in body:
        if name not in _KNOWN:
            raise _invalid(f"Unexpected field: {name}")
    texts = {name: _text(body, name) for name in _TEXTS}
    source = _place(body, "inputDataConfig", "s3InputDataConfig")
    target_of(body)
    if not source.key.endswith(".jsonl"):
        raise _invalid("Input data must be one object whose name ends in .jsonl.")
    hours = body.get("timeoutDurationInHours", 24)
    if not isinstance(hours, int) or hours not in _TIMEOUT_HOURS:
        raise _invalid("Value at 'timeoutDurationInHours' failed to satisfy constraint: between 24 and 168")
    if body.get("modelInvocationType", "InvokeModel") != "InvokeModel":
        raise _invalid("Model invocation type Converse is not supported for the provided model.")
    model_id = texts["modelId"] or ""
    if "claude" not in model_id:
        raise _invalid("The provided model identifier is invalid.")
    return WantedJob(
        name=texts["jobName"] or "",
        model_id=model_id,
        client_token=texts["clientRequestToken"],
        source=source,
        timeout_hours=hours,
    )


def target_of(body: Json) -> S3Place:
    """Where the output of a create goes."""
    return _place(body, "outputDataConfig", "s3OutputDataConfig")


def _text(body: Json, name: str) -> str | None:
    pattern, required = _TEXTS[name]
    value = body.get(name)
    if value is None and not required:
        return None
    if not isinstance(value, str):
        raise _invalid(f"Value at '{name}' failed to satisfy constraint: Member must not be null")
    if not pattern.fullmatch(value) or len(value) > _MAX_CHARS.get(name, len(value)):
        raise _invalid(
            f"Value at '{name}' failed to satisfy constraint: Member must satisfy regular expression pattern: "
            f"{pattern.pattern}"
        )
    return value


def _place(body: Json, outer: str, inner: str) -> S3Place:
    config: object = body
    for name in (outer, inner):
        config = config.get(name) if isinstance(config, dict) else None
    uri = config.get("s3Uri") if isinstance(config, dict) else None
    found = _S3_URI.fullmatch(uri) if isinstance(uri, str) else None
    if found is None:
        raise _invalid(f"Value at '{outer}.{inner}.s3Uri' failed to satisfy constraint: an S3 URI is needed")
    return S3Place(bucket=found[1], key=found[2] or "")


def _invalid(message: str) -> ApiError:
    return ApiError("ValidationException", message)
