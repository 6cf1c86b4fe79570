"""Batches in every state a page may meet: by the real way where there is one, else by their columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client

from accounts.models import MemberRole, Organisation, StaffRole, User
from accounts.services.organisations import add_member
from billing.domain.records import SettlementRequest
from billing.services.settlement import settle_batch
from ground import clock
from routing.models import Batch, JobState, ProviderJob, RowOutcome, SubLane
from routing.services.sub_lanes import follow_jobs
from simulators.running import RunningSimulator
from tests.harness.clock import Clock
from tests.harness.world import Tenant, do_due_steps

PASSWORD = "correct horse battery"
LONG_NAME = "quarterly-" + "re-classification-of-all-support-tickets-" * 3 + "2026"


def member(organisation: Organisation, role: str = MemberRole.ADMIN, name: str = "Casey Customer") -> User:
    user = User.objects.create_user(
        email=f"{name.split(maxsplit=1)[0].lower()}@example.com", password=PASSWORD, name=name, created_at=clock.now()
    )
    add_member(organisation=organisation, user=user, role=role, at=clock.now())
    return user


def staff(role: str = StaffRole.OPERATOR, name: str = "Olu Operator") -> User:
    return User.objects.create_user(
        email=f"{name.split(maxsplit=1)[0].lower()}@lanehouse.example",
        password=PASSWORD,
        name=name,
        staff_role=role,
        created_at=clock.now(),
    )


def rows(*models: str, count: int = 10) -> bytes:
    """``count`` rows for each of the models."""
    lines = [
        {
            "custom_id": f"{model}-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {
                "model": model,
                "messages": [{"role": "user", "content": f"Name river number {number}."}],
                "max_tokens": 20,
            },
        }
        for model in models or ("gpt-4o-mini",)
        for number in range(count)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def accepted(tenant: Tenant, *models: str, count: int = 10, name: str = "nightly-classify-1129") -> Batch:
    """A batch that was just accepted: its sub-lanes are queued."""
    client = Client()
    quote = client.post(
        "/v1/quotes/model", rows(*models, count=count), content_type="application/jsonl", headers=tenant.headers
    ).json()
    metadata = {"name": name} if name else None
    answer = client.post(
        "/v1/batches",
        {"quote_id": quote["id"], "metadata": metadata},
        content_type="application/json",
        headers=tenant.headers,
    )
    assert answer.status_code == 200, answer.content
    return Batch.objects.get(public_id=answer.json()["id"])


def file_sent(tenant: Tenant, content: bytes) -> str:
    """The id of an uploaded file."""
    form = {"purpose": "batch", "file": SimpleUploadedFile("rows.jsonl", content)}
    answer = Client().post("/v1/files", form, headers=tenant.headers)
    assert answer.status_code == 200, answer.content
    file_id: str = answer.json()["id"]
    return file_id


def validating(tenant: Tenant, content: bytes) -> Batch:
    """A batch whose file is not priced yet."""
    answer = Client().post(
        "/v1/batches",
        {
            "input_file_id": file_sent(tenant, content),
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        },
        content_type="application/json",
        headers=tenant.headers,
    )
    assert answer.status_code == 200, answer.content
    return Batch.objects.get(public_id=answer.json()["id"])


def pending_quote(tenant: Tenant, content: bytes) -> str:
    """The id of a quote whose file is not priced yet."""
    answer = Client().post(
        "/v1/quotes/model",
        {"input_file_id": file_sent(tenant, content)},
        content_type="application/json",
        headers=tenant.headers,
    )
    assert answer.status_code == 202, answer.content
    quote_id: str = answer.json()["id"]
    return quote_id


def finished(batch: Batch, simulator: RunningSimulator, clock: Clock) -> Batch:
    """The same batch after the provider and the engine have done all."""
    simulator.control.advance(3_600)
    for _ in range(6):
        do_due_steps()
        simulator.control.advance(60)
        clock.advance(seconds=61)
    batch.refresh_from_db()
    assert batch.status == "completed"
    return batch


def running(batch: Batch, *, completed: int, failed: int, reported: int = 0, age_minutes: int = 20) -> Batch:
    """The batch in the middle: so many rows collected on its first sub-lane, 1,234,567 pico-USD a good one."""
    RowOutcome.objects.bulk_create(
        RowOutcome(
            accepted_at=batch.created_at,
            batch_id=batch.pk,
            row=row,
            outcome="succeeded" if row < completed else "failed",
            code="" if row < completed else "provider_error",
            status_code=200,
            sub_lane_id=batch.sub_lanes.get(number=0).pk,
            group_index=0,
            attempt_number=1,
            re_dispatch_count=0,
            charge_pico_usd=1_234_567 if row < completed else 0,
            **dict.fromkeys(_NO_TOKENS, 0),
        )
        for row in range(completed + failed)
    )
    batch.sub_lanes.filter(number=0).update(
        state="running",
        completed_count=completed,
        failed_count=failed,
        reported_count=completed + failed + reported if reported else 0,
        due_at=None,
    )
    return in_state(batch, "in_progress", completed_count=completed, failed_count=failed, due_at=None)


def unclear(batch: Batch, *candidates: str) -> ProviderJob:
    """The job of a batch, sent half an hour ago: people are asked whether it arrived; the candidates' counts fit."""
    do_due_steps()
    job = ProviderJob.objects.get(batch=batch)
    at = clock.now()
    ProviderJob.objects.filter(pk=job.pk).update(
        state=JobState.UNKNOWN,
        batch_ref="",
        submitting_at=at - timedelta(minutes=30),
        submitted_at=None,
        polled_at=None,
        unclear_since=at - timedelta(minutes=20),
        candidates=[
            {"batch_ref": ref, "row_count": job.row_count, "created_at": int(at.timestamp()) - 1_790}
            for ref in candidates
        ],
        last_error=f"submit_is_unclear: {len(candidates)} jobs at the provider may be this one",
        due_at=at + timedelta(hours=1),
    )
    with transaction.atomic():
        follow_jobs(job.sub_lane_id)
    job.refresh_from_db()
    return job


