"""What a staff key may do under ``/v1/finance``: a small closed set of its own, which no customer's key can have."""

from __future__ import annotations

import enum


class StaffScope(enum.StrEnum):
    """``read`` reads everything of finance; ``write`` imports, decides and closes as well, in its person's name."""

    FINANCE_READ = "finance:read"
    FINANCE_WRITE = "finance:write"
