"""The page of the engine's queues, and looking at a job again now."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client

from accounts.models import AuditEntry, StaffRole
from ground import clock as the_clock
from ground.task_runs import TaskRuns
from routing.models import ProviderJob
from routing.views.task_words import TASK_WORDS
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, do_due_steps
from tests.routing.pages import scenes
from tests.routing.pages.conftest import html_of, poll_url_of, signed_in, words_of

PAGE = "/ops/jobs/"
LIST = {"HX-Request": "true", "HX-Target": "list"}


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in(scenes.staff())


def states(client: Client, query: str = "") -> list[tuple[str, str]]:
    return [(row["step"].queue, row["step"].state) for row in client.get(PAGE + query).context["rows"]]


def test_steps_stand_in_their_queue_the_longest_due_first(
    operator: Client, tenant: Tenant, simulator: RunningSimulator
) -> None:
    at = the_clock.now()
    assert "Nothing is due" in words_of(operator.get(PAGE))
    scenes.accepted(tenant, "gpt-4o-mini", "gpt-4o")
    assert states(operator) == [("start", "due"), ("start", "due")]
    do_due_steps()
    first, second = ProviderJob.objects.order_by("pk")
    ProviderJob.objects.filter(pk=first.pk).update(
        due_at=at - timedelta(minutes=2), last_error="429: slow down", try_count=3
    )
    ProviderJob.objects.filter(pk=second.pk).update(
        due_at=at - timedelta(minutes=9), lease_until=at + timedelta(minutes=1), state="ended", ending="completed"
    )
    scenes.pending_quote(tenant, scenes.rows())
    assert states(operator) == [("collect", "claimed"), ("poll", "overdue"), ("price", "due")]
    page = operator.get(PAGE)
    assert "All 3 Price a file 1 Cut into jobs 0 Send a job 0 Ask a provider 1 Collect results 1" in words_of(page)
    assert "429: slow down" in words_of(page)
    wanted = {
        "?queue=poll": [("poll", "overdue")],
        "?state=claimed": [("collect", "claimed")],
        "?state=unclear": [],
        "?text=openai&state=overdue": [("poll", "overdue")],
        "?text=nobody": [],
        "?queue=nothing": [],
    }
    assert {query: states(operator, query) for query in wanted} == wanted
    assert operator.get(poll_url_of_region(operator), headers=LIST).status_code == 204


def test_scheduled_tasks_stand_with_their_last_run(operator: Client, clock: Clock) -> None:
    runs = TaskRuns()
    runs.note("billing.sweep_exports", took_ms=1_250)
    clock.advance(minutes=4)
    runs.note("routing.sweep_files", took_ms=3, error=OSError())
    runs.note("routing.sweep_orphans", took_ms=4)
    page = operator.get(PAGE)
    words = {task["name"]: task["word"] for task in page.context["tasks"]}
    assert {name: word for name, word in words.items() if word != "Not yet"} == {
        "billing.sweep_exports": "Late",
        "routing.sweep_files": "Failed",
        "routing.sweep_orphans": "Done",
    }
    assert "Remove exports whose time is over billing.sweep_exports Late 1 min" in words_of(page)
    assert "1,250 ms" in words_of(page)


def poll_url_of_region(operator: Client) -> str:
    return poll_url_of(operator.get(PAGE, headers=LIST)).replace("&amp;", "&")


def test_a_job_that_waits_is_looked_at_now_and_one_at_work_is_left_alone(
    operator: Client, tenant: Tenant, simulator: RunningSimulator
) -> None:
    at = the_clock.now()
    scenes.accepted(tenant)
    do_due_steps()
    job = ProviderJob.objects.get()
    ProviderJob.objects.update(due_at=at + timedelta(minutes=10))
    answer = operator.post(f"{PAGE}{job.token}/look/", {"back": f"{PAGE}?queue=poll"})
    assert answer["Location"] == f"{PAGE}?queue=poll"
    job.refresh_from_db()
    assert job.due_at is not None
    assert job.due_at <= the_clock.now()
    assert AuditEntry.objects.get(action="job.looked_at").object_id == job.token
    ProviderJob.objects.update(due_at=at + timedelta(minutes=10), lease_until=at + timedelta(minutes=1))
    page = operator.post(f"{PAGE}{job.token}/look/", {"back": "https://elsewhere.example/"}, follow=True)
    assert "A worker has this job right now." in words_of(page)
    job.refresh_from_db()
    assert job.due_at == at + timedelta(minutes=10)
    assert operator.post(f"{PAGE}no-such-token/look/").status_code == 404


def test_all_polls_of_the_filters_are_asked_for_at_once(
    operator: Client, tenant: Tenant, simulator: RunningSimulator
) -> None:
    at = the_clock.now()
    scenes.accepted(tenant, "gpt-4o-mini", "gpt-4o")
    do_due_steps()
    first, second = ProviderJob.objects.order_by("pk")
    late, soon = at - timedelta(minutes=9), at + timedelta(minutes=10)
    ProviderJob.objects.filter(pk=first.pk).update(due_at=late, state="running")
    ProviderJob.objects.filter(pk=second.pk).update(due_at=soon, state="running")
    assert "2 jobs at providers wait to be asked about. Ask about all now" in words_of(operator.get(PAGE))
    assert operator.post(f"{PAGE}look/", {"state": "overdue", "queue": "poll"})["Location"].endswith(
        "?state=overdue&queue=poll"
    )
    dues = list(ProviderJob.objects.order_by("pk").values_list("due_at", flat=True))
    assert dues == [late, soon]
    page = operator.post(f"{PAGE}look/", {"text": "openai"}, follow=True)
    assert "2 polls will be done by the next free workers." in words_of(page)
    first.refresh_from_db()
    second.refresh_from_db()
    assert second.due_at is not None
    assert (first.due_at, second.due_at < soon) == (late, True)
    assert [entry.object_id for entry in AuditEntry.objects.filter(action="job.looked_at").order_by("pk")] == [
        "1 polls",
        "2 polls",
    ]
    assert operator.post(f"{PAGE}look/", {"state": "no such"}).status_code == 404


def test_every_scheduled_task_is_said_in_words() -> None:
    assert set(settings.TASK_SECONDS_BETWEEN) == set(TASK_WORDS)


def test_support_reads_and_does_not_act(tenant: Tenant, simulator: RunningSimulator, db: None) -> None:
    support = signed_in(scenes.staff(StaffRole.SUPPORT, name="Sue Support"))
    scenes.accepted(tenant)
    do_due_steps()
    assert "Look now" not in html_of(support.get(PAGE))
    assert support.post(f"{PAGE}{ProviderJob.objects.get().token}/look/").status_code == 403
