"""How often somebody may try to sign in, and the end of what sign-ins leave behind.

Three buckets, each kept as the instant at which it is full again: of an address, of an account, and of one account from
one address. So a guesser is stopped where they are; others, and the owner at an address from which they signed in
lately, go on.
"""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.db.models import Q
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from accounts.audit import record
from accounts.models import Membership, Organisation, SignInBucket, User
from ground import clock, retention_record
from ground.retention_record import Kept

_WINDOW: Final = timedelta(minutes=15)
_PAIR_TRIES, _ADDRESS_TRIES, _ACCOUNT_TRIES = 10, 50, 100
_KNOWN_FOR: Final = timedelta(days=30)
_IPV6_NETWORK_BITS: Final = 64
_SWEEP_ROWS: Final = 1_000

_TAKE = """
INSERT INTO accounts_signinbucket AS bucket (subject, full_at) VALUES (%(subject)s, lanehouse_now() + %(share)s)
ON CONFLICT (subject) DO UPDATE SET full_at = greatest(bucket.full_at, lanehouse_now()) + %(share)s
    WHERE bucket.full_at + %(share)s <= lanehouse_now() + %(window)s
RETURNING coalesce(succeeded_at > lanehouse_now() - %(known_for)s, false)
"""
_WAIT = """
SELECT ceil(extract(epoch FROM full_at + %(share)s - lanehouse_now() - %(window)s))::bigint
FROM accounts_signinbucket WHERE subject = %(subject)s
"""
_GIVE_BACK = "UPDATE accounts_signinbucket SET full_at = full_at - %(share)s WHERE subject = %(subject)s"
_REMEMBER = """
UPDATE accounts_signinbucket SET full_at = lanehouse_now(), succeeded_at = lanehouse_now() WHERE subject = %(subject)s
"""


class Try:
    """One try to sign in with an e-mail from an address; counted before the password is looked at."""

    def __init__(self, *, email: str, address: str) -> None:
        account = email.strip().lower()
        self._pair = _Bucket(f"pair {account} {address}", _PAIR_TRIES)
        self._address = _Bucket(f"address {address}", _ADDRESS_TRIES)
        self._account = _Bucket(f"account {account}", _ACCOUNT_TRIES)
        self._is_known = False

    def begin(self) -> int:
        """Count the try; give 0, or after how many seconds another one may be made, if this one may not."""
        known = self._pair.take()
        if known is None:
            return self._pair.wait_seconds()
        self._is_known = known
        if self._address.take() is None:
            return self._address.wait_seconds()
        # Where the owner signed in lately, guesses made elsewhere do not count.
        if not known and self._account.take() is None:
            return self._account.wait_seconds()
        return 0

    def succeed(self) -> None:
        """Forget what went wrong for this account here, and take nothing from others."""
        self._pair.run(_REMEMBER)
        self._address.run(_GIVE_BACK)
        if not self._is_known:
            self._account.run(_GIVE_BACK)


class _Bucket:
    def __init__(self, subject: str, tries: int) -> None:
        self._arguments: dict[str, Any] = {
            "subject": salted_hmac("accounts.sign_in", subject, algorithm="sha256").digest(),
            "share": _WINDOW / tries,
            "window": _WINDOW,
            "known_for": _KNOWN_FOR,
        }

    def take(self) -> bool | None:
        """Take one; give whether the subject succeeded lately, or None where nothing is left."""
        row = self.run(_TAKE)
        return None if row is None else bool(row)

    def wait_seconds(self) -> int:
        """Give after how many seconds there will be one."""
        return max(1, self.run(_WAIT) or 1)

    def run(self, statement: str) -> int | None:
        with connection.cursor() as cursor:
            cursor.execute(statement, self._arguments)
            row = cursor.fetchone() if cursor.description else None
        return None if row is None else row[0]


@transaction.atomic
def note_sign_in(user: User) -> None:
    """Write down that somebody signed in."""
    _note("sign_in.made", user, by=user)


@transaction.atomic
def note_refused_sign_in(email: str) -> None:
    """Write down that a password was wrong. What was typed is kept only where it is somebody's address."""
    user = User.objects.filter(email=email.strip().lower()).first()
    if user is not None:
        _note("sign_in.refused", user)
    else:
        record("sign_in.refused", object_type="user", object_id="nobody of this address")


@transaction.atomic
def note_sign_out(user: User) -> None:
    """Write down that somebody signed out."""
    _note("sign_in.ended", user, by=user)


@transaction.atomic
def note_password_link(user: User) -> None:
    """Write down that somebody asked for a link to choose a password."""
    _note("sign_in.link_asked", user)


@transaction.atomic
def note_chosen_password(user: User) -> None:
    """Write down that a password was chosen by a link."""
    _note("sign_in.password_chosen", user, by=user)


def _note(action: str, user: User, *, by: User | None = None) -> None:
    record(action, object_type="user", object_id=user.email, organisation=_organisation_of(user), user=by)


def _organisation_of(user: User) -> Organisation | None:
    membership = Membership.objects.select_related("organisation").filter(user=user).first()
    return membership.organisation if membership else None


def address_of(request: HttpRequest) -> str:
    """Give where a request comes from; of IPv6 the network, since a whole one belongs to one customer.

    Behind TLS a proxy of ours stands before us: the last address it names is the one it saw.
    """
    forwarded = request.headers.get("x-forwarded-for", "") if settings.HTTPS else ""
    text = forwarded.rpartition(",")[2].strip() or str(request.META.get("REMOTE_ADDR", ""))
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text[:64]
    if address.version == 4:  # noqa: PLR2004 -- its name
        return str(address)
    return str(ipaddress.ip_network((address, _IPV6_NETWORK_BITS), strict=False))


def sweep_sign_ins() -> int:
    """Remove sessions that have ended, and buckets that are full and remember nothing; up to a thousand of each."""
    at = clock.now()
    ended = Session.objects.filter(expire_date__lte=at).order_by("expire_date").values("pk")[:_SWEEP_ROWS]
    with transaction.atomic():
        removed_count, _ = Session.objects.filter(pk__in=ended).delete()
        retention_record.add(Kept.SESSIONS, removed_count)
    forgets = Q(succeeded_at=None) | Q(succeeded_at__lte=at - _KNOWN_FOR)
    full = SignInBucket.objects.filter(forgets, full_at__lte=at).order_by("full_at").values("pk")[:_SWEEP_ROWS]
    return removed_count + SignInBucket.objects.filter(pk__in=full).delete()[0]
