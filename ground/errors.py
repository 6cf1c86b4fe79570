"""The error hierarchy, drawn once.

::

    LanehouseError               has a stable code, a message for people, optional fields
    ├── InvalidRequest           the caller must change the request
    │   └── RowErrors            the file has bad rows, up to 100 of them listed
    ├── AuthenticationFailed     no key, or one that is not good
    ├── PaymentRequired          no credit, or the account is blocked
    ├── PermissionRefused        the key may not do this
    ├── NotFound                 nothing there for this organisation
    ├── InProgress               the same Idempotency-Key is still running
    ├── BodyTooSlow              the body came below the least pace
    ├── PayloadTooLarge
    ├── UnsupportedMediaType
    ├── RangeNotSatisfiable      no byte of the file is in the range
    ├── HeadTooLong              address and headers are longer than the server takes
    ├── RateLimited              says when to come back
    ├── StoreFull                too much is stored now; room comes with time
    ├── ServerBusy               says when to come back
    └── ProviderError            a lane's answer; alone decides retry or stop

Which HTTP status each has is said in one table in ``config.errors``. Messages never hold prompt text or secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

# OpenAI's word for what the caller must change.
INVALID_REQUEST_TYPE: Final = "invalid_request_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowError:
    """What is wrong with one row: ``row`` from 0 without blank lines, ``line`` physical, from 1."""

    code: str
    message: str
    param: str | None = None
    row: int | None = None
    line: int | None = None
    custom_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateId:
    """One ``custom_id`` that stands ``count`` times, with its first rows and lines."""

    custom_id: str
    count: int
    rows: tuple[int, ...]
    lines: tuple[int, ...]


class LanehouseError(Exception):
    """Base of all errors that a caller may see.

    Args:
        message: One sentence for people; never prompt text, never a secret.
        code: The stable code of the public contract.
        param: The request field at fault.
        extra: Further members of the error envelope (a successor, a new quote, ...).
    """

    code = "internal_error"

    def __init__(
        self, message: str, *, code: str | None = None, param: str | None = None, extra: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.param = param
        self.extra = extra or {}


class InvalidRequest(LanehouseError):
    """The request is wrong as it stands; sending it again will not help."""

    code = "invalid_value"


class RowErrors(InvalidRequest):
    """A file with bad rows. ``errors`` is sorted by line and holds at most 100; the first one's code leads."""

    def __init__(
        self,
        errors: Sequence[RowError],
        *,
        total: int | None = None,
        duplicates: Sequence[DuplicateId] = (),
        extra: dict[str, Any] | None = None,
    ) -> None:
        assert errors, "RowErrors needs at least one error"
        first = errors[0]
        super().__init__(first.message, code=first.code, param=first.param, extra=extra)
        self.errors = tuple(errors)
        self.error_count = len(errors) if total is None else total
        self.duplicates = tuple(duplicates)


class AuthenticationFailed(LanehouseError):
    """There is no key, or it is unknown, revoked or expired."""

    code = "invalid_api_key"


class PaymentRequired(LanehouseError):
    """The wallet does not carry it, or the organisation is blocked."""

    code = "insufficient_credit"


class PermissionRefused(LanehouseError):
    """The key is good but may not do this."""

    code = "insufficient_scope"


class NotFound(LanehouseError):
    """Nothing there for this organisation; another tenant's id answers the same."""

    code = "not_found"


class InProgress(LanehouseError):
    """The first call with this Idempotency-Key is still running."""

    code = "idempotency_in_progress"


class BodyTooSlow(LanehouseError):
    """The body came below the least pace; nothing of it was used."""

    code = "body_too_slow"


class HeadTooLong(LanehouseError):
    """Address and headers together are longer than the server takes."""

    code = "head_too_long"


class PayloadTooLarge(LanehouseError):
    """The body is over the limit of this call."""

    code = "payload_too_large"


class UnsupportedMediaType(LanehouseError):
    """The content type is not taken here."""

    code = "unsupported_media_type"


class RangeNotSatisfiable(LanehouseError):
    """The range begins behind the end of the file; ``headers`` say how long it is."""

    code = "range_not_satisfiable"

    def __init__(self, message: str, *, size_bytes: int) -> None:
        super().__init__(message, param="Range")
        self.headers = {"Content-Range": f"bytes */{size_bytes}"}


class RateLimited(LanehouseError):
    """A bucket is empty: which one (``requests``, ``tokens``, ``accepts``), and after how long it will not be."""

    code = "rate_limit_exceeded"

    def __init__(self, message: str, *, bucket: str, per_minute: int, wait_ms: int) -> None:
        super().__init__(message)
        self.bucket = bucket
        self.per_minute = per_minute
        self.wait_ms = wait_ms

    @property
    def retry_after_seconds(self) -> int:
        """Give the whole seconds after which the same call may be made."""
        return -(-self.wait_ms // 1_000)


class StoreFull(LanehouseError):
    """So much of the organisation's is stored that nothing more fits now; room comes by waiting."""

    code = "rate_limit_exceeded"
    retry_after_seconds = 59


class ServerBusy(LanehouseError):
    """The process is full; nothing was done."""

    code = "server_busy"
    retry_after_seconds = 1


class ProviderError(LanehouseError):
    """A provider's refusal or failure, translated by its adapter.

    Args:
        permanent: True when trying again cannot help.
        retry_after_seconds: What the provider asked us to wait, if it did.
        ambiguous: True when the provider may have done what was asked (a submit cut after it was sent).
    """

    code = "provider_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        permanent: bool = False,
        retry_after_seconds: int | None = None,
        ambiguous: bool = False,
    ) -> None:
        super().__init__(message, code=code)
        self.permanent = permanent
        self.retry_after_seconds = retry_after_seconds
        self.ambiguous = ambiguous


def members_of(error: LanehouseError, kind: str = INVALID_REQUEST_TYPE) -> dict[str, Any]:
    """Give what the standard envelope holds of an error: OpenAI's four members, then ours; ``kind`` is its type."""
    members: dict[str, Any] = {"message": error.message, "type": kind, "param": error.param, "code": error.code}
    if isinstance(error, RowErrors):
        first = error.errors[0]
        members |= {"row": first.row, "line": first.line, "custom_id": first.custom_id}
        members["duplicates"] = [asdict(duplicate) for duplicate in error.duplicates]
        members["errors"] = [asdict(row_error) for row_error in error.errors]
        members["error_count"] = error.error_count
    return members | error.extra
