"""Everything about the simulated OpenAI that can be turned while it runs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Speed, limits and names; `rows_per_second` None answers every row at once."""

    rows_per_second: float | None = 500.0
    validation_seconds: float = 1.0
    finalizing_seconds: float = 1.0
    cancelling_seconds: float = 1.0
    shuffle_results: bool = True
    bad_keys: tuple[str, ...] = ()
    unknown_models: tuple[str, ...] = ()
    enqueued_tokens_limits: Mapping[str, int] = field(default_factory=dict)
    context_window_tokens: Mapping[str, int] = field(default_factory=dict)
    snapshots: Mapping[str, str] = field(default_factory=dict)
    max_row_count: int = 50_000
    max_input_bytes: int = 209_715_200

    def enqueued_tokens_limit(self, model: str) -> int | None:
        """The ceiling of enqueued input tokens of `model`; ``*`` stands for every other model."""
        return self.enqueued_tokens_limits.get(model, self.enqueued_tokens_limits.get("*"))

    def describe(self) -> dict[str, object]:
        """The settings as JSON."""
        return {**asdict(self), "bad_keys": list(self.bad_keys), "unknown_models": list(self.unknown_models)}


_FIELDS = {each.name: each for each in fields(Settings)}
_SECONDS = frozenset({"validation_seconds", "finalizing_seconds", "cancelling_seconds"})
_NAME_LISTS = frozenset({"bad_keys", "unknown_models"})
_COUNT_MAPS = frozenset({"enqueued_tokens_limits", "context_window_tokens"})
_COUNTS = frozenset({"max_row_count", "max_input_bytes"})


def changed_settings(settings: Settings, wanted: Mapping[str, object]) -> Settings:
    """The settings with the fields of `wanted` changed.

    Raises:
        ValueError: a field is unknown or of the wrong type.
    """
    unknown = sorted(wanted.keys() - _FIELDS.keys())
    if unknown:
        message = f"unknown settings: {', '.join(unknown)}; known: {', '.join(sorted(_FIELDS))}"
        raise ValueError(message)
    return replace(settings, **{name: _checked(name, value) for name, value in wanted.items()})  # type: ignore[arg-type]  # _checked gives each field its type


def _checked(name: str, value: object) -> object:
    match value:
        case None if name == "rows_per_second":
            return None
        case bool() if name == "shuffle_results":
            return value
        case bool():
            pass
        case int() | float() if (name in _SECONDS or name == "rows_per_second") and value >= 0:
            return float(value)
        case int() if name in _COUNTS and value > 0:
            return value
        case list() | tuple() if name in _NAME_LISTS and all(isinstance(each, str) for each in value):
            return tuple(value)
        case dict() if name in _COUNT_MAPS and all(isinstance(each, int) for each in value.values()):
            return value
        case dict() if name == "snapshots" and all(isinstance(each, str) for each in value.values()):
            return value
    message = f"{name} cannot be {value!r}"
    raise ValueError(message)
