"""Making a quote: the pure plan, the payload beside it, one row, one answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from django.conf import settings

from accounts.selectors import Caller
from billing.selectors import wallet
from catalog.domain.records import Catalog, Rates
from catalog.selectors import current_catalog
from ground import clock
from ground.blobs import delete_blob
from ground.connections import preparing_cursor
from ground.errors import ServerBusy
from ground.ids import created_at_of, new_public_id
from ground.page_cache import leave_to_disk
from routing.domain.learning.records import Learned
from routing.domain.offering import QuoteSettings
from routing.domain.pins import pin
from routing.domain.plan import QuotedCandidate, QuotedGroup, QuotedLane, QuotePlan
from routing.domain.quoting import make_quote_plan
from routing.domain.scoring import WorkflowProfile
from routing.learned import learned_for
from routing.models import Quote, QuoteStatus
from routing.payloads import payload_name, placement_name, store_payload, store_placement
from routing.quote_room import take_quote_room
from routing.selectors import batch_of_quote, quote_has_expired
from routing.services.admission import TakenCall
from routing.unpriced import unpriced_answer

# An accept may be on its way when a quote expires.
PAYLOAD_KEPT_AFTER_EXPIRY: Final = timedelta(hours=1)
_PLANNING_WAIT_SECONDS = 10
# Writing less is done before a thread would have begun.
_STORED_BESIDE_BYTES = 65_536
_planning = threading.BoundedSemaphore(settings.QUOTE_PLACES)
_writers_lock = threading.Lock()
_writers: ThreadPoolExecutor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeQuote:
    """A stored quote: its answer without timings, and the milliseconds of each step."""

    answer: Mapping[str, Any]
    timings_ms: Mapping[str, float]


def create_quote(*, caller: Caller, body: bytes, workflow: WorkflowProfile) -> MadeQuote:
    """Price a file and store the offer.

    Args:
        caller: Who asks.
        body: The JSONL file as it came.
        workflow: What the customer says lanes are worth and must meet; the quote keeps it as it is now.

    Raises:
        RowErrors: Rows are wrong; nothing is stored.
        InvalidRequest: No lane can take a group; nothing is stored.
        StoreFull: The organisation's open quotes have no room for it.
    """
    started_ns = time.perf_counter_ns()
    take_quote_room(caller.organisation, len(body))
    now = clock.now()
    quote_id = new_public_id("qt_", now)
    at = created_at_of(quote_id)
    # A refused file is removed again.
    written = _begin_storing(quote_id, body)
    try:
        catalog, learned = _known_to(caller, workflow)
        with _place_for_planning():
            plan = make_quote_plan(
                body, catalog, workflow, quote_settings(), at, learned=learned, timer=time.perf_counter_ns
            )
        planned_ns = time.perf_counter_ns()
        store_placement(quote_id, plan.placement)
        written.result()
    except BaseException:
        # Nobody knows the id yet. The writer must have ended, or it would write after the removal.
        wait([written])
        delete_blob(payload_name(quote_id))
        delete_blob(placement_name(quote_id))
        raise
    stored_ns = time.perf_counter_ns()
    expires_at = at + settings.QUOTE_LIFETIME
    answer = frozen_answer(quote_id, plan, expires_at)
    _insert_quote(
        public_id=quote_id,
        created_at=at,
        organisation_id=caller.organisation.pk,
        api_key_id=caller.api_key.pk if caller.api_key else None,
        workflow=workflow.name,
        status=QuoteStatus.READY,
        expires_at=expires_at,
        payload_kept_until=expires_at + PAYLOAD_KEPT_AFTER_EXPIRY,
        endpoint=plan.endpoint.value,
        row_count=plan.row_count,
        body_size_bytes=len(body),
        input_file_id="",
        input_tokens=plan.estimate.input_tokens,
        answer=orjson.dumps(answer),
        plan=pin(plan, catalog).to_bytes(),
    )
    leave_to_disk(payload_name(quote_id), len(body))
    ended_ns = time.perf_counter_ns()
    spans_ns = {"store": stored_ns - planned_ns, "persist": ended_ns - stored_ns, "total": ended_ns - started_ns}
    timings_ms = {step: round(spent_ns / 1e6, 3) for step, spent_ns in {**plan.timings_ns, **spans_ns}.items()}
    return MadeQuote(answer=answer | _credit(caller, plan.estimate.reservation_micro_usd), timings_ms=timings_ms)


def _known_to(caller: Caller, workflow: WorkflowProfile) -> tuple[Catalog, Learned]:
    """Give this process's maps for a caller; a call's first statement has read their versions."""
    taken = caller if isinstance(caller, TakenCall) else None
    catalog = current_catalog(taken.catalog_versions if taken else None)
    return catalog, learned_for(caller.organisation, workflow.name, catalog, taken.learned_versions if taken else None)


def quote_answer(caller: Caller, quote: Quote) -> dict[str, Any]:
    """Give a stored quote as it stands now: its frozen figures, its status by the clock, today's credit.

    A quote without figures gives how far its file has been read, or what is wrong with it.
    """
    if quote.status != QuoteStatus.READY:
        return unpriced_answer(quote)
    answer: dict[str, Any] = orjson.loads(bytes(quote.answer))
    batch = batch_of_quote(quote)
    if batch is not None:
        answer["status"] = "accepted"
        answer["batch_id"] = batch.public_id
    elif quote_has_expired(quote):
        answer["status"] = "expired"
    answer |= _credit(caller, answer["estimate"]["reservation_micro_usd"])
    answer["timings_ms"] = {}
    return answer


@contextmanager
def _place_for_planning() -> Iterator[None]:
    """Wait for a place: planning is processor work, and more at once only take the interpreter from each other."""
    if not _planning.acquire(timeout=_PLANNING_WAIT_SECONDS):
        raise ServerBusy("The server is busy. Send the same request again.")
    try:
        yield
    finally:
        _planning.release()


def _begin_storing(quote_id: str, body: bytes) -> Future[None]:
    """Store a payload; a long one in a thread beside, for writing and the compiled pass leave the interpreter free."""
    if len(body) > _STORED_BESIDE_BYTES:
        return _pool().submit(store_payload, quote_id, body)
    stored: Future[None] = Future()
    store_payload(quote_id, body)
    stored.set_result(None)
    return stored


def _insert_quote(**row: Any) -> None:  # noqa: ANN401 -- columns of every type
    """Insert a row of :class:`Quote`; Django's own way around the statement takes as long as the statement."""
    with preparing_cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {Quote._meta.db_table} ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})",  # noqa: S608, SLF001 -- our own names
            [*row.values()],
        )


