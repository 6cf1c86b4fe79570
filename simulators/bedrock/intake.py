"""The verdict on an input object: what is judged before a job is scheduled."""

from array import array
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import orjson

from simulators.bedrock.settings import Settings


@dataclass(slots=True)
class Verdict:
    """Where the records of an input start (and the last ends), its seed, and what is wrong with it, if anything."""

    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    content_seed: int = 0
    problem: str | None = None

    @property
    def record_count(self) -> int:
        """How many records there are."""
        return len(self.offsets) - 1


def inspect(path: Path, settings: Settings) -> Verdict:
    """The verdict on the input at `path`: sizes and JSON, not whether a record fits the model."""
    verdict = Verdict()
    digest = sha256()
    offset = 0
    with path.open("rb") as source:
        for line_number, line in enumerate(source, start=1):
            if line.strip():
                verdict.offsets.append(offset)
                problem = _problem_of(line)
                if problem is not None:
                    verdict.problem = f"Line {line_number} of the input is not a valid record: {problem}."
                    return verdict
            digest.update(line)
            offset += len(line)
    verdict.offsets.append(offset)
    verdict.content_seed = int.from_bytes(digest.digest()[:6], "big")
    if verdict.record_count < settings.min_record_count:
        verdict.problem = (
            f"The input contains fewer records ({verdict.record_count}) than the required minimum of: "
            f"{settings.min_record_count}."
        )
    elif verdict.record_count > settings.max_record_count:
        verdict.problem = (
            f"The input contains more records ({verdict.record_count}) than the allowed maximum of: "
            f"{settings.max_record_count}."
        )
    return verdict


def _problem_of(line: bytes) -> str | None:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "malformed JSON"
    if not isinstance(record, dict):
        return "not an object"
    if not isinstance(record.get("modelInput"), dict):
        return "modelInput is missing"
    record_id = record.get("recordId", "")
    return None if isinstance(record_id, str) else "recordId is not a string"
