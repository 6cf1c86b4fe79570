"""Everything about the simulated Bedrock that can be turned while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulators.claude.settings import MODEL_CHECKS, ModelSettings
from simulators.settings import Check, changed, is_count, is_number, is_switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ModelSettings):
    """Durations and quotas; `bad_keys` are access key ids that are refused."""

    submitted_seconds: float = 0.5
    validating_seconds: float = 1.0
    scheduled_seconds: float = 0.5
    finishing_seconds: float = 1.0
    stopping_seconds: float = 1.0
    stop_keeps_output: bool = True
    min_record_count: int = 100
    max_record_count: int = 50_000
    max_input_bytes: int = 1_073_741_824
    max_open_jobs: int = 20


def changed_settings(settings: Settings, wanted: Mapping[str, object]) -> Settings:
    """The settings with the fields of `wanted` changed.

    Raises:
        ValueError: a field is unknown or of the wrong type.
    """
    return changed(settings, wanted, _CHECKS)


_CHECKS: Mapping[str, Check] = {
    **MODEL_CHECKS,
    "submitted_seconds": is_number,
    "validating_seconds": is_number,
    "scheduled_seconds": is_number,
    "finishing_seconds": is_number,
    "stopping_seconds": is_number,
    "stop_keeps_output": is_switch,
    "min_record_count": is_count,
    "max_record_count": is_count,
    "max_input_bytes": is_count,
    "max_open_jobs": is_count,
}
