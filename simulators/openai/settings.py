"""Everything about the simulated OpenAI that can be turned while it runs."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace


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


def changed_settings(settings: Settings, wanted: Mapping[str, object]) -> Settings:
    """The settings with the fields of `wanted` changed.

    Raises:
        ValueError: a field is unknown or of the wrong type.
    """
    unknown = sorted(wanted.keys() - _CHECKS.keys())
    if unknown:
        message = f"unknown settings: {', '.join(unknown)}; known: {', '.join(_CHECKS)}"
        raise ValueError(message)
    for name, value in wanted.items():
        if not _CHECKS[name](value):
            message = f"{name} cannot be {value!r}"
            raise ValueError(message)
    fitting = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}
    return replace(settings, **fitting)  # type: ignore[arg-type]  # each value was checked above


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_speed(value: object) -> bool:
    return value is None or _is_number(value)


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, int) for each in value.values())


def _is_renaming(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


_CHECKS: Mapping[str, Callable[[object], bool]] = {
    "rows_per_second": _is_speed,
    "validation_seconds": _is_number,
    "finalizing_seconds": _is_number,
    "cancelling_seconds": _is_number,
    "shuffle_results": _is_switch,
    "bad_keys": _is_names,
    "unknown_models": _is_names,
    "enqueued_tokens_limits": _is_counts,
    "context_window_tokens": _is_counts,
    "snapshots": _is_renaming,
    "max_row_count": _is_count,
    "max_input_bytes": _is_count,
}
