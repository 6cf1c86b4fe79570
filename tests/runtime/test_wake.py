from __future__ import annotations

import base64
import json
import time
from typing import Any

import psycopg
from django.db import transaction

from ground.wake import Publisher, drain, wake


def messages(broker: psycopg.Connection, queue: str = "engine") -> list[dict[str, Any]]:
    drain(seconds=5)
    return [row[0] for row in broker.execute(f"SELECT message FROM pgmq.q_{queue} ORDER BY msg_id".encode())]


def test_a_wake_up_is_sent_after_commit_and_not_before(broker: psycopg.Connection) -> None:
    with transaction.atomic():
        wake("routing.submit_jobs")
        assert messages(broker) == []
    assert [message["headers"]["task"] for message in messages(broker)] == ["routing.submit_jobs"]


def test_a_rolled_back_transaction_wakes_nobody(broker: psycopg.Connection) -> None:
    with transaction.atomic():
        wake("routing.submit_jobs")
        transaction.set_rollback(True)
    assert messages(broker) == []


def test_a_wake_up_has_no_content(broker: psycopg.Connection) -> None:
    wake("routing.submit_jobs")
    (message,) = messages(broker)
    arguments, keywords, embedded = json.loads(base64.b64decode(message["body"]))
    assert (arguments, keywords) == ([], {})
    assert set(embedded.values()) == {None}
    assert set(message["headers"]) == {
        *("lang", "task", "id", "root_id", "parent_id", "group"),
        *("expires", "retries", "timelimit", "ignore_result"),
    }


def test_the_same_step_asked_for_many_times_before_it_is_sent_is_sent_a_few_times(broker: psycopg.Connection) -> None:
    for _ in range(1_000):
        wake("routing.submit_jobs")
    assert 1 <= len(messages(broker)) < 200


def test_deliveries_have_a_queue_of_their_own(broker: psycopg.Connection) -> None:
    wake("webhooks.deliver_due")
    assert messages(broker, "engine") == []
    assert len(messages(broker, "deliveries")) == 1


def test_no_queue_is_declared_by_publishing(broker: psycopg.Connection, settings: Any) -> None:
    before = broker.execute("SELECT array_agg(queue_name ORDER BY queue_name) FROM pgmq.meta").fetchone()
    settings.CELERY_TASK_ROUTES = {"stray": {"queue": "nowhere"}}
    publisher = Publisher()
    assert publisher.publish("stray") is False
    publisher.close()
    assert broker.execute("SELECT array_agg(queue_name ORDER BY queue_name) FROM pgmq.meta").fetchone() == before


def test_a_broker_that_is_away_costs_the_caller_nothing(db: None, settings: Any) -> None:
    settings.CELERY_BROKER_URL = "amqp://guest:guest@127.0.0.1:9//"
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {}
    with transaction.atomic():
        wake("routing.submit_jobs")
        begun = time.perf_counter()
    assert time.perf_counter() - begun < 0.25
    drain(seconds=5)


def test_a_broker_that_is_away_is_left_alone_for_a_while(db: None, settings: Any) -> None:
    settings.CELERY_BROKER_URL = "amqp://guest:guest@127.0.0.1:9//"
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {}
    publisher = Publisher()
    assert publisher.publish("routing.submit_jobs") is False
    begun = time.perf_counter()
    assert publisher.publish("routing.submit_jobs") is False
    assert time.perf_counter() - begun < 0.01


def test_with_the_broker_switched_off_nothing_is_sent(broker: psycopg.Connection, settings: Any) -> None:
    settings.CELERY_BROKER_URL = ""
    wake("routing.submit_jobs")
    assert messages(broker) == []


def test_the_brokers_objects_belong_to_the_brokers_role(broker: psycopg.Connection) -> None:
    owners = broker.execute(
        "SELECT array_agg(DISTINCT relowner::regrole::text) FROM pg_class WHERE relnamespace = 'pgmq'::regnamespace"
    ).fetchone()
    assert owners == (["lanehouse_broker"],)
    assert broker.execute(
        "SELECT has_database_privilege('lanehouse_broker', current_database(), 'CREATE')"
    ).fetchone() == (False,)
