"""Drafting rates, reading price files, approving."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from accounts.audit import record
from accounts.models import User
from catalog.domain.rates import RateFigure, complete_figures
from catalog.domain.records import TokenKind
from catalog.models import Card, Lane, RateLine, RateOrigin, RateVersion
from catalog.pricing.community import BadLine, Published, read_price_file
from catalog.pricing.models import DraftState, RateDraft
from catalog.pricing.selectors import Compared, compared, live_figures
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.ids import new_public_id
from ground.reasons import checked_reason

DISCOUNT_MAX_BASIS_POINTS: Final = 10_000
RATE_MAX_MICRO_USD_PER_MTOK: Final = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What a price file came to."""

    drafts: tuple[RateDraft, ...]
    unchanged_count: int
    unknown_count: int
    waiting_count: int
    bad_lines: tuple[BadLine, ...]


@transaction.atomic
def draft_rates(
    lane: Lane,
    card: Card,
    published: Published,
    *,
    valid_from: datetime | None = None,
    reason: str,
    drafted_by: User,
    discount_basis_points: int = 0,
) -> RateDraft:
    """Draft new rates of one card; nothing is quoted with them before another person approves.

    Args:
        lane: Whose rates.
        card: Which card.
        published: Rates in micro-USD per million tokens, input and output at least; the others are derived.
        valid_from: From when on (aware), until another version of the card begins; None: from the approval on.
        reason: Why.
        drafted_by: Who.
        discount_basis_points: What is taken off the published rates, 0 to 10,000.

    Raises:
        InvalidRequest: A rate is missing or cannot be, the start is in the past, nothing would change, or another
            version or draft of this card begins at the same instant (they would overlap).
    """
    reason = checked_reason(reason)
    at = clock.now()
    figures = _checked_figures(published, discount_basis_points)
    valid_from = valid_from or at
    if valid_from < at:
        raise InvalidRequest("Rates begin now or later: what was quoted and charged stays.", param="valid_from")
    rows = compared(figures, live_figures(lane, card, valid_from))
    if not any(row.is_changed for row in rows):
        raise InvalidRequest("These are the rates that hold then already.", code="unchanged")
    if RateVersion.objects.filter(lane=lane, card=card, valid_from=valid_from).exists():
        raise InvalidRequest("A version of this card begins at that instant already.", param="valid_from")
    try:
        with transaction.atomic():
            draft = RateDraft.objects.create(
                public_id=new_public_id("rd_", at),
                lane=lane,
                card=card,
                published={kind.value: rate for kind, rate in published.items()},
                discount_basis_points=discount_basis_points,
                valid_from=valid_from,
                reason=reason,
                is_extraordinary=any(row.is_extraordinary for row in rows),
                state=DraftState.DRAFT,
                drafted_by=drafted_by,
                drafted_at=at,
            )
    except IntegrityError:
        raise InvalidRequest("A draft of this card begins at that instant already.", param="valid_from") from None
    _audit("rates.drafted", draft, rows, reason, drafted_by)
    return draft


def _checked_figures(published: Published, discount_basis_points: int) -> tuple[RateFigure, ...]:
    if not 0 <= discount_basis_points <= DISCOUNT_MAX_BASIS_POINTS:
        raise InvalidRequest("A discount is 0 to 100 percent.", param="discount_basis_points")
    if any(not 0 <= rate <= RATE_MAX_MICRO_USD_PER_MTOK for rate in published.values()):
        raise InvalidRequest("A rate is 0 to 1,000,000 USD per million tokens.", param="input")
    figures = complete_figures(published, discount_basis_points=discount_basis_points)
    if not figures:
        raise InvalidRequest("A card needs an input and an output rate.", param="input")
    return figures


@transaction.atomic
def import_prices(content: bytes, *, name: str, drafted_by: User) -> ImportReport:
    """Draft what a community price file says otherwise than the live rates, for every lane that it names.

    The sell card follows where it equals what the provider bills. Cards that have a draft waiting get no second one.
    A line whose rates cannot be is listed as bad, and the others are drafted.
    """
    lines, unread = read_price_file(content)
    bad_lines = list(unread)
    at = clock.now()
    drafts: list[RateDraft] = []
    unchanged_count = unknown_count = waiting_count = 0
    waiting = set(RateDraft.objects.filter(state=DraftState.DRAFT).values_list("lane_id", "card"))
    for line in lines:
        lanes = list(Lane.objects.filter(provider__slug=line.provider, provider_model_id=line.model_id))
        unknown_count += not lanes
        for lane in lanes:
            for card, published in _wanted(lane, line.list_card, line.batch_card, at):
                if (lane.pk, card.value) in waiting:
                    waiting_count += 1
                    continue
                try:
                    drafts.append(
                        draft_rates(
                            lane,
                            card,
                            published,
                            reason=f"{name[:120]}, line {line.line}",
                            drafted_by=drafted_by,
                        )
                    )
                except InvalidRequest as error:
                    if error.code == "unchanged":
                        unchanged_count += 1
                    else:
                        bad_lines.append(BadLine(line=line.line, message=str(error)))
    return ImportReport(
        drafts=tuple(drafts),
        unchanged_count=unchanged_count,
        unknown_count=unknown_count,
        waiting_count=waiting_count,
        bad_lines=tuple(sorted(set(bad_lines), key=lambda bad: bad.line)),
    )


