"""Publishing: with the fact or not at all, once, frozen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connections, transaction

from accounts.models import Organisation
from ground import clock as ground_clock
from ground.ids import new_public_id
from tests.webhooks.kit import BODY, make_endpoint, make_organisation, publish, the_delivery
from webhooks.domain.records import PAYLOAD_MAX_BYTES
from webhooks.models import Delivery, Event
from webhooks.selectors import endpoints_of
from webhooks.services.deliveries import claim_due
from webhooks.services.endpoints import delete_endpoint, update_endpoint

URL = "https://hooks.example.com/"


def receivers_of(event: Event) -> set[str]:
    return set(Delivery.objects.filter(event=event).values_list("endpoint__public_id", flat=True))


def test_each_subscribed_and_enabled_endpoint_gets_a_delivery_and_no_other(organisation: Organisation) -> None:
    every, _ = make_endpoint(organisation, URL)
    subscribed, _ = make_endpoint(organisation, URL, event_types=("batch.failed", "batch.completed"))
    make_endpoint(organisation, URL, event_types=("batch.failed",))
    disabled, _ = make_endpoint(organisation, URL)
    update_endpoint(organisation, disabled.public_id, is_enabled=False)
    deleted, _ = make_endpoint(organisation, URL)
    delete_endpoint(organisation, deleted.public_id)
    make_endpoint(make_organisation(), URL)
    assert receivers_of(publish(organisation)) == {every.public_id, subscribed.public_id}
    assert endpoints_of(organisation, subscribed_to="batch.completed") == [every, subscribed]


def test_a_filter_narrows_the_subscribed_ones(organisation: Organisation) -> None:
    wanted, _ = make_endpoint(organisation, URL)
    make_endpoint(organisation, URL)
    not_subscribed, _ = make_endpoint(organisation, URL, event_types=("batch.failed",))
    assert receivers_of(publish(organisation, endpoint_filter=[wanted, not_subscribed])) == {wanted.public_id}
    assert receivers_of(publish(organisation, endpoint_filter=[])) == set()


def test_a_fact_told_twice_is_one_event_with_its_first_bytes(organisation: Organisation) -> None:
    make_endpoint(organisation, URL)
    first = publish(organisation, key="batch_1 completed")
    again = publish(organisation, key="batch_1 completed", payload=b'{"later":true}')
    assert again == first
    assert bytes(again.payload) == BODY
    assert Delivery.objects.count() == 1
    assert publish(make_organisation(), key="batch_1 completed") != first


def test_a_fact_told_by_many_at_once_is_one_event(organisation: Organisation) -> None:
    make_endpoint(organisation, URL)

    def tell(_number: int) -> str:
        try:
            return publish(organisation, key="one").public_id
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(tell, range(8)))) == 1
    assert (Event.objects.count(), Delivery.objects.count()) == (1, 1)


def test_nothing_is_published_when_the_fact_is_rolled_back(organisation: Organisation) -> None:
    make_endpoint(organisation, URL)

    def fail() -> None:
        with transaction.atomic():
            publish(organisation)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (Event.objects.count(), claim_due(1)) == (0, [])


def test_the_caller_may_choose_the_id_that_stands_in_its_payload(organisation: Organisation) -> None:
    event_id = new_public_id("evt_", ground_clock.now())
    assert publish(organisation, public_id=event_id).public_id == event_id


def test_a_payload_has_a_limit_that_the_database_keeps_too(organisation: Organisation) -> None:
    assert bytes(publish(organisation, payload=b"x" * PAYLOAD_MAX_BYTES).payload) == b"x" * PAYLOAD_MAX_BYTES
    with pytest.raises(AssertionError):
        publish(organisation, payload=b"x" * (PAYLOAD_MAX_BYTES + 1))


def test_an_endpoint_deleted_while_an_event_is_published_gets_nothing(organisation: Organisation) -> None:
    endpoint, _ = make_endpoint(organisation, URL)

    def delete() -> None:
        try:
            delete_endpoint(organisation, endpoint.public_id)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            event = publish(organisation)
            deleted = pool.submit(delete)
            assert not deleted.done()
        deleted.result(30)
    assert the_delivery(event).state_reason == "endpoint_deleted"
    assert claim_due(1) == []


def test_an_event_is_never_edited(organisation: Organisation, owner_cursor: psycopg.Cursor) -> None:
    publish(organisation)
    with pytest.raises(psycopg.errors.RestrictViolation):
        owner_cursor.execute("UPDATE webhooks_event SET payload = '{}'")


@pytest.mark.parametrize(
    "change", ["UPDATE webhooks_deliveryattempt SET number = 2", "DELETE FROM webhooks_deliveryattempt"]
)
def test_the_log_is_only_added_to(
    organisation: Organisation, owner_cursor: psycopg.Cursor, app_cursor: psycopg.Cursor, change: str
) -> None:
    make_endpoint(organisation, URL)
    publish(organisation)
    owner_cursor.execute(
        "INSERT INTO webhooks_deliveryattempt SELECT id, 1, now(), 'auto', '', 'timeout', '', 1, NULL, '', '', '', 1"
        " FROM webhooks_delivery"
    )
    with pytest.raises(psycopg.errors.RestrictViolation):
        owner_cursor.execute(change)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app_cursor.execute(change)


@pytest.mark.parametrize(
    ("at", "months"),
    [
        ("2031-11-30 23:59:59Z", ["y2031m11", "y2031m12", "y2032m01"]),
        ("2032-01-31 12:00:00Z", ["y2032m01", "y2032m02", "y2032m03"]),
    ],
)
def test_the_log_is_kept_by_month(owner_cursor: psycopg.Cursor, at: str, months: list[str]) -> None:
    """Whatever today is: the month of an instant and the next two have a partition each, beside the default one."""
    with owner_cursor.connection.transaction(force_rollback=True):
        owner_cursor.execute("SELECT lanehouse_ensure_month_partitions('webhooks_deliveryattempt', %s)", [at])
        owner_cursor.execute(
            "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
            " WHERE inhparent = 'webhooks_deliveryattempt'::regclass AND relname ~ '_(y203[12]m..|default)$'"
            " ORDER BY relname"
        )
        found = [name.removeprefix("webhooks_deliveryattempt_") for (name,) in owner_cursor.fetchall()]
    assert found == ["default", *months]


@pytest.mark.parametrize(
    ("change", "constraint"),
    [
        ("UPDATE webhooks_delivery SET due_at = NULL", "delivery_is_due_while_pending_or_asked_for_again"),
        ("UPDATE webhooks_delivery SET state = 'delivered'", "delivery_is_due_while_pending_or_asked_for_again"),
        ("UPDATE webhooks_delivery SET state = 'lost', due_at = NULL", "delivery_state_is_known"),
        ("UPDATE webhooks_delivery SET resumes_at = now()", "delivery_resumes_after_a_resend"),
        ("UPDATE webhooks_endpoint SET state = 'disabled'", "endpoint_disabled_has_a_reason"),
        ("UPDATE webhooks_endpoint SET previous_secret = 'x'", "endpoint_previous_secret_has_an_end"),
        ("UPDATE webhooks_endpoint SET failing_since = now()", "endpoint_failing_has_a_beginning"),
    ],
)
def test_the_database_keeps_the_rules(
    organisation: Organisation, app_cursor: psycopg.Cursor, change: str, constraint: str
) -> None:
    make_endpoint(organisation, URL)
    publish(organisation)
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        app_cursor.execute(change.encode())
    assert refusal.value.diag.constraint_name == constraint
