"""What reading a job's results has given: columns of numbers, 88 bytes a row and no object for any."""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from routing.payloads import Rows
from routing.providers.base import Outcome, RowCode, RowResult

_log = logging.getLogger(__name__)

_pack: Final = struct.Struct("<11q").pack
_COLUMN_COUNT: Final = 11
_TOKENS: Final = slice(3, 9)
_NOT_OURS, _EXPECTED, _HERE = range(3)


class Verdict(NamedTuple):
    """What became of a row in one attempt. ``code`` is None where the row succeeded, or where the job's ending says."""

    outcome: Outcome
    code: RowCode | None
    healable: bool


_SUCCEEDED = Outcome.SUCCEEDED
_SUCCESS = Verdict(outcome=_SUCCEEDED, code=None, healable=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultTable:
    """One entry a row, ascending. A verdict is named by its place in ``verdicts``.

    ``tokens`` has six columns: input, cached input, cache write 5 m, cache write 1 h, output, and reasoning, which is
    inside output. ``status_codes`` are 0 where the row never ran. ``body_offsets`` and ``body_lengths`` say where the
    answer's body lies in the job's blob.
    """

    verdicts: tuple[Verdict, ...]
    rows: Rows
    verdict_indexes: npt.NDArray[np.int64]
    status_codes: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    body_offsets: npt.NDArray[np.int64]
    body_lengths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Give the number of rows."""
        return len(self.rows)

    def where(self, is_chosen: npt.NDArray[np.bool_]) -> Self:
        """Give some of the rows."""
        return type(self)(
            verdicts=self.verdicts,
            rows=self.rows[is_chosen],
            verdict_indexes=self.verdict_indexes[is_chosen],
            status_codes=self.status_codes[is_chosen],
            tokens=self.tokens[is_chosen],
            body_offsets=self.body_offsets[is_chosen],
            body_lengths=self.body_lengths[is_chosen],
        )


class JobResults:
    """Takes the results of one job as they are read, each row's first one."""

    def __init__(self, rows: Rows) -> None:
        """Expect these rows (ascending) and no others."""
        self._rows = rows
        standings = np.zeros(int(rows[-1]) + 1, dtype=np.uint8)
        standings[rows] = _EXPECTED
        self._standings = bytearray(standings)
        self._packed = bytearray()
        self._verdicts = {_SUCCESS: 0}
        self.taken_count = 0
        self.foreign_count = 0
        self.duplicate_count = 0
        self.broken_count = 0
        self.usage_problem_count = 0

    def take(self, result: RowResult, body_offset: int) -> bytes:
        """Note one result and give the body to be kept at ``body_offset``; empty where there is nothing to keep."""
        row = result.row
        standing = self._standings[row] if row < len(self._standings) else _NOT_OURS
        if standing != _EXPECTED:
            if standing == _HERE:
                self.duplicate_count += 1
            else:
                self.foreign_count += 1
            return b""
        self._standings[row] = _HERE
        self.taken_count += 1
        verdict = 0
        if result.outcome is not _SUCCEEDED:
            found = Verdict(outcome=result.outcome, code=result.code, healable=result.healable)
            verdict = self._verdicts.setdefault(found, len(self._verdicts))
        if result.usage_problem is not None:
            self.usage_problem_count += 1
        body = result.body or b""
        usage = result.usage
        self._packed += _pack(
            row,
            verdict,
            result.status_code or 0,
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.cache_write_5m_tokens,
            usage.cache_write_1h_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            body_offset,
            len(body),
        )
        return body

    def table(self, missing: Verdict) -> ResultTable:
        """Give the results of all rows of the job; ``missing`` is that of rows the provider said nothing about."""
        taken = np.frombuffer(bytes(self._packed), dtype="<i8").reshape(-1, _COLUMN_COUNT)
        verdicts = dict(self._verdicts)
        absent = self._rows[np.frombuffer(self._standings, dtype=np.uint8)[self._rows] == _EXPECTED]
        unsaid = np.zeros((len(absent), _COLUMN_COUNT), dtype=np.int64)
        unsaid[:, 0] = absent
        unsaid[:, 1] = verdicts.setdefault(missing, len(verdicts))
        every = np.concatenate((taken, unsaid))
        every = every[np.argsort(every[:, 0], kind="stable")]
        return ResultTable(
            verdicts=tuple(verdicts),
            rows=every[:, 0],
            verdict_indexes=every[:, 1],
            status_codes=every[:, 2],
            tokens=every[:, _TOKENS],
            body_offsets=every[:, 9],
            body_lengths=every[:, 10],
        )

    def tell(self, job_token: str) -> None:
        """Say aloud what a provider should not have written; the rows it concerns have their outcome all the same."""
        odd = {
            "foreign": self.foreign_count,
            "duplicate": self.duplicate_count,
            "broken": self.broken_count,
            "without a good usage": self.usage_problem_count,
        }
        if any(odd.values()):
            lines = ", ".join(f"{count} {kind}" for kind, count in odd.items() if count)
            _log.warning("job %s: odd lines of the provider: %s", job_token, lines)