def _wanted(lane: Lane, list_card: Published, batch_card: Published, at: datetime) -> list[tuple[Card, Published]]:
    """Give the cards that the file speaks of; kinds that it does not name keep the rate that was published."""
    live = {card: live_figures(lane, card, at) for card in Card}
    wanted = [(Card.LIST, _published(live[Card.LIST]) | list_card)] if list_card else []
    if batch_card:
        wanted.append((Card.PROVIDER_BATCH, _published(live[Card.PROVIDER_BATCH]) | batch_card))
        if _rates(live[Card.SELL]) == _rates(live[Card.PROVIDER_BATCH]):
            wanted.append((Card.SELL, _published(live[Card.SELL]) | batch_card))
    return wanted


def _published(figures: tuple[RateFigure, ...]) -> Published:
    return {figure.kind: figure.rate_micro_usd_per_mtok for figure in figures if not figure.is_derived}


def _rates(figures: tuple[RateFigure, ...]) -> dict[TokenKind, int]:
    return {figure.kind: figure.rate_micro_usd_per_mtok for figure in figures}


@transaction.atomic
def decide_draft(
    public_id: str, *, approves: bool, reason: str, decided_by: User, confirms_extraordinary: bool = False
) -> RateDraft:
    """Approve a draft, which makes its version, or reject it. The same decision again changes nothing.

    A start that has passed meanwhile becomes now: no quote that was made keeps another rate than it pinned.

    Raises:
        NotFound: There is none by that id.
        InvalidRequest: The person drafted it; it was decided otherwise before; or it is extraordinary and that was
            not confirmed.
    """
    reason = checked_reason(reason)
    draft = RateDraft.objects.select_for_update(of=("self",)).select_related("lane").filter(public_id=public_id).first()
    if draft is None:
        raise NotFound("There is no such draft.")
    wanted = DraftState.APPROVED if approves else DraftState.REJECTED
    if draft.state == wanted and draft.decided_by_id == decided_by.pk:
        return draft
    if draft.state != DraftState.DRAFT:
        raise InvalidRequest("This draft was decided before.", code="conflict")
    if draft.drafted_by_id == decided_by.pk:
        raise InvalidRequest("You drafted these rates: somebody else approves them.", code="own_request")
    figures = figures_of(draft)
    at = clock.now()
    rows = compared(figures, live_figures(draft.lane, Card(draft.card), max(at, draft.valid_from)))
    # What is live may have moved since the draft.
    if approves and any(row.is_extraordinary for row in rows) and not confirms_extraordinary:
        raise InvalidRequest(
            "A rate changes more than tenfold, or is above 1,000 USD per million tokens. Confirm that it is meant.",
            code="extraordinary",
            param="confirms_extraordinary",
        )
    draft.state, draft.decided_by, draft.decided_at, draft.decision_reason = wanted, decided_by, at, reason
    draft.is_confirmed = confirms_extraordinary
    draft.version = _make_version(draft, figures, at) if approves else None
    draft.save()
    _audit(f"rates.{wanted.value}", draft, rows, reason, decided_by)
    return draft


def figures_of(draft: RateDraft) -> tuple[RateFigure, ...]:
    """Give the figures that a draft's version has, discount applied and missing kinds derived."""
    published = {TokenKind(kind): rate for kind, rate in draft.published.items()}
    return complete_figures(published, discount_basis_points=draft.discount_basis_points)


def _make_version(draft: RateDraft, figures: tuple[RateFigure, ...], at: datetime) -> RateVersion:
    valid_from = max(draft.valid_from, at)
    if RateVersion.objects.filter(lane=draft.lane, card=draft.card, valid_from=valid_from).exists():
        raise InvalidRequest("Another version of this card begins at that instant. Draft it anew.", code="conflict")
    version = RateVersion.objects.create(
        lane=draft.lane, card=draft.card, origin=RateOrigin.OPERATOR, valid_from=valid_from, made_at=at
    )
    RateLine.objects.bulk_create(
        RateLine(
            version=version,
            kind=figure.kind.value,
            context_from_tokens=figure.context_from_tokens,
            published_rate_micro_usd_per_mtok=figure.published_rate_micro_usd_per_mtok,
            discount_basis_points=figure.discount_basis_points,
            rate_micro_usd_per_mtok=figure.rate_micro_usd_per_mtok,
            is_derived=figure.is_derived,
        )
        for figure in figures
    )
    return version


def _audit(action: str, draft: RateDraft, rows: tuple[Compared, ...], reason: str, user: User) -> None:
    record(
        action,
        object_type="rate_draft",
        object_id=draft.public_id,
        changes={
            f"{draft.card} {row.kind.value}": (row.live_rate_micro_usd_per_mtok, row.rate_micro_usd_per_mtok)
            for row in rows
            if row.is_changed
        },
        reason=reason,
        user=user,
    )


def lane_named(model_slug: str, lane_id: str) -> Lane:
    """Give a lane by its model and route.

    Raises:
        NotFound: There is none.
    """
    lane = Lane.objects.select_related("model", "provider").filter(Q(model__slug=model_slug), lane_id=lane_id).first()
    if lane is None:
        raise NotFound("There is no such lane.", param="lane")
    return lane
