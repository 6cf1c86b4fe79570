"""How a request is refused, and the small checks that every part of a request goes through."""

from collections.abc import Collection, Mapping, Sequence

Json = Mapping[str, object]

STATUS_BY_TYPE: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
TYPE_BY_STATUS: Mapping[int, str] = {status: error_type for error_type, status in STATUS_BY_TYPE.items()}
_KIND_NAMES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "dictionary",
    list: "list",
}


class RefusedError(Exception):
    """A request that the model does not answer."""

    def __init__(self, message: str, error_type: str = "invalid_request_error", error_code: str | None = None) -> None:
        """Keep what the error says; `error_code` is the stable code beside the message."""
        super().__init__(message)
        self.message = message
        self.error_type = error_type
        self.error_code = error_code

    @property
    def status_code(self) -> int:
        """The HTTP status that belongs to the type."""
        return STATUS_BY_TYPE.get(self.error_type, 500)


def error_type_of(status_code: int) -> str:
    """The error type that belongs to an HTTP status."""
    if status_code in TYPE_BY_STATUS:
        return TYPE_BY_STATUS[status_code]
    return "api_error" if status_code >= STATUS_BY_TYPE["api_error"] else "invalid_request_error"


def take(owner: Json, name: str, kind: type, path: str = "", *, required: bool = False) -> object | None:
    """The member `name` of `owner`, None if it is absent or null and not required; `path` says where `owner` stands.

    Raises:
        RefusedError: it is missing or of another type.
    """
    value, place = owner.get(name), f"{path}{name}"
    if name not in owner and required:
        raise RefusedError(f"{place}: Field required")
    if value is None and not required:
        return None
    fits = isinstance(value, int | float if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise RefusedError(f"{place}: Input should be a valid {_KIND_NAMES[kind]}")
    return value


def take_text(owner: Json, name: str, path: str = "", *, required: bool = True) -> str:
    """The text `name` of `owner`, or an empty text if it is absent and not required."""
    value = take(owner, name, str, path, required=required)
    return value if isinstance(value, str) else ""


def take_object(owner: Json, name: str, path: str = "", *, required: bool = False) -> Json | None:
    """The object `name` of `owner`."""
    value = take(owner, name, dict, path, required=required)
    return value if isinstance(value, dict) else None


def take_list(owner: Json, name: str, path: str = "", *, required: bool = False) -> Sequence[object] | None:
    """The list `name` of `owner`."""
    value = take(owner, name, list, path, required=required)
    return value if isinstance(value, list) else None


def take_count(owner: Json, name: str, minimum: int, path: str = "", *, required: bool = False) -> int | None:
    """The whole number `name` of `owner`, at least `minimum`."""
    value = take(owner, name, int, path, required=required)
    if not isinstance(value, int):
        return None
    if value < minimum:
        raise RefusedError(f"{path}{name}: Input should be greater than or equal to {minimum}")
    return value


def take_choice(
    owner: Json, name: str, choices: Collection[str], path: str = "", *, required: bool = False
) -> str | None:
    """The text `name` of `owner`, one of `choices`."""
    value = owner.get(name)
    if value is None and not required:
        return None
    if name not in owner:
        raise RefusedError(f"{path}{name}: Field required")
    if value not in choices:
        raise RefusedError(f"{path}{name}: Input should be {_alternatives(choices)}")
    return str(value)


def refuse_unknown(owner: Json, allowed: Collection[str], path: str = "") -> None:
    """Refuse any member of `owner` that is not `allowed`."""
    for name in owner:
        if name not in allowed:
            raise RefusedError(f"{path}{name}: Extra inputs are not permitted")


def _alternatives(choices: Collection[str]) -> str:
    quoted = [f"'{each}'" for each in choices]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
