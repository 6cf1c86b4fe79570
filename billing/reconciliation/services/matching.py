"""Matching an invoice: compare, name every difference, and keep what people have decided.

Law: invoiced - ours = the breaks' differences + what still waits, to the pico-USD. Matching again changes nothing where
nothing has changed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Count, QuerySet, Sum

from accounts.audit import record
from billing.domain.money import PICO_PER_MICRO
from billing.reconciliation.closed import PeriodClosed, refusing_what_is_closed
from billing.reconciliation.domain.naming import name_differences
from billing.reconciliation.domain.records import ChargeKind
from billing.reconciliation.domain.sides import BreakKind, Known, Place, Sides
from billing.reconciliation.models import (
    Break,
    BreakEvent,
    BreakState,
    Bucket,
    FileState,
    InvoiceFile,
    MatchState,
    ProviderInvoice,
)
from billing.reconciliation.names import known_rates
from billing.reconciliation.period_models import AttemptRecording
from billing.reconciliation.services.comparing import EVIDENCE_COUNT, Comparison, OtherLines
from billing.reconciliation.services.posting import next_entry_key, post_back
from ground import clock
from ground.ids import new_public_id
from ground.leases import Lease, claim, moving_on, unless_lost
from ground.wake import wake

# Providers' reports lag: what they do not bill is a break only when it is older than this in their report.
FRESHNESS: Final = timedelta(hours=48)
ROUNDING_TOTAL_MAX_PICO_USD: Final = 10**12
_EVIDENCE_MAX_COUNT: Final = 2_000
_PICO_DECIMALS: Final = 12
# What has broken off so many tries breaks off the next one too.
_TRIES_MAX: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A difference as it will be stored."""

    key: str
    cause_key: str
    kind: BreakKind
    said: str
    sides: Sides | None = None
    others: OtherLines | None = None
    invoiced_pico_usd: int = 0
    ours_pico_usd: int = 0
    late_for: date | None = None


def ask_to_match(invoice: ProviderInvoice) -> None:
    """Ask for a match in the background.

    Raises:
        PeriodClosed: The month is closed.
    """
    with refusing_what_is_closed(invoice.period), transaction.atomic():
        ProviderInvoice.objects.filter(pk=invoice.pk).update(**match_is_due(clock.now()))
        record("invoice.match_asked", object_type="invoice", object_id=invoice.public_id)
    wake("billing.match_invoices")


def match_is_due(at: datetime) -> dict[str, object]:
    """Give the fields of an invoice that is to be matched, with all its tries."""
    return {"match_state": MatchState.DUE, "due_at": at, "match_try_count": 0, "match_trouble": ""}


def match_next_invoice() -> bool:
    """Match the invoice that has been due longest; say whether there was one."""
    lease = claim(ProviderInvoice, state_field="match_state", states=(MatchState.DUE,))
    if lease is None:
        return False
    with unless_lost():
        try:
            with refusing_what_is_closed(ProviderInvoice.objects.get(pk=lease.row_id).period):
                _try_to_match(lease)
        except PeriodClosed:
            # Closed since it was asked for: what is closed stays as it is, and so does the row that is due.
            return False
    return True


def _try_to_match(lease: Lease) -> None:
    # Counted before the work: a run that is killed was a try too.
    with moving_on(ProviderInvoice, lease, keep_lease=True) as invoice:
        invoice.match_try_count = min(invoice.match_try_count + 1, _TRIES_MAX + 1)
    with moving_on(ProviderInvoice, lease) as invoice:
        if invoice.match_try_count > _TRIES_MAX:
            invoice.match_state, invoice.due_at = MatchState.FAILED, None
            invoice.match_trouble = f"Matching broke off {_TRIES_MAX} times. The figures are those of the match before."
        else:
            _match(invoice)
            invoice.match_state, invoice.due_at = MatchState.IDLE, None


