"""What goes wrong in a simulator, where, and how often: faults asked for through the control API."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from fnmatch import fnmatchcase

import orjson

from simulators.calls import account_of_key
from simulators.database import Database


class FaultKind(StrEnum):
    """Everything that can be made to go wrong."""

    HTTP_ERROR = "http_error"
    HTML_PAGE = "html_page"
    SLOW = "slow"
    CUT_BEFORE = "cut_before"
    CUT_AFTER = "cut_after"
    CUT_MIDWAY = "cut_midway"
    FAIL_BATCH = "fail_batch"
    EXPIRE_BATCH = "expire_batch"
    ROW_ERROR = "row_error"
    ROW_UNRUN = "row_unrun"
    ROW_MISSING = "row_missing"
    ROW_DUPLICATED = "row_duplicated"
    ROW_FOREIGN = "row_foreign"
    ROW_USAGE = "row_usage"


CALL_KINDS = frozenset(
    {
        FaultKind.HTTP_ERROR,
        FaultKind.HTML_PAGE,
        FaultKind.SLOW,
        FaultKind.CUT_BEFORE,
        FaultKind.CUT_AFTER,
        FaultKind.CUT_MIDWAY,
    }
)
BATCH_KINDS = frozenset({FaultKind.FAIL_BATCH, FaultKind.EXPIRE_BATCH})
ROW_KINDS = frozenset(FaultKind) - CALL_KINDS - BATCH_KINDS


class FaultError(ValueError):
    """A fault was asked for that no simulator knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: the first fields say where it strikes, the rest what it does; None matches everything."""

    kind: FaultKind
    operation: str | None = None
    account: str | None = None
    model: str | None = None
    custom_id: str | None = None
    contains: str | None = None
    times: int | None = None
    status_code: int | None = None
    code: str | None = None
    message: str | None = None
    error_type: str | None = None
    retry_after_seconds: float | None = None
    delay_seconds: float | None = None
    after_bytes: int | None = None
    after_rows: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def strikes_account(self, account: str, model: str | None) -> bool:
        """Whether the fault is meant for this account and model; an unknown model matches no named one."""
        return (self.account is None or self.account == account) and (self.model is None or self.model == model)


_INTEGERS = frozenset({"times", "status_code", "after_bytes", "after_rows", "cached_tokens", "reasoning_tokens"})
_NUMBERS = frozenset({"retry_after_seconds", "delay_seconds"})
_FIELD_NAMES = frozenset(field.name for field in fields(Fault))


def parse_fault(wanted: Mapping[str, object]) -> Fault:
    """The fault that a JSON object describes; `key` names an account by its API key.

    Raises:
        FaultError: a field is unknown or of the wrong type.
    """
    given = dict(wanted)
    key = given.pop("key", None)
    if isinstance(key, str):
        given["account"] = account_of_key(key)
    unknown = sorted(given.keys() - _FIELD_NAMES)
    if unknown:
        message = f"unknown fields: {', '.join(unknown)}; known: key, {', '.join(sorted(_FIELD_NAMES))}"
        raise FaultError(message)
    kind = given.pop("kind", None)
    if kind not in set(FaultKind):
        message = f"unknown kind {kind!r}; known: {', '.join(FaultKind)}"
        raise FaultError(message)
    for name, value in given.items():
        wants: type | tuple[type, ...] = int if name in _INTEGERS else (int, float) if name in _NUMBERS else str
        if value is not None and (not isinstance(value, wants) or isinstance(value, bool)):
            message = f"{name} has the wrong type"
            raise FaultError(message)
    return Fault(kind=FaultKind(str(kind)), **given)  # type: ignore[arg-type]  # each type was checked above


_SCHEMA = """
CREATE TABLE IF NOT EXISTS faults (
    fault_number INTEGER PRIMARY KEY AUTOINCREMENT, spec BLOB NOT NULL, fired_count INTEGER NOT NULL DEFAULT 0
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedFault:
    """A fault in the book, with how often it fired."""

    fault_id: str
    fault: Fault
    fired_count: int

    @property
    def remaining_count(self) -> int | None:
        """How often it will still fire; None is without end."""
        return None if self.fault.times is None else max(0, self.fault.times - self.fired_count)

    def describe(self) -> dict[str, object]:
        """The fault as JSON, without the fields that were not given."""
        given = {name: value for name, value in asdict(self.fault).items() if value is not None}
        return {"id": self.fault_id, "fired_count": self.fired_count, **given}


class FaultBook:
    """The faults of one simulator, kept in its database, in the order they were asked for."""

    def __init__(self, database: Database) -> None:
        """Take up the faults stored in `database`."""
        self._database = database
        with database.transaction() as connection:
            connection.execute(_SCHEMA)

    def add(self, fault: Fault) -> ArmedFault:
        """Put a fault in the book."""
        with self._database.transaction() as connection:
            cursor = connection.execute("INSERT INTO faults (spec) VALUES (?)", (orjson.dumps(asdict(fault)),))
        return ArmedFault(fault_id=f"fault_{cursor.lastrowid}", fault=fault, fired_count=0)

    def remove(self, fault_id: str) -> bool:
        """Take one fault out; tells whether it was there."""
        with self._database.transaction() as connection:
            cursor = connection.execute("DELETE FROM faults WHERE fault_number = ?", (fault_id.removeprefix("fault_"),))
        return cursor.rowcount > 0

    def clear(self) -> None:
        """Take every fault out."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM faults")

    def armed(self) -> list[ArmedFault]:
        """Every fault in the book, used up or not."""
        rows = self._database.rows("SELECT fault_number, spec, fired_count FROM faults ORDER BY fault_number")
        return [
            ArmedFault(fault_id=f"fault_{number}", fault=parse_fault(orjson.loads(spec)), fired_count=fired_count)
            for number, spec, fired_count in rows
        ]

    def spend(self, fired_counts: Mapping[str, int]) -> None:
        """Record how often each fault (by id) has fired now."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE faults SET fired_count = fired_count + ? WHERE fault_number = ?",
                [(count, fault_id.removeprefix("fault_")) for fault_id, count in fired_counts.items()],
            )

    def take(self, kinds: Iterable[FaultKind], account: str, model: str | None, operation: str | None) -> Fault | None:
        """The first live fault of `kinds` that strikes here, counted as fired."""
        wanted = frozenset(kinds)
        with self._database.transaction():
            for armed in self.armed():
                fault = armed.fault
                if fault.kind not in wanted or armed.remaining_count == 0:
                    continue
                if fault.operation not in {None, operation} or not fault.strikes_account(account, model):
                    continue
                self.spend({armed.fault_id: 1})
                return fault
        return None


class RowFaults:
    """The row faults of one batch while some of its rows are answered; firing is counted here until it is spent."""

    def __init__(self, armed: Sequence[ArmedFault], account: str) -> None:
        """Keep the row faults among `armed`, for rows of `account`."""
        self._armed = [each for each in armed if each.fault.kind in ROW_KINDS]
        self._account = account
        self.fired_counts: dict[str, int] = {}

    def striking(self, custom_id: str, line: bytes, model: str | None) -> list[Fault]:
        """The faults that strike this row, counted as fired; `line` is the row as it was sent."""
        struck = []
        for each in self._armed:
            fault = each.fault
            if not fault.strikes_account(self._account, model):
                continue
            fired_count = self.fired_counts.get(each.fault_id, 0)
            if each.remaining_count is not None and fired_count >= each.remaining_count:
                continue
            if fault.custom_id is not None and not fnmatchcase(custom_id, fault.custom_id):
                continue
            if fault.contains is not None and fault.contains.encode() not in line:
                continue
            self.fired_counts[each.fault_id] = fired_count + 1
            struck.append(fault)
        return struck
