"""The words of the audit log: what part of the product an action belongs to, and its parts that concern money."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

Change = str | int | bool | None | list[str]
# A field -> what it was, what it is. Never a secret, never a customer's text.
Changes = Mapping[str, tuple[Change, Change]]


class Area(enum.StrEnum):
    """The first word of an action; the second says what was done (``lane.rotated``)."""

    ADJUSTMENT = "adjustment"
    AUDIT = "audit"
    BACKUP = "backup"
    BATCH = "batch"
    BREAK = "break"
    CATALOG = "catalog"
    ENCRYPTION = "encryption"
    EXPORT = "export"
    FILE = "file"
    GRANT = "grant"
    INVOICE = "invoice"
    JOB = "job"
    KEY = "key"
    LANE = "lane"
    LEARNING = "learning"
    LEDGER = "ledger"
    MEMBER = "member"
    ORGANISATION = "organisation"
    PERIOD = "period"
    PROVIDER = "provider"
    RATES = "rates"
    SIGN_IN = "sign_in"
    TOP_UP = "top_up"
    WALLET = "wallet"
    WEBHOOK = "webhook"
    WORKFLOW = "workflow"


# What finance answers for.
OF_FINANCE: Final = (
    Area.ADJUSTMENT,
    Area.BREAK,
    Area.EXPORT,
    Area.GRANT,
    Area.INVOICE,
    Area.LEDGER,
    Area.ORGANISATION,
    Area.PERIOD,
    Area.RATES,
    Area.TOP_UP,
    Area.WALLET,
)


def is_action(text: str) -> bool:
    """Say whether a text is an action: an area, a dot, and words in lower case."""
    area, dot, deed = text.partition(".")
    return bool(dot) and area in set(Area) and deed.replace("_", "").isascii() and deed.replace("_", "").islower()


def changed(before: Mapping[str, Change], after: Mapping[str, Change]) -> dict[str, tuple[Change, Change]]:
    """Give what differs between two states of the same fields, in their order."""
    return {name: (before[name], value) for name, value in after.items() if before[name] != value}