def _match(invoice: ProviderInvoice) -> None:
    current = {file.has_money: file for file in InvoiceFile.objects.filter(invoice=invoice, state=FileState.READ)}
    money = current.get(True)
    comparison = Comparison(invoice, money, current.get(False))
    at = clock.now()
    differing = comparison.compare()
    decimals_count = money.amount_decimals_count if money else _PICO_DECIMALS
    named = name_differences(
        differing,
        Known(
            rates=known_rates(invoice.provider),
            minor_unit_pico_usd=10 ** (_PICO_DECIMALS - decimals_count),
            rounding_total_max_pico_usd=ROUNDING_TOTAL_MAX_PICO_USD,
        ),
    )
    fresh_day = ((money.fetched_at or money.uploaded_at if money else at) - FRESHNESS).date()
    waiting = [
        each.sides.place
        for each in named
        if each.kind is BreakKind.MISSING_INVOICE
        and not each.sides.invoiced_line_count
        and each.sides.place.day >= fresh_day
    ]
    _mark_waiting(invoice, waiting)
    found = [
        _Found(
            key=_key("bucket", each.sides.place),
            cause_key=_key("cause", *each.cause) if len(each.cause) > 1 else "",
            kind=each.kind,
            said=each.said,
            sides=each.sides,
            invoiced_pico_usd=each.sides.invoiced_pico_usd,
            ours_pico_usd=each.sides.ours_pico_usd,
        )
        for each in named
        if each.sides.place not in set(waiting)
    ]
    found += [_of_other_lines(others) for others in comparison.other_lines()]
    found += _of_total(invoice, money)
    found += _of_late_attempts(invoice)
    # What nobody can explain is made last, and so leads every list.
    found.sort(key=lambda each: (each.kind is BreakKind.UNEXPLAINED, abs(each.invoiced_pico_usd - each.ours_pico_usd)))
    invoice.match_number += 1
    invoice.matched_at = at
    _sum_up(invoice, found, stated=money)
    _store(invoice, found, comparison, at)


def _of_other_lines(others: OtherLines) -> _Found:
    if others.is_outside:
        kind, said = BreakKind.TIME_BOUNDARY, "The lines lie outside the month of this invoice."
    elif others.currency != "USD":
        kind, said = (
            BreakKind.CURRENCY,
            f"Billed in {others.currency or 'no currency'}; the amount is in its own units.",
        )
    elif others.format_note:
        kind, said = BreakKind.FORMAT, others.format_note
    elif others.charge_kind == ChargeKind.TAX:
        kind, said = BreakKind.TAX, "Tax; our books hold usage without it."
    else:
        kind, said = BreakKind.CREDIT_OR_COMMITMENT, f"A {others.charge_kind} of the provider's."
    return _Found(
        key=_key("lines", others.day, others.charge_kind, others.currency, others.format_note, others.is_outside),
        cause_key="",
        kind=kind,
        said=said,
        others=others,
        # Another currency is no USD: shown in the evidence, and nothing in the sums.
        invoiced_pico_usd=others.pico_usd if others.currency == "USD" else 0,
    )


def _of_total(invoice: ProviderInvoice, money: InvoiceFile | None) -> list[_Found]:
    """Give the break between the paper's total and the sum of the lines, where a person typed the former in."""
    if money is None or invoice.stated_total_micro_usd is None:
        return []
    stated_pico_usd, summed_pico_usd = invoice.stated_total_micro_usd * PICO_PER_MICRO, int(money.total_pico_usd)
    difference = stated_pico_usd - summed_pico_usd
    if not difference:
        return []
    unit = 10 ** (_PICO_DECIMALS - min(money.amount_decimals_count, 6))
    is_rounding = abs(difference) < min(unit * max(1, money.line_count), ROUNDING_TOTAL_MAX_PICO_USD)
    return [
        _Found(
            key=_key("total"),
            cause_key="",
            kind=BreakKind.ROUNDING if is_rounding else BreakKind.UNEXPLAINED,
            said="The invoice's stated total is not the sum of its lines.",
            invoiced_pico_usd=difference,
        )
    ]


