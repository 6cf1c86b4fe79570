"""The bucket of accepts. The buckets of calls and tokens are debited where calls come in and quotes are made."""

from __future__ import annotations

from django.db import connection

from accounts.domain.limits import Bucket, BucketKind, refusal
from accounts.models import Organisation

_TAKE = """
WITH wanted AS (
    SELECT organisation.id, accepts_per_minute, lanehouse_now() AS at, accounts_span_of(1, accepts_per_minute) AS span
    FROM accounts_organisation organisation WHERE organisation.id = %s
)
UPDATE accounts_ratebucket bucket SET full_at = greatest(full_at, at) + span
FROM wanted
WHERE bucket.organisation_id = wanted.id AND kind = 'accepts' AND full_at + span <= at + interval '1 minute'
"""
_LOOK = """
SELECT accepts_per_minute, full_at, lanehouse_now()
FROM accounts_ratebucket bucket JOIN accounts_organisation organisation ON organisation.id = bucket.organisation_id
WHERE bucket.organisation_id = %s AND bucket.kind = 'accepts'
"""


def take_accept(organisation: Organisation) -> None:
    """Count one accept; rolled back with the transaction around it, so a refused one does not count.

    The row stays locked until that transaction ends: an organisation's accepts go one behind the other, as they do at
    its balance anyway. Its other calls do not wait for them, they have a row of their own.

    Raises:
        RateLimited: The organisation has accepted as many as it may.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [organisation.pk])
        if cursor.rowcount:
            return
        cursor.execute(_LOOK, [organisation.pk])
        row = cursor.fetchone()
    assert row is not None, "an organisation has its buckets"
    per_minute, full_at, at = row
    raise refusal(Bucket.seen(BucketKind.ACCEPTS, per_minute, full_at=full_at, at=at))
