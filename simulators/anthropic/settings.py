"""Everything about the simulated Anthropic that can be turned while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulators.claude.settings import MODEL_CHECKS, ModelSettings
from simulators.settings import Check, changed, is_count, is_number, is_speed, is_switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ModelSettings):
    """Durations and limits; with `refuse_sampling_in_rows` the newer API version refuses rows instead of the create."""

    starting_seconds: float = 1.0
    ending_seconds: float = 1.0
    canceling_seconds: float = 1.0
    max_row_count: int = 100_000
    max_body_bytes: int = 256_000_000
    max_processing_rows: int | None = None
    refuse_sampling_in_rows: bool = False


def changed_settings(settings: Settings, wanted: Mapping[str, object]) -> Settings:
    """The settings with the fields of `wanted` changed.

    Raises:
        ValueError: a field is unknown or of the wrong type.
    """
    return changed(settings, wanted, _CHECKS)


_CHECKS: Mapping[str, Check] = {
    **MODEL_CHECKS,
    "starting_seconds": is_number,
    "ending_seconds": is_number,
    "canceling_seconds": is_number,
    "max_row_count": is_count,
    "max_body_bytes": is_count,
    "max_processing_rows": is_speed,
    "refuse_sampling_in_rows": is_switch,
}
