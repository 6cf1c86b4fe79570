"""A low balance is told of once a crossing, by mail and by event."""

from __future__ import annotations

import json

import pytest
from django.core import mail

from accounts.models import MemberRole, Organisation, User
from billing.alerts.models import BalanceAlert
from billing.alerts.services import mail_next_crossing, rearm_alerts, set_alert, tell_next_crossing
from billing.services.holds import void_hold
from billing.services.wallets import record_top_up
from billing.tasks import tell_low_balances
from tests.billing.kit import AT, at_once, hold, make_organisation
from tests.harness.clock import Clock
from tests.routing.pages.conftest import signed_in
from tests.routing.pages.scenes import member
from webhooks.models import Event


@pytest.fixture
def organisation(clock: Clock) -> Organisation:
    clock.freeze(AT)
    return make_organisation(money=1_000)


@pytest.fixture
def admin(organisation: Organisation) -> User:
    member(organisation, MemberRole.VIEWER, name="Vera Viewer")
    member(organisation, MemberRole.BILLING, name="Bill Billing")
    return member(organisation)


def told() -> tuple[int, int]:
    tell_low_balances()
    return Event.objects.filter(type="wallet.balance_low").count(), len(mail.outbox)


def test_each_crossing_is_told_of_once_and_armed_again_by_coming_back(organisation: Organisation, admin: User) -> None:
    set_alert(organisation, 600, admin)
    assert told() == (0, 0)
    hold(organisation, "batch_1", a=400)
    assert told() == (0, 0)
    hold(organisation, "batch_2", a=1)
    assert told() == told() == (1, 2)
    assert {address for sent in mail.outbox for address in sent.to} == {"bill@example.com", "casey@example.com"}
    assert "0.000599 USD available" in mail.outbox[0].body
    event = json.loads(bytes(Event.objects.get().payload))
    assert event["data"] == {
        "id": organisation.public_id,
        "available_micro_usd": 599,
        "below_micro_usd": 600,
        "crossing": 1,
    }
    hold(organisation, "batch_3", a=100)
    assert told() == (1, 2)
    void_hold(organisation, "batch_1", "a")
    assert told() == (1, 2)
    hold(organisation, "batch_4", a=400)
    assert told() == (2, 4)
    record_top_up(organisation, reference="wire", amount_micro_usd=5_000, effective_at=AT, recorded_by=None)
    set_alert(organisation, None, admin)
    hold(organisation, "batch_5", a=5_000)
    assert told() == (2, 4)


def test_many_sweeps_at_once_tell_once_and_a_mail_that_failed_is_sent_later(
    organisation: Organisation, admin: User, clock: Clock, settings: pytest.FixtureRequest
) -> None:
    set_alert(organisation, 2_000, admin)
    assert sorted(map(bool, at_once(4, lambda _n: tell_next_crossing()))) == [False, False, False, True]
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"  # type: ignore[attr-defined]
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9  # type: ignore[attr-defined]
    assert mail_next_crossing() is True
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"  # type: ignore[attr-defined]
    assert mail_next_crossing() is False
    clock.advance(minutes=5)
    assert (mail_next_crossing(), mail_next_crossing(), len(mail.outbox)) == (True, False, 2)
    rearm_alerts()
    assert tell_next_crossing() is False


def test_the_threshold_is_set_on_the_wallet_page(organisation: Organisation, admin: User) -> None:
    client = signed_in(admin)
    assert client.post("/app/wallet/alert/", {"below_micro_usd": "12.50"}).status_code == 302
    assert BalanceAlert.objects.get().below_micro_usd == 12_500_000
    assert client.post("/app/wallet/alert/", {"below_micro_usd": "0"}).status_code == 422
    assert client.post("/app/wallet/alert/", {"below_micro_usd": ""}).status_code == 302
    assert not BalanceAlert.objects.exists()
