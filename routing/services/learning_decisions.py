"""What an operator decides about what was learned of a model: stop, go on, or go back to an earlier version."""

from __future__ import annotations

import logging

from django.db import transaction

from accounts.audit import record
from accounts.models import User
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.reasons import checked_reason
from routing.domain.learning.states import HouseState, State
from routing.domain.learning.tallies import ONE_PPM
from routing.models import LearnedScope, LearnedState, LearnedStateVersion, LearningChoice, LearningDecision
from routing.services.learned_states import next_version, save_states

_log = logging.getLogger(__name__)


@transaction.atomic
def decide_learning(
    *, model_slug: str, choice: LearningChoice, reason: str, user: User, to_version: int | None = None
) -> LearningDecision:
    """Decide about a model's learning, as a version of its own, and log who decided it and why.

    ``off``: its quotes are made by the formula, and its batches teach nothing. ``on``: what was learned is used again,
    and learned on. ``back``: every key of the model, of each customer too, stands as it did at ``to_version``, and
    learns on from there; who wants it to stand still switches it off. Quotes that were made keep their figures.

    Raises:
        NotFound: Nothing was learned of this model.
        InvalidRequest: It is so already, there is no such version, or the reason (stripped) is not 3 to 200 characters.
    """
    reason = checked_reason(reason)
    version, at = next_version(), clock.now()
    house = LearnedState.objects.filter(model_slug=model_slug, organisation=None).first()
    if house is None:
        raise NotFound("Nothing was learned of this model.")
    if choice == LearningChoice.BACK:
        _go_back(model_slug, to_version, version)
    elif house.is_on == (choice == LearningChoice.ON):
        raise InvalidRequest(f"Learning is {choice} already.")
    else:
        house.is_on, house.version, house.learned_at = choice == LearningChoice.ON, version, at
        house.save(update_fields=["is_on", "version", "learned_at"])
    decision = LearningDecision.objects.create(
        model_slug=model_slug,
        choice=choice,
        to_version=to_version if choice == LearningChoice.BACK else None,
        version=version,
        reason=reason,
        decided_by=user,
        decided_at=at,
    )
    record(
        "learning.decided",
        object_type="model",
        object_id=model_slug,
        changes={"learning": ("on" if house.is_on else "off", str(choice)), "version": (None, decision.to_version)},
        reason=reason,
        user=user,
    )
    _log.warning("learning of model %s: user %d decided %s %s", model_slug, user.pk, choice, decision.to_version)
    return decision


def _go_back(model_slug: str, to_version: int | None, version: int) -> None:
    history = LearnedStateVersion.objects.filter(model_slug=model_slug)
    if to_version is None or not history.filter(scope=LearnedScope.HOUSE, version=to_version).exists():
        raise InvalidRequest("Choose one of this model's versions.", param="to_version")
    keys = ("organisation_id", "scope", "name")
    then = {
        (row.organisation_id, row.scope, row.name): row
        for row in history.filter(version__lte=to_version).order_by(*keys, "-version").distinct(*keys)
    }
    changed = set(history.filter(version__gt=to_version).values_list(*keys).distinct())
    at = clock.now()
    save_states(
        [
            LearnedState(
                model_slug=model_slug,
                organisation_id=organisation_id,
                scope=scope,
                name=name,
                version=version,
                learned_at=at,
                state=old.state if old else _nothing(scope),
                house_ratio_ppm=old.house_ratio_ppm if old else ONE_PPM,
            )
            for organisation_id, scope, name in sorted(changed, key=str)
            for old in [then.get((organisation_id, scope, name))]
        ]
    )


def _nothing(scope: str) -> bytes:
    return HouseState().to_bytes() if scope == LearnedScope.HOUSE else State().to_bytes()