_NO_TOKENS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "output_tokens",
    "reasoning_tokens",
    "body_offset",
    "body_length",
)


def in_state(batch: Batch, status: str, **columns: object) -> Batch:
    """The batch with these columns; the engine leaves it alone."""
    Batch.objects.filter(pk=batch.pk).update(status=status, **{"due_at": None, **columns})
    batch.refresh_from_db()
    return batch


def ended_without_run(batch: Batch, status: str) -> Batch:
    """A batch that failed, expired or was cancelled before a row ran; what was charged is nothing."""
    at = batch.created_at + timedelta(hours=1)
    columns: dict[str, object] = {f"{status}_at": at}
    if status != "failed":
        receipt = settle_batch(
            SettlementRequest(
                organisation_id=batch.organisation_id,
                batch_public_id=batch.public_id,
                settled_at=at,
                groups=(),
                fees=(),
                ceiling_micro_usd=batch.ceiling_micro_usd,
                quoted_fee_micro_usd=20_000,
                estimate_total_micro_usd=batch.total_estimate_micro_usd,
                provider_costs=(),
            )
        )
        columns |= {"failed_count": batch.row_count, "charge_micro_usd": 0, "receipt_id": receipt.public_id}
    batch.sub_lanes.update(state=status, ended_at=at, due_at=None)
    return in_state(batch, status, **columns)


def waiting(batch: Batch) -> Batch:
    """The batch whose lane is full."""
    batch.sub_lanes.update(state="waiting", reason="enqueued_tokens_limit", due_at=None)
    return batch


def with_second_lane(batch: Batch, *, rows_there: int) -> SubLane:
    """A lane that joined later and took rows over."""
    first = batch.sub_lanes.get(number=0)
    first.row_count -= rows_there
    first.moved_out_count = rows_there
    first.save(update_fields=["row_count", "moved_out_count"])
    return SubLane.objects.create(
        batch=batch,
        number=batch.sub_lanes.count(),
        group_index=0,
        lane_id="openai-eu",
        model_slug=first.model_slug,
        provider="openai",
        region="eu",
        model_id=first.model_id,
        model_snapshot=first.model_snapshot,
        is_quoted=False,
        state="running",
        row_count=rows_there,
        re_dispatched_count=rows_there,
        estimated_input_tokens=1,
        fee_micro_usd=0,
        created_at=batch.created_at,
    )


def unsaved(*, row_count: int, completed: int, state: str) -> tuple[Batch, SubLane]:
    """A batch in progress and its one sub-lane, for what needs no database."""
    at = datetime(2026, 11, 29, 14, 2, tzinfo=UTC)
    batch = Batch(
        status="in_progress",
        row_count=row_count,
        completed_count=completed,
        created_at=at,
        expires_at=at + timedelta(hours=24),
    )
    return batch, SubLane(number=0, state=state, row_count=row_count, completed_count=completed)
