"""Pages around a batch: its results, its cancel, and what operators see of it."""

from __future__ import annotations

from collections.abc import Mapping

from playwright.sync_api import Page, expect

from ground import clock
from routing.models import Batch, ProviderJob
from tests.browser.cases import PageCase, Role, World
from tests.harness.world import do_due_steps
from tests.routing.pages import scenes

_LIST, _ALL = "/app/batches/", "/ops/batches/"
_OF_WRITERS: Mapping[Role, int] = {"nobody": 302, "viewer": 403, "stranger": 404, "operator": 404}
_OF_STAFF: Mapping[Role, int] = {"nobody": 302, "admin": 404, "support": 200}


def submitted(world: World, name: str = "submitted") -> Batch:
    """A batch of which a provider works on 60 requests of each of two models."""
    batch = world.accepted("gpt-4o-mini", "gpt-4o", count=60, name=name)
    do_due_steps()
    batch.refresh_from_db()
    return batch


def let_it_end(world: World) -> None:
    """Let the providers and the engine come to the end of everything."""
    for _ in range(6):
        do_due_steps()
        world.simulator.control.advance(60)
        world.clock.advance(seconds=61)


def with_moved_work(world: World) -> Batch:
    """A batch of which a lane gave twenty rows away after its provider refused them."""
    batch = submitted(world, "moved")
    scenes.running(batch, completed=31, failed=2, reported=5)
    joined = scenes.with_second_lane(batch, rows_there=20)
    job = ProviderJob.objects.filter(batch=batch, sub_lane__number=0).get()
    ProviderJob.objects.filter(pk=job.pk).update(
        state="collected", ending="failed", fault="quota_exceeded", last_error="429: too many enqueued tokens",
        try_count=3, polled_at=clock.now(), due_at=None,
    )  # fmt: skip
    origin = job.pk
    job.pk = None
    job.sub_lane, job.token, job.attempt_number = joined, f"{job.token[:-5]}moved", 2
    job.row_count, job.moved_from_id, job.due_at = 20, origin, None
    job.save(force_insert=True)
    return batch


def _filtered(world: World) -> str:
    world.finished(world.accepted(name="of-yesterday"))
    return f"{_LIST}?state=completed&text=yesterday&model=mini"


def _all(world: World) -> str:
    world.finished(world.accepted(name="of-yesterday"))
    with_moved_work(world)
    scenes.waiting(world.accepted("gpt-4o-mini", "gpt-4o", name=""))
    scenes.ended_without_run(world.accepted(name=scenes.LONG_NAME), "failed")
    late = world.accepted(name="late")
    scenes.in_state(late, "in_progress", created_at=late.created_at, expires_at=late.created_at)
    return _ALL


def _open_cancel(page: Page) -> None:
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel the batch")).to_be_visible()


def unclear(world: World) -> ProviderJob:
    """A job of which nobody can tell whether it was sent, and two at the provider that may be it."""
    return scenes.unclear(world.accepted(name="unclear"), "msgbatch_01AbCdEfGhJkMnPqRsTuVwXy", "msgbatch_02AbCdEfGhJk")


def _all_with_an_unclear_job(world: World) -> str:
    unclear(world)
    return _ALL


def _some_jobs(world: World) -> str:
    with_moved_work(world)
    world.accepted(name="to be cut")
    unclear(world)
    return "/ops/jobs/"


def _open_decision(page: Page) -> None:
    page.get_by_role("link", name="Decide").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Decide")).to_be_visible()


def _results(batch: Batch) -> str:
    return f"{_LIST}{batch.public_id}/results"


def _requests(world: World, tail: str = "") -> str:
    world.simulator.control.add_fault("row_error", contains="number 3", status_code=400, code="invalid_request")
    return f"{_LIST}{world.finished(world.accepted('gpt-4o-mini', 'gpt-4o', count=40)).public_id}/requests{tail}"


