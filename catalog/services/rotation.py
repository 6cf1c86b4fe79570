"""Rotate a lane: in, drain or out, with a reason and a name."""

from __future__ import annotations

from django.db import transaction

from accounts.audit import record
from accounts.models import User
from catalog.domain.records import Rotation
from catalog.models import Lane, LaneRotation
from ground import clock
from ground.errors import InvalidRequest, NotFound
from ground.reasons import checked_reason


@transaction.atomic
def rotate_lane(model_slug: str, lane_id: str, rotation: Rotation, reason: str, user: User) -> bool:
    """Set a lane's rotation and log who did it and why; every process sees it when the transaction is in.

    Returns:
        False where the lane stood so already: nothing is written, the first reason stands.

    Raises:
        NotFound: There is no such lane.
        InvalidRequest: The reason (stripped) is not 3 to 200 characters; or the lane cannot come in, because its
            provider has no adapter for it (``no_adapter``) or it has retired (``retired``).
    """
    reason = checked_reason(reason)
    lane = (
        Lane.objects.select_for_update(of=("self",))
        .select_related("provider")
        .filter(model__slug=model_slug, lane_id=lane_id)
        .first()
    )
    if lane is None:
        raise NotFound("There is no such lane.")
    if lane.rotation == rotation:
        return False
    at = clock.now()
    if rotation != Rotation.OUT and not (lane.provider.has_adapter and lane.is_carried):
        raise InvalidRequest(
            f"{lane.provider.name} has no adapter for this lane yet: it stays out.", code="no_adapter", param="rotation"
        )
    if rotation != Rotation.OUT and lane.retires_at is not None and lane.retires_at <= at:
        raise InvalidRequest("The provider has retired this lane.", code="retired", param="rotation")
    LaneRotation.objects.create(
        lane=lane,
        from_rotation=lane.rotation,
        to_rotation=rotation.value,
        reason=reason,
        changed_at=at,
        changed_by=user,
    )
    record(
        "lane.rotated",
        object_type="lane",
        object_id=f"{model_slug}/{lane_id}",
        changes={"rotation": (lane.rotation, rotation.value)},
        reason=reason,
        user=user,
    )
    lane.rotation = rotation.value
    lane.rotation_reason = reason
    lane.rotation_changed_at = at
    lane.rotation_changed_by = user
    lane.save(update_fields=["rotation", "rotation_reason", "rotation_changed_at", "rotation_changed_by"])
    return True
