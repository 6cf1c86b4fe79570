"""What the simulated Anthropic remembers of a batch."""

from dataclasses import dataclass

from simulators.claude.store import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord(Work):
    """A batch; `status` is its processing status, `first_model` the model of its first row."""

    api_version: str
    first_model: str
    finished_at: float | None = None
    cancel_initiated_at: float | None = None
    ended_at: float | None = None
    canceled_rows: int = 0
    expired_rows: int = 0
