"""What a staff key may do under ``/v1/finance``: a small closed set of its own, which no customer's key can have."""

from __future__ import annotations

import enum
from typing import Final


class StaffScope(enum.StrEnum):
    """``read`` reads everything of finance; ``write`` imports, decides and closes as well, in its person's name."""

    FINANCE_READ = "finance:read"
    FINANCE_WRITE = "finance:write"


SAID: Final = {
    StaffScope.FINANCE_READ: "Read everything of finance",
    StaffScope.FINANCE_WRITE: "Read, import, decide, close and export, in your name",
}
