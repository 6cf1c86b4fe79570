"""The accuracy boards, and an operator's decision about what was learned."""

from __future__ import annotations

from django.test import Client

from routing.models import LearnedState
from routing.services.learning import learn_from_next_batch
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages import scenes
from tests.routing.pages.conftest import signed_in, words_of


def test_boards_and_decisions(tenant: Tenant, simulator: RunningSimulator, clock: Clock, customer: Client) -> None:
    scenes.finished(scenes.accepted(tenant, "gpt-4o", count=60), simulator, clock)
    assert learn_from_next_batch()
    operator = signed_in(scenes.staff())
    assert "gpt-4o 60 1 batch" in words_of(operator.get("/ops/accuracy/"))
    own = words_of(customer.get("/app/accuracy/"))
    assert "gpt-4o 60 1 batch" in own
    assert "Learned" not in own
    stranger = signed_in(scenes.member(make_tenant("other").organisation, name="Sam"))
    assert "No batch of yours settled" in words_of(stranger.get("/app/accuracy/"))
    assert customer.get("/ops/accuracy/gpt-4o/").status_code == 404
    assert operator.get("/ops/accuracy/gpt-3/").status_code == 404
    refused = operator.post("/ops/accuracy/gpt-4o/", {"choice": "back", "reason": "poisoned rows"})
    assert refused.status_code == 422
    assert "Choose the version to go back to." in words_of(refused)
    support = signed_in(scenes.staff("support", name="Sue"))
    support.post("/ops/accuracy/gpt-4o/", {"choice": "off", "reason": "not mine to say"})
    assert LearnedState.objects.get(organisation=None).is_on
    done = operator.post("/ops/accuracy/gpt-4o/", {"choice": "off", "reason": "poisoned rows"}, follow=True)
    assert "poisoned rows" in words_of(done)
    assert not LearnedState.objects.get(organisation=None).is_on
