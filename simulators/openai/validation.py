"""The verdict on a batch's input file: where its rows are, or why the batch fails."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from simulators.openai.answering import input_tokens_of
from simulators.openai.settings import Settings

Json = Mapping[str, object]
_MAX_ERRORS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`offsets` are the byte positions of the rows; `input_tokens` is zero unless the model has a token limit."""

    errors: tuple[Json, ...]
    offsets: "array[int]"
    model: str | None
    input_tokens: int


class InputInspector:
    """Reads an input file line by line and remembers what it must be compared with."""

    def __init__(self, endpoint: str, settings: Settings) -> None:
        """Judge rows for `endpoint` under `settings`."""
        self._endpoint = endpoint
        self._settings = settings
        self._lines_by_id: dict[str, int] = {}
        self._errors: list[Json] = []
        self._offsets = array("Q")
        self._model: str | None = None
        self._limited = False
        self._input_tokens = 0

    def inspect(self, path: Path) -> Verdict:
        """The verdict on the file at `path`."""
        size_bytes = path.stat().st_size
        if size_bytes > self._settings.max_input_bytes:
            message = (
                f"The input file is {size_bytes} bytes, larger than the limit of {self._settings.max_input_bytes}."
            )
            self._fail("file_too_large", message, None, None)
        else:
            self._read(path)
            if not self._offsets and not self._errors:
                self._fail(
                    "empty_file",
                    "The input file is empty. Please ensure that the batch contains at least one request.",
                    None,
                    None,
                )
        return Verdict(
            errors=tuple(self._errors), offsets=self._offsets, model=self._model, input_tokens=self._input_tokens
        )

    def _read(self, path: Path) -> None:
        offset = 0
        with path.open("rb") as source:
            for line_number, line in enumerate(source, start=1):
                if line.strip():
                    if len(self._offsets) >= self._settings.max_row_count:
                        message = f"The input file has more than {self._settings.max_row_count} requests."
                        self._fail("too_many_tasks", message, None, None)
                        return
                    self._offsets.append(offset)
                    self._judge_line(line_number, line)
                    if len(self._errors) >= _MAX_ERRORS:
                        return
                offset += len(line)

    def _judge_line(self, line_number: int, line: bytes) -> None:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            self._fail("invalid_json_line", "This line is not parseable as valid JSON.", line_number, None)
            return
        if not isinstance(row, dict):
            self._fail("invalid_request", "This line is not a JSON object.", line_number, None)
            return
        custom_id, body = row.get("custom_id"), row.get("body")
        if not isinstance(custom_id, str) or not custom_id:
            self._fail_missing("custom_id", line_number)
        elif custom_id in self._lines_by_id:
            message = (
                f"The custom_id '{custom_id}' appears on line {self._lines_by_id[custom_id]} already; "
                "each request needs its own."
            )
            self._fail("duplicate_custom_id", message, line_number, "custom_id")
        else:
            self._lines_by_id[custom_id] = line_number
        if "method" not in row:
            self._fail_missing("method", line_number)
        elif row["method"] != "POST":
            self._fail(
                "invalid_method", f"Invalid method '{row['method']}'; only POST is possible.", line_number, "method"
            )
        self._judge_url(row.get("url"), line_number)
        if isinstance(body, dict):
            self._judge_body(body, line_number)
        else:
            self._fail_missing("body", line_number)

    def _judge_url(self, url: object, line_number: int) -> None:
        if not isinstance(url, str):
            self._fail_missing("url", line_number)
        elif url != self._endpoint:
            message = f"The provided URL '{url}' does not match the batch endpoint '{self._endpoint}'."
            self._fail("mismatched_url", message, line_number, "url")

    def _judge_body(self, body: Json, line_number: int) -> None:
        model = body.get("model")
        if not isinstance(model, str) or not model:
            self._fail_missing("body.model", line_number)
            return
        if self._model is None:
            self._model = model
            self._limited = self._settings.enqueued_tokens_limit(model) is not None
            if model in self._settings.unknown_models:
                message = f"The model `{model}` does not exist or you do not have access to it."
                self._fail("model_not_found", message, line_number, "body.model")
        elif model != self._model:
            message = f"The model '{model}' differs from '{self._model}'; all requests of a batch need the same model."
            self._fail("mismatched_model", message, line_number, "body.model")
        if self._limited:
            self._input_tokens += input_tokens_of(self._endpoint, model, body)

    def _fail_missing(self, param: str, line_number: int) -> None:
        self._fail("missing_required_parameter", f"Missing required parameter: '{param}'.", line_number, param)

    def _fail(self, code: str, message: str, line_number: int | None, param: str | None) -> None:
        self._errors.append({"code": code, "line": line_number, "message": message, "param": param})
