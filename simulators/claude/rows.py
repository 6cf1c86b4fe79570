"""Answer stretches of a batch's rows under its faults and markers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from simulators.claude.answering import Answer, Door, Question, Wish, answer, content_digest, too_long
from simulators.claude.caching import CacheUse, cache_use
from simulators.claude.parameters import Rules, require_valid
from simulators.claude.refusals import RefusedError, error_type_of
from simulators.claude.settings import ModelSettings
from simulators.claude.tokens import user_text
from simulators.faults import Fault, FaultKind, RowFaults
from simulators.markers import MARKER_START, markers_in
from simulators.seen import SeenRows

Json = Mapping[str, object]

_MAX_ANSWER_TOKENS = 128_000
_DEFAULT_WINDOW_TOKENS = 200_000
_FILTERED = "Output blocked by content filtering policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request of a batch; `source` is the row as it was sent."""

    custom_id: str
    model: str
    params: Json
    source: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOutcome:
    """What became of one row: a message, a refusal, or neither if it never ran."""

    row: Row
    answer: Answer | None = None
    refusal: RefusedError | None = None


@dataclass(slots=True)
class Stretch:
    """What a stretch of answered rows adds to a batch; `digests` are row contents seen for the first time."""

    results: bytearray = field(default_factory=bytearray)
    succeeded_rows: int = 0
    errored_rows: int = 0
    unrun_rows: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    digests: set[bytes] = field(default_factory=set)
    prefixes: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one seller takes, how it reads the stored rows, and how it writes results down."""

    rules: Rules
    door: Door
    read: Callable[[bytes], Row]
    write: Callable[[RowOutcome], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose rows they are: the account remembers contents, the batch has its own prompt cache."""

    account: str
    batch_id: str


class RowAnswerer:
    """Answers rows of one batch."""

    def __init__(
        self, owner: Owner, dialect: Dialect, settings: ModelSettings, faults: RowFaults, seen: SeenRows
    ) -> None:
        """Answer in the `dialect` of a seller, under its settings and the faults that are armed."""
        self._owner = owner
        self._dialect = dialect
        self._settings = settings
        self._faults = faults
        self._seen = seen
        self._stretch = Stretch()

    def answer(self, rows: Iterable[Row]) -> Stretch:
        """Answer `rows`, in their order."""
        for row in rows:
            self._answer_row(row)
        return self._stretch

    def _answer_row(self, row: Row) -> None:
        struck = {fault.kind: fault for fault in reversed(self._faults.striking(row.custom_id, row.source, row.model))}
        markers = markers_in(user_text(row.params)) if MARKER_START in row.source else {}
        outcome = self._outcome(row, struck, markers)
        written = b"" if FaultKind.ROW_MISSING in struck else self._dialect.write(outcome)
        if FaultKind.ROW_DUPLICATED in struck:
            written *= 2
        if FaultKind.ROW_FOREIGN in struck:
            foreign_id = struck[FaultKind.ROW_FOREIGN].message or f"foreign-{row.custom_id}"
            written += self._dialect.write(replace(outcome, row=replace(row, custom_id=foreign_id)))
        self._stretch.results += written
        if outcome.answer is not None:
            self._stretch.succeeded_rows += 1
            self._stretch.input_tokens += outcome.answer.input_tokens
            self._stretch.output_tokens += outcome.answer.output_tokens
        elif outcome.refusal is not None:
            self._stretch.errored_rows += 1
        else:
            self._stretch.unrun_rows += 1

    def _outcome(self, row: Row, struck: Mapping[FaultKind, Fault], markers: Mapping[str, str]) -> RowOutcome:
        if FaultKind.ROW_UNRUN in struck:
            return RowOutcome(row=row)
        try:
            self._strike(row, struck.get(FaultKind.ROW_ERROR), markers)
            max_tokens = require_valid(row.params, row.model, self._dialect.rules, self._settings)
            question = Question(
                params=row.params,
                model=row.model,
                served_model=self._settings.snapshots.get(row.model) or self._dialect.door.served_model(row.model),
                window_tokens=self._settings.context_window_tokens.get(row.model),
                max_tokens=max_tokens,
            )
            cached = self._cache_use(row)
            wish = _wish(struck.get(FaultKind.ROW_USAGE), markers)
            answered = answer(question, wish, cached, self._dialect.door)
        except RefusedError as refusal:
            return RowOutcome(row=row, refusal=refusal)
        self._stretch.prefixes |= cached.digests
        return RowOutcome(row=row, answer=answered)

    def _strike(self, row: Row, fault: Fault | None, markers: Mapping[str, str]) -> None:
        """Let a row fault or a marker refuse the row."""
        if fault is not None:
            error_type = fault.error_type or error_type_of(fault.status_code or 500)
            raise RefusedError(fault.message or "Internal server error", error_type, fault.code)
        if "fail" in markers or ("fail_once" in markers and self._is_first(row)):
            raise RefusedError("Internal server error", "api_error")
        if "overloaded" in markers:
            raise RefusedError("Overloaded", "overloaded_error")
        if "context_length" in markers:
            window_tokens = self._settings.context_window_tokens.get(row.model, _DEFAULT_WINDOW_TOKENS)
            raise too_long(window_tokens + 1, window_tokens)
        if "content_filter" in markers:
            raise RefusedError(_FILTERED)

    def _is_first(self, row: Row) -> bool:
        """Whether the account sends this content to this model for the first time."""
        digest = content_digest({"system": row.model, "messages": row.params.get("messages")})
        if digest in self._stretch.digests or self._seen.saw(self._owner.account, digest):
            return False
        self._stretch.digests.add(digest)
        return True

    def _cache_use(self, row: Row) -> CacheUse:
        if b'"cache_control"' not in row.source:
            return CacheUse()
        return cache_use(
            row.params,
            self._settings.min_cache_tokens,
            lambda digest: digest in self._stretch.prefixes or self._seen.saw(self._owner.batch_id, digest),
        )


def _wish(fault: Fault | None, markers: Mapping[str, str]) -> Wish:
    natural_tokens = markers.get("tokens")
    return Wish(
        natural_tokens=min(int(natural_tokens), _MAX_ANSWER_TOKENS) if natural_tokens else None,
        cached_tokens=int(markers.get("cached") or (fault and fault.cached_tokens) or 0),
        cache_write_tokens=int(markers.get("cache_write") or 0),
        thinking_tokens=int(markers.get("reasoning") or (fault and fault.reasoning_tokens) or 0),
        refused="content_filter_finish" in markers,
        calls_tool="tool" in markers,
    )
