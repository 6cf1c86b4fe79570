"""Setting limits, and the bucket of accepts; those of calls and tokens are debited where calls and quotes are made."""

from __future__ import annotations

from django.db import connection, transaction

from accounts.audit import record
from accounts.domain.audit import changed
from accounts.domain.limits import Bucket, BucketKind, refusal
from accounts.models import Organisation, User
from ground.errors import InvalidRequest, RateLimited
from ground.reasons import checked_reason

_LOOK = """
SELECT accepts_per_minute, full_at, lanehouse_now()
FROM accounts_ratebucket bucket JOIN accounts_organisation organisation ON organisation.id = bucket.organisation_id
WHERE bucket.organisation_id = %s AND bucket.kind = 'accepts'
"""


@transaction.atomic
def set_limits(
    organisation: Organisation,
    *,
    calls_per_minute: int,
    input_tokens_per_minute: int,
    accepts_per_minute: int,
    reason: str,
    user: User,
) -> bool:
    """Set an organisation's three limits; its next call goes by them. Say whether anything changed.

    Raises:
        InvalidRequest: A limit is not above zero, or the reason (stripped) is not 3 to 200 characters.
    """
    reason = checked_reason(reason)
    wanted = {
        "calls_per_minute": calls_per_minute,
        "input_tokens_per_minute": input_tokens_per_minute,
        "accepts_per_minute": accepts_per_minute,
    }
    for name, limit in wanted.items():
        if limit < 1:
            raise InvalidRequest("A limit is above zero.", param=name)
    locked = Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    changes = changed({name: getattr(locked, name) for name in wanted}, wanted)
    if not changes:
        return False
    Organisation.objects.filter(pk=organisation.pk).update(**wanted)
    record(
        "organisation.limits_set",
        object_type="organisation",
        object_id=organisation.public_id,
        organisation=organisation,
        changes=changes,
        reason=reason,
        user=user,
    )
    return True


def take_accept(organisation: Organisation) -> None:
    """Count one accept; rolled back with the transaction around it, so a refused one does not count.

    The row stays locked until that transaction ends: an organisation's accepts go one behind the other, as they do at
    its balance anyway. Its other calls do not wait for them, they have a row of their own.

    Raises:
        RateLimited: The organisation has accepted as many as it may.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT accounts_take_accept(%s)", [organisation.pk])
        (is_taken,) = cursor.fetchone()
    if not is_taken:
        raise accepts_refused(organisation)


def accepts_refused(organisation: Organisation) -> RateLimited:
    """Give the refusal of an accept for which there was no room, with the time until there is."""
    with connection.cursor() as cursor:
        cursor.execute(_LOOK, [organisation.pk])
        row = cursor.fetchone()
    assert row is not None, "an organisation has its buckets"
    per_minute, full_at, at = row
    return refusal(Bucket.seen(BucketKind.ACCEPTS, per_minute, full_at=full_at, at=at))
