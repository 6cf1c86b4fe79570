"""Which scope each address of ``/v1`` needs: one table, so that none is forgotten (a test compares it with the API)."""

from __future__ import annotations

from typing import Final

from accounts.domain.scopes import Scope, allows
from accounts.domain.staff_scopes import StaffScope
from ground.errors import PermissionRefused
from routing.services.admission import TakenCall

# By the first part of an address. None: every key may read it.
_SCOPE_OF: Final[dict[str, Scope | None]] = {
    "quotes": Scope.QUOTES,
    "workflows": Scope.QUOTES,
    "batches": Scope.BATCHES,
    "files": Scope.FILES,
    "webhook_endpoints": Scope.WEBHOOKS,
    "webhook_event_types": Scope.WEBHOOKS,
    "events": Scope.WEBHOOKS,
    "deliveries": Scope.WEBHOOKS,
    "wallet": Scope.READ,
    "receipts": Scope.READ,
    "usage": Scope.READ,
    "exports": Scope.READ,
    "models": None,
}
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def needed_scopes(method: str, path: str) -> tuple[Scope, ...]:
    """Give the scopes of which a key needs one for a call; none where every key may make it.

    Raises:
        KeyError: The address is in no table.
    """
    scope = _SCOPE_OF[path.split("/")[2]]
    if scope is None:
        return ()
    return (scope, Scope.READ) if method in _READS and scope is not Scope.READ else (scope,)


def staff_scope_for(method: str) -> StaffScope:
    """Give the scope that a staff key needs for a call of ``/v1/finance``."""
    return StaffScope.FINANCE_READ if method in _READS else StaffScope.FINANCE_WRITE


def check_scope(caller: TakenCall, method: str, path: str) -> None:
    """Refuse a call that its key may not make.

    Raises:
        PermissionRefused: ``insufficient_scope``; names what is needed.
    """
    key = caller.api_key
    assert key is not None, "a call of the API comes with a key"
    needed = needed_scopes(method, path)
    if not allows(key.scopes, needed):
        names = " or ".join(f"'{scope.value}'" for scope in needed)
        raise PermissionRefused(f"The key lacks the scope for this call: it needs {names}.")
