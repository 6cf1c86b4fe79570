"""The verdict on a create: its body, the ids of its rows, and what the API version forbids."""

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
from starlette.requests import Request

from simulators.anthropic.settings import Settings
from simulators.anthropic.versions import RULES
from simulators.anthropic.wire import ApiError
from simulators.claude.parameters import SAMPLING

_CUSTOM_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_STRUCTURE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ROWS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_ANYTHING = msgspec.json.Decoder()

RawRow = Mapping[str, msgspec.Raw]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """The rows of an accepted create, each as JSON of its id and params; `offsets` are where they start and end."""

    content: bytes
    offsets: "array[int]"
    content_seed: int
    first_model: str

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.offsets) - 1


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body of a create.

    Raises:
        ApiError: it is too large; it is read to its end all the same, so that the client sees the answer.
    """
    body = bytearray()
    size_bytes = 0
    async for chunk in request.stream():
        size_bytes += len(chunk)
        if size_bytes <= max_bytes:
            body += chunk
    if size_bytes > max_bytes:
        raise ApiError("request_too_large", "Request exceeds the maximum size")
    return bytes(body)


def take_in(body: bytes, version: str, settings: Settings) -> Intake:
    """The rows of a create; what is inside `params` is judged later, row by row.

    Raises:
        ApiError: the body has another shape, an id is bad or there twice, or there are too many rows.
    """
    rows = _rows_of(body)
    if not rows:
        raise _invalid("requests: List should have at least 1 item after validation, not 0")
    if len(rows) > settings.max_row_count:
        raise _invalid(
            f"requests: List should have at most {settings.max_row_count} items after validation, not {len(rows)}"
        )
    content = bytearray()
    offsets = array("Q", [0])
    numbers: dict[str, int] = {}
    refuses_sampling = not RULES[version].sampling and not settings.refuse_sampling_in_rows
    for number, (custom_id, params) in enumerate(_checked(rows)):
        if custom_id in numbers:
            raise _invalid(
                f"requests.{number}.custom_id: Duplicate custom_id '{custom_id}', first used by requests."
                f"{numbers[custom_id]}"
            )
        numbers[custom_id] = number
        if refuses_sampling:
            _refuse_sampling(params, number, version)
        content += b'{"custom_id":"%b","params":%b}' % (custom_id.encode(), bytes(params))
        offsets.append(len(content))
    seed = int.from_bytes(sha256(content).digest()[:6], "big")
    return Intake(content=bytes(content), offsets=offsets, content_seed=seed, first_model=_model_of(rows[0]["params"]))


def first_model(body: bytes) -> str | None:
    """The model of the first row of a create, for faults that are meant for a model."""
    try:
        return _model_of(_rows_of(body)[0]["params"]) or None
    except (ApiError, LookupError):
        return None


def _rows_of(body: bytes) -> Sequence[RawRow]:
    try:
        structure = _STRUCTURE.decode(body)
    except msgspec.DecodeError as error:
        raise _invalid("The request body is not valid JSON: a JSON object is needed.") from error
    for name in structure:
        if name != "requests":
            raise _invalid(f"{name}: Extra inputs are not permitted")
    if "requests" not in structure:
        raise _invalid("requests: Field required")
    try:
        return _ROWS.decode(structure["requests"])
    except msgspec.DecodeError as error:
        raise _invalid("requests: Input should be a valid list of objects") from error


def _checked(rows: Sequence[RawRow]) -> Iterator[tuple[str, msgspec.Raw]]:
    for number, row in enumerate(rows):
        for name in ("custom_id", "params"):
            if name not in row:
                raise _invalid(f"requests.{number}.{name}: Field required")
        for name in row:
            if name not in {"custom_id", "params"}:
                raise _invalid(f"requests.{number}.{name}: Extra inputs are not permitted")
        custom_id = _ANYTHING.decode(row["custom_id"])
        if not isinstance(custom_id, str):
            raise _invalid(f"requests.{number}.custom_id: Input should be a valid string")
        if not _CUSTOM_ID.fullmatch(custom_id):
            raise _invalid(f"requests.{number}.custom_id: String should match pattern '{_CUSTOM_ID.pattern}'")
        if not bytes(row["params"]).startswith(b"{"):
            raise _invalid(f"requests.{number}.params: Input should be a valid dictionary")
        yield custom_id, row["params"]


def _refuse_sampling(params: msgspec.Raw, number: int, version: str) -> None:
    for name in _STRUCTURE.decode(params):
        if name in SAMPLING:
            raise _invalid(f"requests.{number}.params.{name}: not supported with anthropic-version {version}")


def _model_of(params: msgspec.Raw) -> str:
    try:
        return str(_ANYTHING.decode(_STRUCTURE.decode(params)["model"]))
    except (msgspec.DecodeError, LookupError):
        return ""


def _invalid(message: str) -> ApiError:
    return ApiError("invalid_request_error", message)