OF_BATCHES = (
    PageCase(
        name="requests of a batch",
        url_name="routing:batch-requests",
        seen_by="admin",
        make=_requests,
        others=_OF_WRITERS,
    ),
    PageCase(
        name="failed requests",
        url_name="routing:batch-requests",
        seen_by="admin",
        make=lambda world: _requests(world, "?outcome=failed&code=provider_error&custom_id=mini"),
    ),
    PageCase(
        name="request",
        url_name="routing:batch-request",
        seen_by="admin",
        make=lambda world: _requests(world, "/1"),
        others=_OF_WRITERS,
    ),
    PageCase(
        name="request that failed",
        url_name="routing:batch-request",
        seen_by="admin",
        make=lambda world: _requests(world, "/3"),
    ),
    PageCase(name="filtered batches", url_name="routing:batch-list", seen_by="admin", make=_filtered),
    PageCase(
        name="results to come",
        url_name="routing:batch-results",
        seen_by="admin",
        make=lambda world: _results(submitted(world)),
        others=_OF_WRITERS,
    ),
    PageCase(
        name="results",
        url_name="routing:batch-results",
        seen_by="admin",
        make=lambda world: _results(world.finished(world.accepted(name="with results"))),
    ),
    PageCase(
        name="cancel a batch",
        url_name="routing:batch-cancel",
        seen_by="admin",
        make=lambda world: f"{_LIST}{submitted(world).public_id}/cancel/",
        others=_OF_WRITERS,
    ),
    PageCase(
        name="batch, cancelling it",
        url_name="routing:batch-detail",
        seen_by="admin",
        make=lambda world: f"{_LIST}{submitted(world).public_id}/",
        act=_open_cancel,
    ),
    PageCase(
        name="no batches of anybody",
        url_name="routing:any-batch-list",
        seen_by="operator",
        make=lambda _world: _ALL,
        others=_OF_STAFF,
    ),
    PageCase(name="batches of all", url_name="routing:any-batch-list", seen_by="operator", make=_all),
    PageCase(
        name="any batch, running",
        url_name="routing:any-batch-detail",
        seen_by="operator",
        make=lambda world: f"{_ALL}{with_moved_work(world).public_id}/",
        others=_OF_STAFF,
    ),
    PageCase(
        name="any batch, completed",
        url_name="routing:any-batch-detail",
        seen_by="support",
        make=lambda world: f"{_ALL}{world.finished(world.accepted('gpt-4o-mini', 'gpt-4o')).public_id}/",
    ),
    PageCase(
        name="cancel any batch",
        url_name="routing:any-batch-cancel",
        seen_by="operator",
        make=lambda world: f"{_ALL}{submitted(world).public_id}/cancel/",
        others={**_OF_STAFF, "support": 403},
    ),
    PageCase(
        name="batches of all, a job unclear",
        url_name="routing:any-batch-list",
        seen_by="operator",
        make=_all_with_an_unclear_job,
    ),
    PageCase(
        name="jobs",
        url_name="routing:engine-list",
        seen_by="operator",
        make=_some_jobs,
        others=_OF_STAFF,
    ),
    PageCase(
        name="no jobs",
        url_name="routing:engine-list",
        seen_by="operator",
        make=lambda _world: "/ops/jobs/?state=unclear",
    ),
    PageCase(
        name="unclear job",
        url_name="routing:unclear-job-decide",
        seen_by="operator",
        make=lambda world: f"/ops/jobs/{unclear(world).token}/decide/",
        others={**_OF_STAFF, "support": 403},
    ),
    PageCase(
        name="move a job",
        url_name="routing:job-move",
        seen_by="operator",
        make=lambda world: f"/ops/jobs/{unclear(world).token}/move/",
        others={**_OF_STAFF, "support": 403, "finance": 403},
    ),
    PageCase(
        name="provider accounts",
        url_name="routing:provider-account-list",
        seen_by="operator",
        make=lambda _world: "/ops/accounts/",
        others={**_OF_STAFF, "finance": 403},
    ),
    PageCase(
        name="secret of notices",
        url_name="routing:notice-secret",
        seen_by="operator",
        make=lambda _world: "/ops/accounts/openai/customer/notices/",
        others={**_OF_STAFF, "support": 403},
    ),
    PageCase(
        name="any batch, a job unclear",
        url_name="routing:any-batch-detail",
        seen_by="operator",
        make=lambda world: f"{_ALL}{unclear(world).batch.public_id}/",
        act=_open_decision,
    ),
)
