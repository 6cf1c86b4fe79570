"""Everything about the simulated OpenAI that can be turned while it runs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from simulators.settings import (
    Check,
    changed,
    is_count,
    is_counts,
    is_names,
    is_number,
    is_renaming,
    is_speed,
    is_switch,
    is_text,
)


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
    # Where notices go, and what signs them (``whsec_...``); empty: none are sent.
    notice_url: str = ""
    notice_secret: str = ""

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
    return changed(settings, wanted, _CHECKS)


_CHECKS: Mapping[str, Check] = {
    "rows_per_second": is_speed,
    "validation_seconds": is_number,
    "finalizing_seconds": is_number,
    "cancelling_seconds": is_number,
    "shuffle_results": is_switch,
    "bad_keys": is_names,
    "unknown_models": is_names,
    "enqueued_tokens_limits": is_counts,
    "context_window_tokens": is_counts,
    "snapshots": is_renaming,
    "max_row_count": is_count,
    "max_input_bytes": is_count,
    "notice_url": is_text,
    "notice_secret": is_text,
}