def _of_late_attempts(invoice: ProviderInvoice) -> list[_Found]:
    """Give a break for each closed month whose late attempts this one takes: the bill that they belong to is closed."""
    late = (
        late_attempts(invoice)
        .values("late_for")
        .annotate(pico_usd=Sum("cost_pico_usd"), attempts=Sum("attempt_count"), jobs=Count("job_id", distinct=True))
    )
    return [
        _Found(
            key=_key("late", each["late_for"]),
            cause_key="",
            kind=BreakKind.TIME_BOUNDARY,
            said=f"{each['attempts']:,} attempts of {each['late_for']:%B %Y} were recorded when that month was closed.",
            ours_pico_usd=int(each["pico_usd"]),
            late_for=each["late_for"],
        )
        for each in late.order_by("late_for")
        if each["pico_usd"]
    ]


def late_attempts(invoice: ProviderInvoice) -> QuerySet[AttemptRecording]:
    """Give what an invoice's month takes of closed months of its account."""
    return AttemptRecording.objects.filter(
        provider=invoice.provider, provider_account=invoice.provider_account, carried_to=invoice.period
    )


def _key(*parts: object) -> str:
    texts = [repr(part) for part in parts]
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "backslashreplace")).hexdigest()


def _mark_waiting(invoice: ProviderInvoice, places: list[Place]) -> None:
    for place in places:
        Bucket.objects.filter(
            invoice=invoice,
            day=place.day,
            model=place.model,
            tier=place.tier,
            token_class=place.token_class,
            project=place.project,
        ).update(state="waiting")


def _sum_up(invoice: ProviderInvoice, found: list[_Found], *, stated: InvoiceFile | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(*) FILTER (WHERE state = 'exact'), coalesce(sum(ours_pico_usd), 0),"
            " coalesce(sum(invoiced_pico_usd) FILTER (WHERE state = 'exact'), 0),"
            " coalesce(sum(ours_pico_usd) FILTER (WHERE state = 'waiting'), 0)"
            " FROM billing_bucket WHERE invoice_id = %s",
            [invoice.pk],
        )
        row = cursor.fetchone()
    assert row is not None, "an aggregate gives a row"
    invoice.bucket_count, invoice.exact_bucket_count = row[0], row[1]
    invoice.ours_pico_usd, invoice.exact_pico_usd, invoice.waiting_pico_usd = row[2], row[3], row[4]
    # Places are of the month's own days; what is carried to it is ours as well.
    invoice.ours_pico_usd += sum(each.ours_pico_usd for each in found if each.late_for is not None)
    of_total = sum(each.invoiced_pico_usd for each in found if each.sides is None and each.others is None)
    invoice.invoiced_pico_usd = (stated.total_pico_usd if stated else Decimal(0)) + of_total
    # Here and not in a test alone: a match that loses a pico-USD must not be stored.
    differences = sum(each.invoiced_pico_usd - each.ours_pico_usd for each in found)
    left = int(invoice.invoiced_pico_usd - invoice.ours_pico_usd + invoice.waiting_pico_usd) - differences
    assert left == 0, f"{left} pico-USD of the difference belong to no break"


