"""What can be turned about the models of a simulator that sells Claude."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase

from simulators.settings import Check, is_counts, is_names, is_number, is_renaming, is_speed, is_switch


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Speed and models; `rows_per_second` None answers every row at once; names with ``*`` are shell patterns."""

    rows_per_second: float | None = 500.0
    shuffle_results: bool = True
    bad_keys: tuple[str, ...] = ()
    unknown_models: tuple[str, ...] = ()
    snapshots: Mapping[str, str] = field(default_factory=dict)
    context_window_tokens: Mapping[str, int] = field(default_factory=dict)
    max_output_tokens: Mapping[str, int] = field(default_factory=dict)
    one_sampling_models: tuple[str, ...] = ("*claude-*-4-[1-9]*",)
    no_sampling_models: tuple[str, ...] = ()
    no_prefill_models: tuple[str, ...] = ()
    min_cache_tokens: int = 1_024

    def describe(self) -> dict[str, object]:
        """The settings as JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


MODEL_CHECKS: Mapping[str, Check] = {
    "rows_per_second": is_speed,
    "shuffle_results": is_switch,
    "bad_keys": is_names,
    "unknown_models": is_names,
    "snapshots": is_renaming,
    "context_window_tokens": is_counts,
    "max_output_tokens": is_counts,
    "one_sampling_models": is_names,
    "no_sampling_models": is_names,
    "no_prefill_models": is_names,
    "min_cache_tokens": is_number,
}


def matches(model: str, patterns: tuple[str, ...]) -> bool:
    """Whether `model` is one of `patterns`."""
    return any(fnmatchcase(model, pattern) for pattern in patterns)
