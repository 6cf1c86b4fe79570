"""Pages of the audit log."""

from __future__ import annotations

from accounts.services.organisations import create_api_key, revoke_api_key
from catalog.domain.records import Rotation
from catalog.services.rotation import rotate_lane
from ground import clock
from tests.browser.cases import PageCase, Role, World

_OWN, _OPS, _FIN = "/app/settings/audit/", "/ops/audit/", "/fin/audit/"


def _some(world: World, path: str) -> str:
    key, _new = create_api_key(organisation=world.tenant.organisation, name="Nightly", at=clock.now())
    revoke_api_key(organisation=world.tenant.organisation, public_id=key.public_id, at=clock.now())
    operator = world.person("operator")
    assert operator is not None
    rotate_lane("gpt-4o", "openai-direct", Rotation.DRAIN, "provider reports elevated errors", operator)
    return path


_STAFF: dict[Role, int] = {"nobody": 302, "admin": 404, "support": 403}

OF_AUDIT = (
    PageCase(
        name="own audit log",
        url_name="accounts:own-audit",
        seen_by="admin",
        make=lambda world: _some(world, _OWN),
        others={"nobody": 302, "viewer": 403, "billing": 200, "operator": 404},
    ),
    PageCase(
        name="audit log",
        url_name="accounts:audit",
        seen_by="operator",
        make=lambda world: _some(world, _OPS),
        others={**_STAFF, "finance": 200},
    ),
    PageCase(
        name="audit log of finance",
        url_name="accounts:finance-audit",
        seen_by="finance",
        make=lambda world: _some(world, f"{_FIN}?text=nothing"),
        others={**_STAFF, "operator": 403},
    ),
)
NOT_OF_AUDIT = {f"accounts:{name}-csv": "a download" for name in ("audit", "finance-audit", "own-audit")}
