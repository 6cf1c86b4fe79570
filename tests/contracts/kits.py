"""What the provider contract needs to know of each adapter: its simulator, and what its calls are named there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from catalog.domain.records import Endpoint
from routing.providers.base import (
    Deadlines,
    JobReport,
    JobState,
    Provider,
    ProviderAccount,
    ResultItem,
    Submission,
    SubmittedJob,
    make_row_key,
)
from routing.providers.registry import open_provider
from simulators.openai.running import running_simulator
from simulators.running import RunningSimulator, running_process

TOKEN = "0123456789abcdef0123456789abcdef"


class StartSimulator(Protocol):
    def __call__(self, state_dir: Path, **settings: object) -> AbstractContextManager[RunningSimulator]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One adapter. ``operations`` maps the port's calls to the simulator's; ``keeps_tokens`` tells of metadata."""

    provider: str
    model_id: str
    start: StartSimulator
    at_once: Mapping[str, object]
    operations: Mapping[str, str]
    keeps_tokens: bool
    reports_lane_full: bool


OPENAI = Kind(
    provider="openai",
    model_id="gpt-4o-mini-2024-07-18",
    start=running_simulator,
    at_once={
        "rows_per_second": None,
        "validation_seconds": 0,
        "finalizing_seconds": 0,
        "cancelling_seconds": 0,
        "shuffle_results": True,
    },
    operations={
        "submit": "batches.create",
        "find": "batches.list",
        "poll": "batches.retrieve",
        "results": "files.content",
        "cancel": "batches.cancel",
    },
    keeps_tokens=True,
    reports_lane_full=True,
)
KINDS = (OPENAI,)


@dataclass(slots=True)
class Kit:
    """An adapter on its simulator."""

    kind: Kind
    simulator: RunningSimulator
    api_key: str = "sk-contract-key-0001"
    opened: list[Provider] = field(default_factory=list)

    @property
    def provider(self) -> Provider:
        """The adapter with its usual deadlines."""
        return self.with_deadlines(Deadlines())

    def with_deadlines(self, deadlines: Deadlines, **account: str) -> Provider:
        """The adapter with these deadlines; closed with the kit."""
        fields = {"provider": self.kind.provider, "name": "main", "base_url": self.simulator.base_url}
        provider = open_provider(ProviderAccount(**{**fields, "api_key": self.api_key, **account}), deadlines)
        self.opened.append(provider)
        return provider

    def close(self) -> None:
        for each in self.opened:
            each.close()

    def submission(self, contents: list[str], token: str = TOKEN) -> Submission:
        """A job of chat rows numbered from 0."""
        provider = self.provider

        def lines() -> Iterator[bytes]:
            for row, content in enumerate(contents):
                yield provider.encode_row(
                    row_key=make_row_key(token, row),
                    endpoint=Endpoint.CHAT_COMPLETIONS,
                    model_id=self.kind.model_id,
                    body=chat_body(content),
                )

        return Submission(
            token=token,
            endpoint=Endpoint.CHAT_COMPLETIONS,
            model_id=self.kind.model_id,
            row_count=len(contents),
            lines=lines,
        )

    def submit(self, contents: list[str], token: str = TOKEN) -> SubmittedJob:
        return self.provider.submit(self.submission(contents, token))

    def ended(self, batch_ref: str) -> JobReport:
        """The report of a job that a simulator without delays has ended."""
        provider = self.provider
        for _ in range(10):
            report = provider.poll(batch_ref)
            if report.state is JobState.ENDED:
                return report
        raise AssertionError(f"still {report.provider_status}")

    def results(self, report: JobReport, token: str = TOKEN) -> list[ResultItem]:
        return list(self.provider.results(report, token=token, name_answer=answer_name))

    def run(self, contents: list[str]) -> list[ResultItem]:
        """Everything that comes back for one job."""
        return self.results(self.ended(self.submit(contents).batch_ref))

    def fault(self, call: str, kind: str, **fields: object) -> None:
        """Let the next ``call`` of the port meet a fault; ``times`` changes how many do."""
        self.simulator.control.add_fault(kind, operation=self.kind.operations[call], **{"times": 1, **fields})

    def row_fault(self, kind: str, row: int, **fields: object) -> None:
        """Let one row of the next jobs meet a fault."""
        self.simulator.control.add_fault(kind, custom_id=make_row_key(TOKEN, row), **fields)


def chat_body(content: str) -> dict[str, msgspec.Raw]:
    body = {"model": "a-name", "messages": [{"role": "user", "content": content}], "max_tokens": 12}
    return msgspec.json.decode(msgspec.json.encode(body), type=dict[str, msgspec.Raw])


def answer_name(row: int) -> str:
    return f"ours-{row}"


@contextmanager
def running_own_process(kind: Kind, state_dir: Path) -> Iterator[RunningSimulator]:
    """The simulator as a process of its own, so that its memory is not ours."""
    with running_process(kind.provider, state_dir) as started:
        started.simulator.control.change_settings(**kind.at_once)
        yield started.simulator
