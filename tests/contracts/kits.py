"""What the provider contract needs to know of each adapter: its simulator, and what its calls are named there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlencode

import httpx2
import msgspec

from catalog.domain.records import Endpoint
from routing.providers.base import (
    Deadlines,
    JobReport,
    JobState,
    Outcome,
    Provider,
    ProviderAccount,
    ResultItem,
    RowCode,
    Submission,
    SubmittedJob,
    make_row_key,
)
from routing.providers.registry import open_provider
from simulators.anthropic.running import running_simulator as running_anthropic
from simulators.bedrock.running import running_simulator as running_bedrock
from simulators.openai.running import running_simulator as running_openai
from simulators.running import RunningSimulator, running_process
from tests.harness.answers import one_by_one

BUCKET = "lane"
ANSWER_PREFIX = "ours-"
TOKEN = "0123456789abcdef0123456789abcdef"


class StartSimulator(Protocol):
    def __call__(self, state_dir: Path, **settings: object) -> AbstractContextManager[RunningSimulator]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrun:
    """What comes back for a row that the provider took and never ran."""

    outcome: Outcome
    code: RowCode
    provider_code: str | None
    has_body: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One adapter, and where the providers differ.

    ``operations`` maps the port's calls to the simulator's; ``keeps_tokens``: a job says its token in the list;
    ``reports_lane_full``: a full lane fails the job; ``knows_row_codes``: a failed row has a code beside its status;
    ``lists_unreached_rows``: rows that a stop or the window kept from running have lines of their own; ``quota_fault``
    is how an exhausted quota is answered, None where nothing tells it.
    """

    provider: str
    model_id: str
    start: StartSimulator
    at_once: Mapping[str, object]
    operations: Mapping[str, str]
    account: Callable[[RunningSimulator], Mapping[str, str]]
    other_key: str
    keeps_tokens: bool
    reports_lane_full: bool
    knows_row_codes: bool
    lists_unreached_rows: bool
    quota_fault: Mapping[str, object] | None
    unrun: Unrun
    slow_stop: Mapping[str, object]


def openai_account(simulator: RunningSimulator) -> Mapping[str, str]:
    return {"base_url": simulator.base_url, "api_key": "sk-contract-key-0001"}


def anthropic_account(simulator: RunningSimulator) -> Mapping[str, str]:
    return {"base_url": simulator.url, "api_key": "sk-contract-key-0001"}


def bedrock_account(simulator: RunningSimulator) -> Mapping[str, str]:
    """The account's fields; its bucket is made where it is missing."""
    storage = str(simulator.control.state()["s3_url"])
    scope = "AWS4-HMAC-SHA256 Credential=AKIDMAKER/20260101/us-east-1/s3/aws4_request"
    made = httpx2.put(f"{storage}/{BUCKET}", headers={"Authorization": scope})
    assert made.status_code in {200, 409}
    query = {"region": "us-east-1", "bucket": BUCKET, "role": "arn:aws:iam::123456789012:role/lane", "storage": storage}
    return {"base_url": f"{simulator.url}/?{urlencode(query)}", "api_key": "AKIDCONTRACT0001:a-secret"}


OPENAI = Kind(
    provider="openai",
    model_id="gpt-4o-mini-2024-07-18",
    start=running_openai,
    account=openai_account,
    other_key="sk-another-key-0002",
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
    lists_unreached_rows=True,
    quota_fault={"status_code": 429, "code": "insufficient_quota"},
    unrun=Unrun(outcome=Outcome.FAILED, code=RowCode.PROVIDER_ERROR, provider_code="request_timeout"),
    knows_row_codes=True,
    slow_stop={"cancelling_seconds": 5},
)
ANTHROPIC = Kind(
    provider="anthropic",
    model_id="claude-3-5-haiku-20241022",
    start=running_anthropic,
    account=anthropic_account,
    other_key="sk-another-key-0002",
    at_once={
        "rows_per_second": None,
        "starting_seconds": 0,
        "ending_seconds": 0,
        "canceling_seconds": 0,
        "shuffle_results": True,
    },
    operations={
        "submit": "batches.create",
        "find": "batches.list",
        "poll": "batches.retrieve",
        "results": "batches.results",
        "cancel": "batches.cancel",
    },
    keeps_tokens=False,
    reports_lane_full=False,
    lists_unreached_rows=True,
    quota_fault={"status_code": 400, "code": "enforced_spend_limit_reached"},
    unrun=Unrun(outcome=Outcome.EXPIRED, code=RowCode.BATCH_EXPIRED, provider_code="expired"),
    knows_row_codes=True,
    slow_stop={"canceling_seconds": 5},
)
BEDROCK = Kind(
    provider="bedrock",
    model_id="anthropic.claude-3-5-sonnet-20241022-v2:0",
    start=running_bedrock,
    account=bedrock_account,
    other_key="AKIDANOTHER0002:a-secret",
    at_once={
        "rows_per_second": None,
        "submitted_seconds": 0,
        "validating_seconds": 0,
        "scheduled_seconds": 0,
        "finishing_seconds": 0,
        "stopping_seconds": 0,
        "min_record_count": 1,
        "max_open_jobs": 1_000,
        "shuffle_results": True,
    },
    operations={
        "submit": "create_model_invocation_job",
        "find": "list_model_invocation_jobs",
        "poll": "get_model_invocation_job",
        "results": "s3.get_object",
        "cancel": "stop_model_invocation_job",
    },
    keeps_tokens=True,
    reports_lane_full=False,
    lists_unreached_rows=False,
    quota_fault=None,
    unrun=Unrun(outcome=Outcome.FAILED, code=RowCode.PROVIDER_ERROR, provider_code="error_408", has_body=True),
    knows_row_codes=False,
    slow_stop={"stopping_seconds": 5},
)
KINDS = (OPENAI, ANTHROPIC, BEDROCK)


@dataclass(slots=True)
class Kit:
    """An adapter on its simulator."""

    kind: Kind
    simulator: RunningSimulator
    opened: list[Provider] = field(default_factory=list)

    @property
    def api_key(self) -> str:
        """The key of the account."""
        return self.kind.account(self.simulator)["api_key"]

    @property
    def key_name(self) -> str:
        """What the simulator knows the key by."""
        return self.api_key.partition(":")[0]

    @property
    def unreachable_url(self) -> str:
        """The account's base with a port nobody listens on."""
        return self.kind.account(self.simulator)["base_url"].replace(self.simulator.url, "http://127.0.0.1:9", 1)

    @property
    def provider(self) -> Provider:
        """The adapter with its usual deadlines."""
        return self.with_deadlines(Deadlines())

    def with_deadlines(self, deadlines: Deadlines, **account: str) -> Provider:
        """The adapter with these deadlines; closed with the kit."""
        fields = {"provider": self.kind.provider, "name": "main", **self.kind.account(self.simulator), **account}
        provider = open_provider(ProviderAccount(**fields), deadlines)
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
        return list(one_by_one(self.provider.results(report, token=token, answer_prefix=ANSWER_PREFIX), token=token))

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


@contextmanager
def running_own_process(kind: Kind, state_dir: Path) -> Iterator[RunningSimulator]:
    """The simulator as a process of its own, so that its memory is not ours."""
    with running_process(kind.provider, state_dir) as started:
        started.simulator.control.change_settings(**kind.at_once)
        yield started.simulator
