"""What a person may decide about a break, and what each decision makes of it."""

from __future__ import annotations

import enum
from typing import Final


class Action(enum.StrEnum):
    """A decision. The first three move our books by the difference; the others move nothing."""

    ACCEPT = "accept"
    ADJUST = "adjust"
    WRITE_OFF = "write_off"
    DISPUTE = "dispute"
    LINK = "link"
    ASSIGN = "assign"
    REOPEN = "reopen"


POSTING: Final = frozenset({Action.ACCEPT, Action.ADJUST, Action.WRITE_OFF})
# The state that a decision leads to; assigning leads nowhere, and reopening back to where matching had put it.
STATE_AFTER: Final = {
    Action.ACCEPT: "accepted",
    Action.ADJUST: "adjusted",
    Action.WRITE_OFF: "written_off",
    Action.DISPUTE: "disputed",
    Action.LINK: "linked",
}
# The states in which a decision stands in our books.
POSTED_STATES: Final = frozenset(STATE_AFTER[action] for action in POSTING)
SAID: Final = {
    Action.ACCEPT: "Accept the provider's amount",
    Action.ADJUST: "Adjust our books",
    Action.WRITE_OFF: "Write off",
    Action.DISPUTE: "Dispute",
    Action.LINK: "Link an entry",
    Action.ASSIGN: "Assign",
    Action.REOPEN: "Reopen",
}
