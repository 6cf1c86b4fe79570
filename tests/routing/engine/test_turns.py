"""Organisations take turns at every step and at a full lane; a long batch holds nobody up."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

from ground import clock
from routing.models import Batch, ProviderJob, SubLane, SubLaneState
from routing.services import collect, dispatch, finish
from tests.harness.world import make_tenant
from tests.routing.engine.kit import STEPS, Engine, chat_file, questions
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of

LONG = "river " * 400


def do(step: Callable[[], bool]) -> None:
    while step():
        pass


def test_a_batch_of_ten_rows_behind_a_long_one_is_next_at_every_step(engine: Engine) -> None:
    other = make_tenant("globex")
    # A long file in six jobs, as 300,000 rows are at OpenAI.
    engine.limit_lane(maximum_rows_per_job=50)
    long = engine.accept(questions(300))
    do(dispatch.start_next_sub_lane)
    assert len(engine.jobs(long)) == 6
    engine.pass_time(1)
    short = engine.accept(questions(10), other)

    def in_state(batch: Batch, state: str) -> int:
        return ProviderJob.objects.filter(batch=batch, state=state).count()

    assert dispatch.start_next_sub_lane()
    for step, state in ((dispatch.submit_next_job, "running"), (collect.collect_next_job, "collected")):
        if state == "collected":
            do(collect.poll_next_job)
        # One job of the long batch is in hand when the short one comes, and then it is its turn.
        assert step()
        assert step()
        assert in_state(short, state) == 1
        assert in_state(long, state) == 1
        do(step)
        assert in_state(long, state) == 6
    do(finish.finish_next_batch)
    assert engine.finish(long).completed_count == 300
    assert engine.finish(short).completed_count == 10


def test_an_organisation_that_was_idle_saved_nothing_up(engine: Engine) -> None:
    other = make_tenant("globex")
    for number in range(3):
        engine.accept(chat_file(f"{LONG} {number}"))
    do(dispatch.start_next_sub_lane)
    batches = [engine.accept(chat_file(f"{LONG} {number}"), other) for number in range(3)]
    engine.accept(chat_file(f"{LONG} again"))
    firsts = []
    for _ in range(4):
        before = set(SubLane.objects.filter(state=SubLaneState.SUBMITTING).values_list("batch_id", flat=True))
        assert dispatch.start_next_sub_lane()
        after = set(SubLane.objects.filter(state=SubLaneState.SUBMITTING).values_list("batch_id", flat=True))
        (begun,) = after - before
        firsts.append(begun in {batch.pk for batch in batches})
    # The new one begins where the other is: they go on in turn, and it is not three ahead.
    assert firsts in ([True, False, True, True], [True, True, False, True])


def test_a_full_lane_has_a_line_in_which_organisations_take_turns(engine: Engine, client: Client) -> None:
    other = make_tenant("globex")
    engine.limit_lane(enqueued_tokens_limit=700)
    engine.simulator.control.change_settings(rows_per_second=1)
    first = engine.accept(chat_file(LONG))
    for name in ("start", "submit"):
        STEPS[name]()
    mine = [engine.accept(chat_file(f"{LONG} {number}")) for number in range(2)]
    engine.pass_time(1)
    theirs = engine.accept(chat_file(f"{LONG} theirs"), other)
    do(dispatch.start_next_sub_lane)
    do(dispatch.submit_next_job)

    def told(batch: Batch) -> str:
        headers = other.headers if batch == theirs else engine.tenant.headers
        lanes = client.get(f"/v1/batches/{batch.public_id}", headers=headers).json()["lanes"]
        return f"{lanes[0]['status']} {lanes[0]['reason']}"

    assert told(first) == "submitted None"
    # They came last, but have nothing there yet.
    waits = "waiting enqueued_tokens_limit: place {} in line"
    assert [told(batch) for batch in (theirs, *mine)] == [waits.format(place) for place in (1, 2, 3)]
    page = signed_in(scenes.member(engine.tenant.organisation)).get(f"/app/batches/{mine[0].public_id}/")
    assert "Waiting Lane is full, place 2 in line" in words_of(page)
    # When the first has ended the next in line is called at once, long before it would ask by itself.
    engine.pass_time(2)
    do(collect.poll_next_job)
    do(dispatch.submit_next_job)
    assert told(theirs) == "submitted None"
    assert [told(batch) for batch in mine] == [waits.format(1), waits.format(2)]
    for batch in (first, theirs, *mine):
        engine.finish(batch)


def test_a_workflow_that_wants_it_sooner_is_earlier(engine: Engine) -> None:
    late, soon = engine.accept(chat_file("One")), engine.accept(chat_file("Two"))
    Batch.objects.filter(pk=soon.pk).update(finish_by=clock.now())
    assert dispatch.start_next_sub_lane()
    assert engine.sub_lane(soon).state == SubLaneState.SUBMITTING
    assert engine.sub_lane(late).state == SubLaneState.QUEUED
