"""What reading a job's results has given: columns of numbers, 96 bytes a row and no object for any.

Bodies wait here until a few megabytes of them are together, then all are given at once, in the order of their rows:
so a job's blob is a few long stretches of ascending rows, however the provider orders its results.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from routing.payloads import Rows
from routing.providers.answered import AnsweredRows
from routing.providers.base import ForeignLine, Outcome, ResultItem, RowCode, RowResult

_log = logging.getLogger(__name__)

# Row, verdict, status, six counts of tokens, where the body lies, its length, whether its usage had a problem.
_pack: Final = struct.Struct("<12q").pack
_COLUMN_COUNT: Final = 12
_TOKENS: Final = slice(3, 9)
_OFFSET, _LENGTH, _PROBLEM = range(9, 12)
_NOT_OURS, _EXPECTED, _HERE = range(3)
_BODIES_PER_PIECE: Final = 100


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
        self._standings = np.zeros(int(rows[-1]) + 1, dtype=np.uint8)
        self._standings[rows] = _EXPECTED
        self._verdicts = {_SUCCESS: 0}
        # What waits for its place, in the order in which it came: packed columns, and a body for each entry.
        self._waiting = bytearray()
        self._bodies: list[bytes] = []
        self.waiting_bytes = 0
        self._placed: list[npt.NDArray[np.int64]] = []
        self._size_bytes = 0
        self.taken_count = 0
        self.foreign_count = 0
        self.duplicate_count = 0
        self.broken_count = 0
        self.usage_problem_count = 0

    def take(self, read: ResultItem | AnsweredRows) -> None:
        """Note what one line says, or many."""
        if isinstance(read, AnsweredRows):
            self._take_rows(read)
        elif isinstance(read, RowResult):
            self._take_row(read)
        elif isinstance(read, ForeignLine):
            self.foreign_count += 1
        else:
            self.broken_count += 1

    def _take_rows(self, answered: AnsweredRows) -> None:
        entries = np.zeros((len(answered), _COLUMN_COUNT), dtype="<i8")
        entries[:, 0] = answered.rows
        entries[:, 2] = answered.status_code
        entries[:, _TOKENS] = answered.tokens
        entries[:, _LENGTH] = [*map(len, answered.bodies)]
        self._waiting += entries.tobytes()
        self._bodies += answered.bodies
        self.waiting_bytes += int(entries[:, _LENGTH].sum())

    def _take_row(self, result: RowResult) -> None:
        verdict = 0
        if result.outcome is not _SUCCEEDED:
            found = Verdict(outcome=result.outcome, code=result.code, healable=result.healable)
            verdict = self._verdicts.setdefault(found, len(self._verdicts))
        body = result.body or b""
        usage = result.usage
        self._waiting += _pack(
            result.row,
            verdict,
            result.status_code or 0,
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.cache_write_5m_tokens,
            usage.cache_write_1h_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            0,
            len(body),
            result.usage_problem is not None,
        )
        self._bodies.append(body)
        self.waiting_bytes += len(body)

    def take_bodies(self) -> list[bytes]:
        """Give the bodies that wait, in the order of their rows; they are kept behind those that were given before.

        Of what waits each row keeps its first result, unless it has one already. The bodies come in pieces of many:
        megabytes at once would be copied and written at a third of the speed.
        """
        entries = np.frombuffer(bytes(self._waiting), dtype="<i8").reshape(-1, _COLUMN_COUNT)
        rows = entries[:, 0]
        last_row = len(self._standings) - 1
        standings = np.where(rows <= last_row, self._standings[np.minimum(rows, last_row)], _NOT_OURS)
        # In the order of the rows, of each the one that came first.
        firsts = np.unique(rows, return_index=True)[1]
        chosen = firsts[standings[firsts] == _EXPECTED]
        placed = entries[chosen]
        self._standings[placed[:, 0]] = _HERE
        foreign_count = int((standings == _NOT_OURS).sum())
        self.foreign_count += foreign_count
        self.duplicate_count += len(entries) - foreign_count - len(placed)
        self.taken_count += len(placed)
        self.usage_problem_count += int(placed[:, _PROBLEM].sum())
        ends = self._size_bytes + np.cumsum(placed[:, _LENGTH])
        placed[:, _OFFSET] = ends - placed[:, _LENGTH]
        self._placed.append(placed)
        self._size_bytes += int(placed[:, _LENGTH].sum())
        bodies = [self._bodies[index] for index in chosen.tolist()]
        pieces = [
            b"".join(bodies[first : first + _BODIES_PER_PIECE]) for first in range(0, len(bodies), _BODIES_PER_PIECE)
        ]
        self._waiting.clear()
        self._bodies.clear()
        self.waiting_bytes = 0
        return pieces

    def table(self, missing: Verdict) -> ResultTable:
        """Give the results of all rows of the job; ``missing`` is that of rows the provider said nothing about."""
        assert not self._waiting, "bodies are taken before"
        verdicts = dict(self._verdicts)
        absent = self._rows[self._standings[self._rows] == _EXPECTED]
        unsaid = np.zeros((len(absent), _COLUMN_COUNT), dtype=np.int64)
        unsaid[:, 0] = absent
        unsaid[:, 1] = verdicts.setdefault(missing, len(verdicts))
        every = np.concatenate((*self._placed, unsaid))
        every = every[np.argsort(every[:, 0], kind="stable")]
        return ResultTable(
            verdicts=tuple(verdicts),
            rows=every[:, 0],
            verdict_indexes=every[:, 1],
            status_codes=every[:, 2],
            tokens=every[:, _TOKENS],
            body_offsets=every[:, _OFFSET],
            body_lengths=every[:, _LENGTH],
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