def _pool() -> ThreadPoolExecutor:
    global _writers  # noqa: PLW0603 -- one pool a process, made after any fork
    with _writers_lock:
        if _writers is None:
            _writers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="payload")
        return _writers


def quote_settings() -> QuoteSettings:
    """Give what the house sets."""
    return QuoteSettings(
        fee_micro_usd=settings.CONTROL_PLANE_FEE_MICRO_USD, margin_basis_points=settings.HOLD_MARGIN_BASIS_POINTS
    )


def _credit(caller: Caller, reservation_micro_usd: int) -> dict[str, Any]:
    # As it was when the call came; on pages, as it is now.
    if isinstance(caller, TakenCall):
        available_micro_usd, is_blocked = caller.available_micro_usd, caller.is_blocked
    else:
        state = wallet(caller.organisation)
        available_micro_usd, is_blocked = state.available_micro_usd, state.blocked
    return {
        "available_micro_usd": available_micro_usd,
        "sufficient_credit": not is_blocked and available_micro_usd >= reservation_micro_usd,
    }


def frozen_answer(
    quote_id: str,
    plan: QuotePlan,
    expires_at: datetime,
    *,
    input_file_id: str | None = None,
    retry_of: str | None = None,
) -> dict[str, Any]:
    """Give the frozen part of the answer; the public contract's names."""
    estimate = plan.estimate
    return {
        "id": quote_id,
        "object": "quote",
        "status": "ready",
        "batch_id": None,
        "input_file_id": input_file_id,
        "retry_of": retry_of,
        "created_at": int(created_at_of(quote_id).timestamp()),
        "expires_at": int(expires_at.timestamp()),
        "workflow": plan.workflow.name,
        "workflow_version": plan.workflow.version,
        "row_count": plan.row_count,
        "model_count": plan.model_count,
        "catalog_version": plan.catalog_version,
        "learned_version": plan.learned_version,
        "sla_snapshot_at": int(plan.sla_snapshot_at.timestamp()),
        "estimate": {
            "input_tokens": estimate.input_tokens,
            "output_tokens": estimate.output_tokens,
            "usage_charge_micro_usd": estimate.usage_charge_micro_usd,
            "fee_micro_usd": estimate.fee_micro_usd,
            "total_micro_usd": estimate.total_micro_usd,
            "low_micro_usd": estimate.low_micro_usd,
            "high_micro_usd": estimate.high_micro_usd,
            "ceiling_micro_usd": estimate.ceiling_micro_usd,
            "reservation_micro_usd": estimate.reservation_micro_usd,
            "sync_charge_micro_usd": estimate.sync_charge_micro_usd,
        },
        "lanes": [_lane(lane) for lane in plan.lanes],
        "scoring": {
            "penalty_micro_usd_per_minute": plan.workflow.penalty_micro_usd_per_minute,
            "penalty_micro_usd_per_percent": plan.workflow.penalty_micro_usd_per_percent,
            "fan_out": plan.workflow.fan_out,
            "fee_micro_usd": plan.fee_micro_usd,
            "margin_basis_points": plan.margin_basis_points,
        },
        "explanation": [_explanation(group) for group in plan.groups],
        "dropped": [
            {
                "lane_id": lane.lane_id,
                "model": lane.model_slug,
                "parameter": said.parameter,
                "row_count": said.row_count,
            }
            for lane in plan.lanes
            for said in lane.dropped
        ],
    }


