"""Answer stretches of a batch's rows into its two files."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import orjson

from simulators.faults import Fault, FaultKind, RowFaults
from simulators.markers import MARKER_START, markers_in
from simulators.openai.answering import Usage, Wish, answer_row, content_digest
from simulators.openai.records import BatchRecord
from simulators.openai.refusals import RefusedError, context_length_refusal
from simulators.openai.settings import Settings
from simulators.openai.store import Store
from simulators.openai.tokens import user_text
from simulators.openai.wire import RowOutcome, error_body, result_line
from simulators.rowfiles import answer_order

Json = Mapping[str, object]

_SERVER_ERROR = "The server had an error while processing your request. Sorry about that!"
_FILTERED = "The response was filtered due to the prompt triggering the content management policy."
_ERROR_TYPES = {429: "rate_limit_exceeded", 500: "server_error", 503: "server_error"}
_DEFAULT_WINDOW_TOKENS = 128_000
_MAX_ANSWER_TOKENS = 128_000


@dataclass(slots=True)
class Stretch:
    """What a stretch of answered rows adds to a batch; `digests` are contents seen for the first time."""

    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    completed_rows: int = 0
    failed_rows: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    digests: set[bytes] = field(default_factory=set)

    def count(self, usage: Usage) -> None:
        """Add the tokens of one answer."""
        self.input_tokens += usage.input_tokens
        self.cached_tokens += usage.cached_tokens
        self.output_tokens += usage.output_tokens
        self.reasoning_tokens += usage.reasoning_tokens


def read_rows(store: Store, batch: BatchRecord, start: int, stop: int) -> Iterator[bytes]:
    """The input lines number `start` to `stop` in the order of answering."""
    offsets = array("Q")
    offsets.frombytes(store.offsets_path(batch.id).read_bytes())
    order = answer_order(batch.content_seed, batch.row_count, shuffled=batch.shuffled)
    with store.input_path(batch.id).open("rb") as source:
        for row in order[start:stop]:
            source.seek(offsets[row])
            yield source.readline()


class RowAnswerer:
    """Answers rows of one batch under its settings, faults and markers."""

    def __init__(self, store: Store, batch: BatchRecord, settings: Settings, faults: RowFaults, created: int) -> None:
        """`created` (Unix seconds) stands in the answers."""
        self._store = store
        self._batch = batch
        self._faults = faults
        self._created = created
        model = batch.model or ""
        self._served_model = settings.snapshots.get(model, model)
        self._window_tokens = settings.context_window_tokens.get(model)
        self._stretch = Stretch()

    def answer(self, start: int, stop: int) -> Stretch:
        """Answer the rows number `start` to `stop` in the order of answering."""
        for line in read_rows(self._store, self._batch, start, stop):
            self._answer_line(line)
        return self._stretch

    def _answer_line(self, line: bytes) -> None:
        row = orjson.loads(line)
        custom_id, body = row["custom_id"], row["body"]
        struck = {fault.kind: fault for fault in reversed(self._faults.striking(custom_id, line, self._batch.model))}
        markers = markers_in(user_text(body)) if MARKER_START in line else {}
        outcome = self._outcome(custom_id, body, struck, markers)
        written = b"" if FaultKind.ROW_MISSING in struck else result_line(outcome)
        if FaultKind.ROW_DUPLICATED in struck:
            written *= 2
        if FaultKind.ROW_FOREIGN in struck:
            foreign_id = struck[FaultKind.ROW_FOREIGN].message or f"foreign-{custom_id}"
            written += result_line(replace(outcome, custom_id=foreign_id))
        if outcome.succeeded:
            self._stretch.completed_rows += 1
            self._stretch.output += written
        else:
            self._stretch.failed_rows += 1
            self._stretch.errors += written

    def _outcome(
        self, custom_id: str, body: Json, struck: Mapping[FaultKind, Fault], markers: Mapping[str, str]
    ) -> RowOutcome:
        name = sha256(f"{self._batch.id}/{custom_id}".encode()).hexdigest()
        outcome = RowOutcome(
            custom_id=custom_id,
            line_id=f"batch_req_{name[:32]}",
            request_id=name[32:],
            status_code=200,
            body=None,
        )
        unrun = struck.get(FaultKind.ROW_UNRUN)
        if unrun is not None:
            code = unrun.code or "request_timeout"
            return replace(outcome, error_code=code, error_message=unrun.message or "The request timed out.")
        refusal = self._fault_error(struck) or self._marker_error(body, markers)
        if refusal is not None:
            return replace(outcome, status_code=refusal[0], body=refusal[1])
        try:
            answer = answer_row(
                self._batch.endpoint,
                body,
                served_model=self._served_model,
                window_tokens=self._window_tokens,
                created=self._created,
                wish=_wish(struck.get(FaultKind.ROW_USAGE), markers),
            )
        except RefusedError as refused:
            return replace(outcome, status_code=400, body=_refused_body(refused))
        self._stretch.count(answer.usage)
        return replace(outcome, body=answer.body)

    def _fault_error(self, struck: Mapping[FaultKind, Fault]) -> tuple[int, Json] | None:
        fault = struck.get(FaultKind.ROW_ERROR)
        if fault is None:
            return None
        status_code = 500 if fault.status_code is None else fault.status_code
        error_type = fault.error_type or _ERROR_TYPES.get(status_code, "invalid_request_error")
        return status_code, error_body(fault.message or _SERVER_ERROR, error_type, None, fault.code)

    def _marker_error(self, body: Json, markers: Mapping[str, str]) -> tuple[int, Json] | None:
        server_error = 500, error_body(_SERVER_ERROR, "server_error", None, "server_error")
        if "fail" in markers:
            return server_error
        if "fail_once" in markers:
            digest = content_digest(body)
            if digest not in self._stretch.digests and not self._store.seen.saw(self._batch.account, digest):
                self._stretch.digests.add(digest)
                return server_error
        if "context_length" in markers:
            window_tokens = self._window_tokens or _DEFAULT_WINDOW_TOKENS
            return 400, _refused_body(context_length_refusal(window_tokens, window_tokens + 1))
        if "content_filter" in markers:
            return 400, error_body(_FILTERED, "invalid_request_error", "prompt", "content_filter")
        return None


def unrun_line(batch: BatchRecord, line: bytes, code: str, message: str) -> bytes:
    """The error line of a row that was never answered."""
    custom_id = orjson.loads(line)["custom_id"]
    name = sha256(f"{batch.id}/{custom_id}".encode()).hexdigest()
    return result_line(
        RowOutcome(
            custom_id=custom_id,
            line_id=f"batch_req_{name[:32]}",
            request_id="",
            status_code=0,
            body=None,
            error_code=code,
            error_message=message,
        )
    )


def _wish(fault: Fault | None, markers: Mapping[str, str]) -> Wish:
    natural_tokens = markers.get("tokens")
    return Wish(
        natural_tokens=min(int(natural_tokens), _MAX_ANSWER_TOKENS) if natural_tokens else None,
        cached_tokens=int(markers.get("cached") or (fault and fault.cached_tokens) or 0),
        reasoning_tokens=int(markers.get("reasoning") or (fault and fault.reasoning_tokens) or 0),
        filtered="content_filter_finish" in markers,
    )


def _refused_body(refused: RefusedError) -> Json:
    return error_body(refused.message, "invalid_request_error", refused.param, refused.code)
