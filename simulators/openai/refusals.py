"""When the model refuses a row: what is wrong with the request itself."""

from collections.abc import Mapping

Json = Mapping[str, object]

_LIMIT_NAMES = ("max_completion_tokens", "max_output_tokens", "max_tokens")


class RefusedError(Exception):
    """The model refuses the row with a 400."""

    def __init__(self, message: str, param: str | None, code: str) -> None:
        """Keep what the error body says."""
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


def context_length_refusal(window_tokens: int, input_tokens: int) -> RefusedError:
    """The refusal of a request that is longer than the model's window."""
    message = (
        f"This model's maximum context length is {window_tokens} tokens. However, your messages resulted in "
        f"{input_tokens} tokens. Please reduce the length of the messages."
    )
    return RefusedError(message, "messages", "context_length_exceeded")


def require_input(endpoint: str, body: Json) -> None:
    """Refuse a body without what its endpoint asks.

    Raises:
        RefusedError: the input is missing, empty or of the wrong type.
    """
    param, kinds = {
        "/v1/chat/completions": ("messages", (list,)),
        "/v1/responses": ("input", (str, list)),
        "/v1/embeddings": ("input", (str, list)),
        "/v1/completions": ("prompt", (str, list)),
    }[endpoint]
    given = body.get(param)
    if given is None:
        raise RefusedError(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    if not isinstance(given, kinds):
        raise RefusedError(f"Invalid type for '{param}'.", param, "invalid_type")
    if not given:
        raise RefusedError(f"Invalid '{param}': empty.", param, "empty_array")


def output_limit(body: Json) -> int | None:
    """The row's own limit of output tokens, if it sets one."""
    limits = (count_within(body, name, None) for name in _LIMIT_NAMES)
    return next((limit for limit in limits if limit is not None), None)


def count_within(body: Json, name: str, maximum: int | None) -> int | None:
    """A whole number of the request from 1 to `maximum`; None if it is not there."""
    count = body.get(name)
    if count is None:
        return None
    if not isinstance(count, int) or isinstance(count, bool):
        raise RefusedError(f"Invalid type for '{name}': expected an integer.", name, "invalid_type")
    if count < 1:
        message = f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {count} instead."
        raise RefusedError(message, name, "integer_below_min_value")
    if maximum is not None and count > maximum:
        message = (
            f"Invalid '{name}': integer above maximum value. Expected a value <= {maximum}, but got {count} instead."
        )
        raise RefusedError(message, name, "integer_above_max_value")
    return count