def _lane(lane: QuotedLane) -> dict[str, Any]:
    health = lane.health
    return {
        "lane_id": lane.lane_id,
        "model": lane.model_slug,
        "provider": lane.provider,
        "region": lane.region,
        "model_id": lane.model_id,
        "model_snapshot": lane.model_snapshot,
        "row_count": lane.row_count,
        "input_tokens": lane.input_tokens,
        "output_tokens": lane.output_tokens,
        **_rates("", lane.sell),
        **_rates("list_", lane.list),
        "usage_charge_micro_usd": lane.usage_charge_micro_usd,
        "fee_micro_usd": lane.fee_micro_usd,
        "p95_dispatch_ms": health.p95_dispatch_ms,
        "p50_completion_minutes": health.p50_completion_minutes,
        "p95_completion_minutes": health.p95_completion_minutes,
        # Parts per million are exact; the fraction is for reading only and no money is made from it.
        "recent_error_rate_24h": health.error_ppm / 1_000_000,
        "sample_count": health.sample_count,
        "score_micro_usd": lane.score_micro_usd,
    }


def _rates(prefix: str, rates: Rates) -> dict[str, int]:
    return {
        f"{prefix}input_rate_micro_usd_per_mtok": rates.input_rate_micro_usd_per_mtok,
        f"{prefix}output_rate_micro_usd_per_mtok": rates.output_rate_micro_usd_per_mtok,
    }


def _explanation(group: QuotedGroup) -> dict[str, Any]:
    explanation, charge = group.explanation, group.charge
    return {
        "model": explanation.model_slug,
        "row_count": group.row_count,
        "input_tokens": charge.input_tokens,
        "output_tokens": charge.output_tokens,
        "low_input_tokens": charge.low_input_tokens,
        "low_output_tokens": charge.low_output_tokens,
        "high_input_tokens": charge.high_input_tokens,
        "high_output_tokens": charge.high_output_tokens,
        "ceiling_input_tokens": charge.ceiling_input_tokens,
        "ceiling_output_tokens": charge.ceiling_output_tokens,
        "chosen_lane_ids": list(explanation.chosen_lane_ids),
        "runner_up_lane_id": explanation.runner_up_lane_id,
        "margin_micro_usd": explanation.margin_micro_usd,
        "candidates": [_candidate(candidate) for candidate in explanation.candidates],
        "text": explanation.text,
    }


def _candidate(candidate: QuotedCandidate) -> dict[str, Any]:
    sell, health = candidate.sell, candidate.health
    return {
        "lane_id": candidate.lane_id,
        "eligible": candidate.eligible,
        "reason": candidate.reason,
        "reason_text": candidate.reason_text,
        "constraint": candidate.constraint,
        "input_rate_micro_usd_per_mtok": sell.input_rate_micro_usd_per_mtok if sell else None,
        "output_rate_micro_usd_per_mtok": sell.output_rate_micro_usd_per_mtok if sell else None,
        "p95_completion_minutes": health.p95_completion_minutes,
        "error_ppm": health.error_ppm,
        "sample_count": health.sample_count,
        "charge_micro_usd": candidate.charge_micro_usd if candidate.eligible else None,
        "latency_penalty_micro_usd": candidate.latency_penalty_micro_usd if candidate.eligible else None,
        "error_penalty_micro_usd": candidate.error_penalty_micro_usd if candidate.eligible else None,
        "score_micro_usd": candidate.score_micro_usd if candidate.eligible else None,
    }
