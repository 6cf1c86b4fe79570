"""The audit log: one entry a deed, with its hand; never changed; to each reader what is theirs."""

from __future__ import annotations

import csv
import io

import psycopg
import pytest
from django.db import transaction
from django.http import HttpResponseBase, StreamingHttpResponse
from django.test import Client

from accounts.audit import record
from accounts.models import AuditEntry, StaffRole
from accounts.services.organisations import create_api_key
from billing.services.wallets import record_top_up
from catalog.domain.records import Rotation
from catalog.services.rotation import rotate_lane
from ground import clock as product_clock
from tests.billing.kit import broken_rule
from tests.harness.world import Tenant, make_tenant
from tests.routing.pages.conftest import html_of, signed_in, words_of
from tests.routing.pages.scenes import member, staff

LANE = "gpt-4o/openai-direct"


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


def csv_of(answer: HttpResponseBase) -> list[dict[str, str]]:
    assert isinstance(answer, StreamingHttpResponse)
    content = b"".join(answer.streaming_content)  # type: ignore[arg-type]
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_each_deed_on_a_page_or_by_a_key_is_written_with_its_hand(tenant: Tenant) -> None:
    operator, admin = staff(), member(tenant.organisation)
    client = signed_in(admin)
    program = Client(headers=tenant.headers)
    deeds: tuple[tuple[Client, str, dict[str, object]], ...] = (
        (signed_in(operator), f"/ops/lanes/{LANE}/rotate/", {"rotation": "drain", "reason": "errors rise"}),
        (client, "/app/keys/new/", {"name": "Nightly", "kind": "live", "scopes": ["read"], "lifetime_days": "never"}),
        (client, f"/app/keys/{tenant.api_key.public_id}/revoke/", {}),
        (
            client,
            "/app/webhooks/new/",
            {"url": "https://hooks.example.com/x?token=hush", "name": "", "event_types": []},
        ),
    )
    api = program.post("/v1/workflows", {"name": "cheap"}, "application/json", headers={"x-request-id": "req-api"})
    assert api.status_code in {200, 201}, api.content
    changed = program.patch("/v1/workflows/cheap", {"fan_out": False}, "application/json")
    assert changed.status_code == 200, changed.content
    begun = AuditEntry.objects.count()
    for number, (each, path, form) in enumerate(deeds):
        assert each.post(path, form, headers={"x-request-id": f"req-{number}"}).status_code in {200, 302}
    entries = list(AuditEntry.objects.order_by("pk"))
    found = [
        (entry.action, entry.actor_name, entry.actor_role, entry.object_id, entry.request_id, entry.address)
        for entry in entries[begun:]
    ]
    made = found[1][3], found[3][3]
    assert found == [
        ("lane.rotated", "Olu Operator", "operator", LANE, "req-0", "127.0.0.1"),
        ("key.created", "Casey Customer", "admin", made[0], "req-1", "127.0.0.1"),
        ("key.revoked", "Casey Customer", "admin", tenant.api_key.public_id, "req-2", "127.0.0.1"),
        ("webhook.created", "Casey Customer", "admin", made[1], "req-3", "127.0.0.1"),
    ]
    assert entries[begun].changes == {"rotation": ["in", "drain"]}
    assert entries[begun].reason == "errors rise"
    assert "hush" not in str([entry.changes for entry in entries])
    created, edited = entries[begun - 2 : begun]
    assert (created.action, created.api_key, created.actor_name) == ("workflow.created", tenant.api_key, "test")
    assert created.request_id == "req-api"
    assert (edited.action, edited.changes) == ("workflow.changed", {"fan_out": [True, False]})


def test_what_is_undone_or_changes_nothing_leaves_no_entry(tenant: Tenant) -> None:
    operator = staff()
    before = AuditEntry.objects.count()
    with transaction.atomic():
        rotate_lane("gpt-4o", "openai-direct", Rotation.OUT, "tried", operator)
        transaction.set_rollback(True)
    assert rotate_lane("gpt-4o", "openai-direct", Rotation.IN, "stands so already", operator) is False
    top_up = {"reference": "first", "amount_micro_usd": 100_000_000, "effective_at": product_clock.now()}
    assert record_top_up(tenant.organisation, recorded_by=None, **top_up).replayed  # type: ignore[arg-type]
    assert AuditEntry.objects.count() == before


def test_nobody_changes_the_log(tenant: Tenant, app_cursor: psycopg.Cursor, owner_cursor: psycopg.Cursor) -> None:
    attacks = (
        "UPDATE accounts_auditentry SET reason = ''",
        "DELETE FROM accounts_auditentry",
        "TRUNCATE accounts_auditentry",
    )
    assert {broken_rule(app_cursor, attack) for attack in attacks} == {"no privilege"}
    assert {broken_rule(owner_cursor, attack) for attack in attacks} == {"audit_log_is_append_only"}


def test_a_customer_reads_their_own_log_and_no_name_of_our_staff(tenant: Tenant) -> None:
    other = make_tenant("other")
    create_api_key(organisation=other.organisation, name="Foreign key", at=product_clock.now())
    with transaction.atomic():
        kept = record(
            "organisation.limits_set",
            object_type="organisation",
            object_id=tenant.organisation.public_id,
            organisation=tenant.organisation,
            changes={"accepts_per_minute": (60, 120)},
            reason="=asked for by mail",
            user=staff(StaffRole.FINANCE, name="Fay Finance"),
        )
    admin = signed_in(member(tenant.organisation))
    page = words_of(admin.get("/app/settings/audit/"))
    assert "accepts per minute: 60 → 120" in page
    assert "Foreign key" not in page
    assert "Fay" not in page
    assert "No entries match" in words_of(admin.get("/app/settings/audit/?text=Fay+Finance"))
    foreign = AuditEntry.objects.filter(organisation=other.organisation).latest("pk")
    assert admin.get(f"/app/settings/audit/?after={foreign.public_id}").status_code == 404
    rows = csv_of(admin.get("/app/settings/audit/csv?area=organisation"))
    assert [(row["action"], row["actor"], row["reason"], row["address"]) for row in rows] == [
        ("organisation.limits_set", "Lanehouse", "'=asked for by mail", ""),
        ("organisation.created", "Lanehouse", "", ""),
    ]
    assert rows[0]["entry_id"] == kept.public_id


def test_finance_sees_money_alone_and_filters_find_the_entry(tenant: Tenant) -> None:
    rotate_lane("gpt-4o", "openai-direct", Rotation.OUT, "maintenance", staff())
    finance = signed_in(staff(StaffRole.FINANCE, name="Fay Finance"))
    money = {row["action"] for row in csv_of(finance.get("/fin/audit/csv"))}
    assert "top_up.recorded" in money
    assert not {"lane.rotated", "key.created"} & money
    everything = csv_of(finance.get("/ops/audit/csv"))
    assert len(everything) == AuditEntry.objects.count()
    assert [row["object_id"] for row in csv_of(finance.get("/ops/audit/csv?text=maintenance"))] == [LANE]
    assert {row["actor_kind"] for row in csv_of(finance.get("/ops/audit/csv?actor_kind=system"))} == {"system"}
    assert LANE in html_of(finance.get("/ops/audit/?area=lane&customer="))
