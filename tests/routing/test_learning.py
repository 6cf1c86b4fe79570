"""Settled batches teach: months of them, driven by hand over real quotes, payloads and outcomes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from catalog.selectors import current_catalog
from ground import clock as ground_clock
from ground.errors import InvalidRequest
from routing.accuracy import accuracy_board, learned_of_models, learning_history
from routing.domain.estimate.tables import WEIGHT_SCALE, vocabulary_named
from routing.domain.estimate.weights import prepare_texts, weigh_rows
from routing.domain.jsonl import fast
from routing.domain.jsonl.table import FileLimits
from routing.domain.offering import QuoteSettings
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from routing.models import (
    Batch,
    BatchLesson,
    GroupAccuracy,
    LearnedState,
    LearnedStateVersion,
    LearnedTable,
    LearningChoice,
    LearningDecision,
    LessonState,
    RowOutcome,
)
from routing.payloads import open_payload
from routing.services.batches import accept_quote
from routing.services.learned_states import sweep_history
from routing.services.learning import learn_from_next_batch, owe_lesson
from routing.services.learning_decisions import decide_learning
from routing.services.quotes import create_quote
from routing.workflows import DEFAULT_WORKFLOW
from tests.api.world import Api
from tests.harness.clock import Clock
from tests.harness.world import Tenant, keep_models_in_service, make_tenant
from tests.routing.domain.sample import jsonl, row

MODEL = "gpt-4o-mini"
WORDS = [
    "river",
    "bridge",
    "ferry",
    "harbour",
    "island",
    "valley",
    "mountain",
    "station",
    "market",
    "library",
    "museum",
    "garden",
]
JOBS = {"classify": "Say in one word what kind of place this is.", "translate": "Give the sentence in Portuguese."}


def file_of(job: str, *, count: int, seed: int) -> bytes:
    source = random.Random(seed)
    rows = []
    for number in range(count):
        text = " ".join(source.choices(WORDS, k=source.randrange(20, 60)))
        messages = [{"role": "system", "content": JOBS[job]}, {"role": "user", "content": text}]
        rows.append(row(f"r{number}", model=MODEL, messages=messages, max_tokens=400))
    return jsonl(*rows)


@dataclass(slots=True)
class School:
    """Customers whose rows settle at hidden ratios of what the formula counts."""

    clock: Clock
    tenants: dict[str, Tenant] = field(default_factory=dict)
    noise: random.Random = field(default_factory=lambda: random.Random(7))
    seeds: int = 0

    def tenant(self, slug: str) -> Tenant:
        if slug not in self.tenants:
            self.tenants[slug] = make_tenant(slug)
        return self.tenants[slug]

    def formula(self, body: bytes) -> np.ndarray[Any, Any]:
        plan = make_quote_plan(body, current_catalog(), WorkflowProfile(), QuoteSettings(), ground_clock.now())
        return plan.placement.input_tokens

    def quoted(self, slug: str, body: bytes) -> dict[str, Any]:
        made = create_quote(caller=self.tenant(slug).caller, body=body, workflow=DEFAULT_WORKFLOW)
        return dict(made.answer)

    def placement(self, slug: str, body: bytes) -> np.ndarray[Any, Any]:
        with open_payload(self.quoted(slug, body)["id"]) as payload:
            return payload.input_tokens

    def settled(self, slug: str, body: bytes, settle: Callable[[int], tuple[int, int]]) -> Batch:
        """A batch whose rows have ended, due to teach; ``settle`` gives input and output by the formula's input."""
        caller = self.tenant(slug).caller
        batch = accept_quote(caller=caller, quote_id=self.quoted(slug, body)["id"], metadata=None).batch
        counted = self.formula(body).tolist()
        RowOutcome.objects.bulk_create(
            [
                RowOutcome(
                    accepted_at=batch.created_at,
                    batch_id=batch.pk,
                    row=number,
                    outcome="succeeded",
                    code="",
                    status_code=200,
                    sub_lane_id=1,
                    group_index=0,
                    attempt_number=1,
                    re_dispatch_count=0,
                    input_tokens=settled[0] - settled[0] // 4,
                    # Part of what was read may come from a cache, and counts all the same.
                    cached_input_tokens=settled[0] // 4,
                    cache_write_5m_tokens=0,
                    cache_write_1h_tokens=0,
                    output_tokens=settled[1],
                    reasoning_tokens=0,
                    charge_pico_usd=0,
                    body_offset=0,
                    body_length=0,
                )
                for number, settled in enumerate(map(settle, counted))
            ]
        )
        owe_lesson(batch, ground_clock.now())
        return batch

    def near(self, ratio: float, output: float = 0.3) -> Callable[[int], tuple[int, int]]:
        """Rows about a ratio, with the spread that the weights leave."""

        def settle(formula: int) -> tuple[int, int]:
            prior = min(400, formula // 2 + 100)
            return round(formula * ratio * self.noise.gauss(1, 0.025)), round(prior * output * self.noise.gauss(1, 0.1))

        return settle

    def learns(self, slug: str, job: str, ratio: float, *, count: int = 120, output: float = 0.3) -> None:
        self.seeds += 1
        self.settled(slug, file_of(job, count=count, seed=self.seeds), self.near(ratio, output))
        assert learn_from_next_batch()

    def error(self, slug: str, job: str, ratio: float) -> float:
        """How far a new quote of a job lies from what it will settle at."""
        body = file_of(job, count=100, seed=12_345)
        return float(self.quoted(slug, body)["estimate"]["input_tokens"] / (self.formula(body).sum() * ratio) - 1)


@pytest.fixture
def school(db: None, clock: Clock) -> School:
    return School(clock)


# What the provider adds, what the customer's kind of text does, and what the template does.
HIDDEN = {
    ("acme", "classify"): 1.05 * 1.02 * 1.04,
    ("acme", "translate"): 1.05 * 1.02 * 0.95,
    ("bolt", "classify"): 1.05 * 0.97,
    ("corda", "translate"): 1.05 * 1.03,
}


def test_months_of_batches_bring_each_job_and_each_customer_to_its_truth(school: School) -> None:
    first = {key: school.error(*key, ratio) for key, ratio in HIDDEN.items()}
    assert max(map(abs, first.values())) > 0.05
    for _month in range(4):
        school.clock.advance(days=30)
        for (slug, job), ratio in HIDDEN.items():
            school.learns(slug, job, ratio)
    last = {key: school.error(*key, ratio) for key, ratio in HIDDEN.items()}
    assert max(map(abs, last.values())) < 0.01, last
    # Who never came before is quoted by what the model does with everybody, up to a quarter of it for each customer.
    assert 0.005 < -school.error("novice", "classify", 1.05) < 0.04
    # The output was a third of the prior's; low and high are the rows' own.
    estimate = school.quoted("acme", file_of("classify", count=100, seed=1))["explanation"][0]
    assert 0.25 < estimate["output_tokens"] / (estimate["input_tokens"] / 2 + 100 * 100) < 0.35
    assert estimate["low_input_tokens"] > estimate["input_tokens"] * 0.93
    assert estimate["high_output_tokens"] < estimate["output_tokens"] * 1.4
    accuracies = GroupAccuracy.objects.filter(organisation__slug="acme").order_by("pk")
    mean_errors = [each.input_absolute_error_ppm_sum / each.seen_row_count / 1e4 for each in accuracies]
    assert mean_errors[0] > 4
    assert mean_errors[-1] < 3
    assert sum(accuracies[0].input_error_counts) == accuracies[0].row_count == 120


def states() -> list[tuple[object, ...]]:
    return list(LearnedState.objects.order_by("pk").values_list("pk", "version", "state", "house_ratio_ppm"))


def test_a_batch_teaches_once_and_others_data_only_by_the_models_own_ratio(
    school: School, app_cursor: psycopg.Cursor
) -> None:
    school.learns("acme", "classify", 1.10)
    before, own = states(), school.quoted("acme", file_of("classify", count=50, seed=3))
    assert not learn_from_next_batch()
    with pytest.raises(psycopg.errors.RestrictViolation):
        app_cursor.execute("UPDATE routing_batchlesson SET state = 'pending', ended_at = NULL, due_at = now()")
    # A run that lost its claim changes nothing: a lesson that was taken over is learned by the other.
    school.settled("acme", file_of("classify", count=20, seed=4), school.near(1.1))
    BatchLesson.objects.filter(state=LessonState.PENDING).update(due_at=None)
    assert not learn_from_next_batch()
    assert states() == before
    # A poisoned customer: its rows claim as much as their bytes could be, for a long time.
    for _ in range(3):
        school.learns("mallory", "classify", 1.9, count=200)
    poisoned = school.quoted("acme", file_of("classify", count=50, seed=3))
    house = LearnedState.objects.get(organisation=None)
    assert house.house_ratio_ppm <= 1_125_000
    moved = poisoned["estimate"]["input_tokens"] / own["estimate"]["input_tokens"] - 1
    # By no more than the parent moved, times what the customer's own rows leave of the parent: 64 of 184.
    assert 0 <= moved < 0.0625 * 64 / 184


def test_impossible_rows_are_set_aside(school: School) -> None:
    school.settled("acme", file_of("classify", count=30, seed=5), lambda formula: (formula * 1_000, 50))
    assert learn_from_next_batch()
    accuracy = GroupAccuracy.objects.get()
    assert (accuracy.seen_row_count, accuracy.set_aside_row_count) == (30, 30)
    assert states() == []


def test_an_operator_goes_back_switches_off_and_on_and_quotes_follow(school: School) -> None:
    operator = User.objects.create_user(
        email="o@example.com", name="Olu", staff_role="operator", created_at=ground_clock.now()
    )

    def figures(slug: str) -> Any:
        quote = school.quoted(slug, file_of("classify", count=40, seed=9))
        return quote["estimate"] | {"bands": quote["explanation"][0]["high_input_tokens"]}

    def decide(choice: LearningChoice, to_version: int | None = None) -> None:
        decide_learning(model_slug=MODEL, choice=choice, reason="a try", user=operator, to_version=to_version)

    by_formula = figures("bolt")
    school.learns("acme", "classify", 1.10)
    version, then = LearnedState.objects.get(organisation=None).version, (figures("acme"), figures("bolt"))
    school.learns("bolt", "classify", 1.20)
    school.learns("acme", "classify", 0.90)
    assert figures("acme")["input_tokens"] < then[0]["input_tokens"]
    decide(LearningChoice.BACK, version)
    assert (figures("acme"), figures("bolt")) == then
    decide(LearningChoice.OFF)
    assert figures("bolt") == by_formula
    school.settled("acme", file_of("classify", count=20, seed=10), school.near(0.9))
    assert learn_from_next_batch()
    with pytest.raises(InvalidRequest):
        decide(LearningChoice.OFF)
    with pytest.raises(InvalidRequest):
        decide(LearningChoice.BACK, version - 1)
    decide(LearningChoice.ON)
    assert (figures("acme"), figures("bolt")) == then
    assert list(LearningDecision.objects.order_by("pk").values_list("choice", flat=True)) == ["back", "off", "on"]


def test_the_boards_compare_what_was_quoted_with_what_was_settled(school: School) -> None:
    school.settled("acme", file_of("classify", count=100, seed=1), lambda formula: (round(formula * 1.1), 40))
    school.settled("bolt", file_of("classify", count=50, seed=2), lambda formula: (formula, 40))
    assert learn_from_next_batch()
    assert learn_from_next_batch()
    own = accuracy_board(since=ground_clock.now() - timedelta(days=7), organisation=school.tenant("acme").organisation)
    assert [(row.model_slug, row.batch_count, row.row_count, row.learned) for row in own] == [(MODEL, 1, 100, None)]
    # 100 quoted for 110 settled
    assert own[0].input.bias_ppm == pytest.approx(-90_909, abs=6_000)
    assert own[0].input.mean_error_ppm == pytest.approx(90_909, abs=6_000)
    assert own[0].input.p95_error_ppm == pytest.approx(95_000, abs=6_000)
    (house,) = accuracy_board(since=ground_clock.now() - timedelta(days=7))
    assert (house.batch_count, house.row_count) == (2, 150)
    assert house.learned is not None
    assert house.learned.customer_count == 2
    school.clock.advance(days=8)
    assert accuracy_board(since=ground_clock.now() - timedelta(days=7)) == ()


def test_a_provider_that_begins_to_count_otherwise_rings_an_alarm(
    school: School, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        school.learns("acme", "classify", 1.0, count=200)
    assert not learned_of_models()[MODEL].has_drifted
    school.settled("acme", file_of("translate", count=200, seed=30), lambda formula: (formula * 125 // 100, 60))
    assert learn_from_next_batch()
    assert learned_of_models()[MODEL].has_drifted
    assert "counts otherwise" in caplog.text


CLOSED = "claude-haiku-4-5"
KINDS = {
    "letters": ["The", "parcel", "that", "you", "sent", "last", "week", "has", "not", "arrived,", "nobody", "answers."],
    "code": ["for", "row", "in", "rows:", "total", "+=", "row.tokens", "*", "rate;", "}", "if", "(x", "==", "None):"],
    "figures": ["12.50", "4711", "2026-03-01", "19", "%", "48151623", "0.004", "EUR", "7,", "1,250,000"],
    "german": [
        "Die",
        "Lieferung",
        "verz\u00f6gert",
        "sich;",
        "bitte",
        "pr\u00fcfen",
        "Sie",
        "Stra\u00dfe",
        "und",
        "Hausnummer.",
    ],
    "greek": ["\u03b7", "\u03ad\u03c6\u03c4\u03b1\u03c3\u03b5", "\u03c7\u03b8\u03b5\u03c2"],
}


def closed_file(seed: int, *, count: int = 100) -> bytes:
    source = random.Random(seed)
    rows = []
    for number in range(count):
        words = KINDS[source.choice(list(KINDS))]
        text = " ".join(source.choices(words, k=source.randrange(60, 160)))
        rows.append(row(f"r{number}", model=CLOSED, messages=[{"role": "user", "content": text}], max_tokens=100))
    return jsonl(*rows)


def test_a_vocabulary_that_is_not_public_gets_a_table_of_its_own(school: School) -> None:
    keep_models_in_service()
    model = current_catalog().models[CLOSED]
    assert not model.vocabulary_is_public
    truth = vocabulary_named("qwen3")

    def true_tokens(body: bytes) -> list[int]:
        table = fast.read_rows(body, FileLimits())
        weighed = weigh_rows(prepare_texts(table.literals), 0, len(table), truth)
        return [int(each) // WEIGHT_SCALE + truth.message_tokens + truth.request_tokens for each in weighed]

    def error(seed: int) -> float:
        body = closed_file(seed)
        placed = school.placement("acme", body)
        return float(np.abs(placed / np.array(true_tokens(body)) - 1).mean())

    first = error(99)
    for seed in range(5):
        body = closed_file(seed)
        settled = iter(true_tokens(body))
        school.settled("acme", body, lambda _formula, settled=settled: (next(settled), 40))  # type: ignore[misc]
        assert learn_from_next_batch()
    table = LearnedTable.objects.get()
    assert table.own_error_ppm < table.used_error_ppm * 0.9
    history = learning_history(CLOSED)
    assert (history.learned.table_version, history.table_row_count) == (table.version, 500)
    learned = error(99)
    assert learned < 0.045
    assert learned < first / 2
    # Going back to before it brings the old table back.
    operator = User.objects.create_user(
        email="o@example.com", name="Olu", staff_role="operator", created_at=ground_clock.now()
    )
    before = LearnedStateVersion.objects.filter(organisation_id=None, version__lt=table.version).latest("version")
    decide_learning(
        model_slug=CLOSED, choice=LearningChoice.BACK, reason="a try", user=operator, to_version=before.version
    )
    assert error(99) > 1.2 * learned


def test_a_call_sees_what_was_learned_at_once_and_asks_the_database_no_more(school: School) -> None:
    api = Api(school.tenant("acme"))
    rows = [json.loads(line) for line in file_of("classify", count=5, seed=1).splitlines()]

    def statements() -> int:
        with CaptureQueriesContext(connection) as seen:
            api.quote(*rows)
        return len(seen)

    api.quote(*rows)
    before = statements()
    school.learns("acme", "classify", 1.10)
    assert api.quote(*rows)["learned_version"] == LearnedState.objects.latest("version").version
    assert statements() == before


def test_history_is_kept_and_never_changed(school: School, app_cursor: psycopg.Cursor) -> None:
    school.learns("acme", "classify", 1.10)
    assert LearnedStateVersion.objects.count() == LearnedState.objects.count() == 4
    for statement in (
        "UPDATE routing_learnedstateversion SET version = 0",
        "DELETE FROM routing_learnedstateversion",
        "UPDATE routing_groupaccuracy SET row_count = 0",
        "UPDATE routing_learnedstate SET version = version - 1",
    ):
        with pytest.raises(psycopg.errors.RestrictViolation):
            app_cursor.execute(statement)
    school.learns("acme", "classify", 1.10)
    assert sweep_history() == 0
    school.clock.advance(days=91)
    # What held 90 days ago stays.
    assert (sweep_history(), LearnedStateVersion.objects.count()) == (4, 4)
