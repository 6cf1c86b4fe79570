"""What the simulated OpenAI remembers of a file and of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """A stored file; instants are Unix seconds of the simulator's clock."""

    id: str
    account: str
    filename: str
    purpose: str
    size_bytes: int
    content_seed: int
    created_at: float
    expires_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """A batch with everything its next state is derived from; instants are Unix seconds of the simulator's clock.

    `paced_at`, `paced_rows` and `rows_per_second` are the current stretch of work: a change of speed starts another.
    `stop_after_rows` is where an early expiry strikes. `output_bytes` and `error_bytes` are what is surely written:
    whatever a killed process left beyond them is cut off.
    """

    id: str
    account: str
    endpoint: str
    input_file_id: str
    completion_window: str
    metadata: Mapping[str, str] | None
    output_expires_seconds: int | None
    status: str
    created_at: float
    expires_at: float
    content_seed: int
    shuffled: bool
    output_file_id: str
    error_file_id: str
    model: str | None = None
    errors: tuple[Mapping[str, object], ...] = ()
    in_progress_at: float | None = None
    finalizing_at: float | None = None
    completed_at: float | None = None
    failed_at: float | None = None
    expired_at: float | None = None
    cancelling_at: float | None = None
    cancelled_at: float | None = None
    paced_at: float = 0.0
    paced_rows: int = 0
    rows_per_second: float | None = None
    stop_after_rows: int | None = None
    enqueued_tokens: int = 0
    row_count: int = 0
    answered_rows: int = 0
    completed_rows: int = 0
    failed_rows: int = 0
    output_bytes: int = 0
    error_bytes: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
