"""What the simulated Bedrock remembers of a job."""

from dataclasses import dataclass

from simulators.claude.store import Work

ENDED = ("Completed", "PartiallyCompleted", "Failed", "Stopped", "Expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord(Work):
    """A job; `request` is the body of its create as JSON, `input_problem` why its input could not be copied."""

    region: str
    name: str
    model_id: str
    client_token: str | None
    request: bytes
    input_problem: str | None
    modified_at: float
    started_at: float | None = None
    finished_at: float | None = None
    stopping_at: float | None = None
    ended_at: float | None = None
    message: str | None = None
