"""Blocking an organisation's new batches, and lifting the block."""

from __future__ import annotations

from django.db import transaction

from accounts.audit import record
from accounts.models import Organisation, User
from ground import clock
from ground.reasons import checked_reason


@transaction.atomic
def set_block(organisation: Organisation, *, is_blocked: bool, reason: str, user: User) -> bool:
    """Block an organisation's new batches, or lift its block; say whether anything changed.

    What runs goes on and is charged; prices may still be asked for. What the organisation owes blocks it apart from
    this, until it is paid.

    Raises:
        InvalidRequest: The reason (stripped) is not 3 to 200 characters.
    """
    reason = checked_reason(reason)
    locked = Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if (locked.billing_blocked_at is not None) == is_blocked:
        return False
    Organisation.objects.filter(pk=organisation.pk).update(billing_blocked_at=clock.now() if is_blocked else None)
    record(
        "organisation.blocked" if is_blocked else "organisation.unblocked",
        object_type="organisation",
        object_id=organisation.public_id,
        organisation=organisation,
        reason=reason,
        user=user,
    )
    return True