def _store(invoice: ProviderInvoice, found: list[_Found], comparison: Comparison, at: datetime) -> None:
    before = {
        each.key: each
        for each in Break.objects.select_for_update(of=("self",)).select_related("invoice").filter(invoice=invoice)
    }
    new: list[Break] = []
    changed: list[Break] = []
    events: list[BreakEvent] = []
    for number, each in enumerate(found):
        known = before.get(each.key)
        values = _values(each)
        evidence = _evidence(invoice, each, comparison) if number < _EVIDENCE_MAX_COUNT else {"lines": [], "jobs": []}
        state = BreakState.OPEN if each.kind is BreakKind.UNEXPLAINED else BreakState.EXPLAINED
        if known is None:
            fresh = Break(
                public_id=new_public_id("brk_", at),
                invoice=invoice,
                key=each.key,
                state=state,
                opened_at=at,
                evidence=evidence,
                seen_number=invoice.match_number,
                **values,
            )
            new.append(fresh)
            events.append(BreakEvent(of_break=fresh, at=at, action="opened", to_state=state, said=each.said[:300]))
            continue
        is_same = all(getattr(known, name) == value for name, value in values.items() if name in _JUDGED)
        for name, value in values.items():
            setattr(known, name, value)
        known.evidence, known.seen_number = evidence, invoice.match_number
        if not is_same or known.state == BreakState.CLEARED:
            events.append(_moved(known, state, at, f"The figures changed: {each.said}"))
        changed.append(known)
    keys = {each.key for each in found}
    for gone in before.values():
        if gone.key not in keys and gone.state != BreakState.CLEARED:
            events.append(_moved(gone, BreakState.CLEARED, at, "Gone at a later match: both sides agree now."))
            changed.append(gone)
    Break.objects.bulk_create(new)
    Break.objects.bulk_update(changed, _STORED, batch_size=500)
    BreakEvent.objects.bulk_create(events)


# A decision is about these; if one of them changes, it has to be made again.
_JUDGED: Final = ("kind", "invoiced_pico_usd", "ours_pico_usd")
_STORED: Final = (
    "cause_key", "kind", "said", "invoiced_quantity", "invoiced_pico_usd", "ours_quantity", "ours_pico_usd",
    "difference_pico_usd", "evidence", "state", "reason", "asked_action", "entry_key", "decided_by", "decided_at",
    "seen_number",
)  # fmt: skip


def _moved(known: Break, state: BreakState, at: datetime, said: str) -> BreakEvent:
    """Take back what was decided about other figures, with its posting: books say nothing that nobody decided."""
    if back := post_back(known, key=next_entry_key(known), recorded_by=None):
        said = f"Posted back: {known.entry_key}. {said}"
        record(
            "break.posted_back",
            object_type="break",
            object_id=known.public_id,
            changes={"entry": (known.entry_key, back.business_key)},
            reason="The figures changed at a later match",
        )
    event = BreakEvent(of_break=known, at=at, action="matched", from_state=known.state, to_state=state, said=said[:300])
    known.state = state
    known.reason = known.asked_action = known.entry_key = ""
    known.decided_by = known.decided_at = None
    return event


def _values(found: _Found) -> dict[str, Any]:
    place = found.sides.place if found.sides else None
    return {
        "cause_key": found.cause_key,
        "kind": found.kind.value,
        "said": found.said[:500],
        "day": place.day if place else found.others.day if found.others else None,
        "model": place.model if place else "",
        "tier": place.tier if place else "",
        "token_class": place.token_class if place else "",
        "project": place.project if place else "",
        "invoiced_quantity": found.sides.invoiced_quantity if found.sides else None,
        "ours_quantity": found.sides.ours_quantity if found.sides else None,
        "invoiced_pico_usd": Decimal(found.invoiced_pico_usd),
        "ours_pico_usd": Decimal(found.ours_pico_usd),
        "difference_pico_usd": Decimal(found.invoiced_pico_usd - found.ours_pico_usd),
    }


def _evidence(invoice: ProviderInvoice, found: _Found, comparison: Comparison) -> dict[str, Any]:
    if found.sides is not None:
        return comparison.evidence_at(found.sides.place)
    if found.others is not None:
        line_count = found.others.line_count
        return comparison.evidence_of(found.others) | {"line_count": line_count, "currency": found.others.currency}
    if found.late_for is not None:
        late = late_attempts(invoice).filter(late_for=found.late_for).order_by("-cost_pico_usd", "pk")
        return {"lines": [], "jobs": [_late_job(each) for each in late[:EVIDENCE_COUNT]]}
    return {"lines": [], "jobs": []}


def _late_job(recording: AttemptRecording) -> dict[str, Any]:
    return {
        "batch_id": recording.batch_public_id,
        "job": recording.job_id,
        "row_count": recording.attempt_count,
        "is_failed": False,
        "tokens": None,
        "pico_usd": str(recording.cost_pico_usd),
    }
