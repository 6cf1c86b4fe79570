"""Take what a provider issued, and what nobody may read, out of a provider's sentences."""

import re

REDACTED = "[id]"

_ISSUED = re.compile(
    r"""
    \bsk-[A-Za-z0-9_*.-]+                                                       # keys, also half masked
    | \barn:aws[A-Za-z0-9:/_.-]+
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
    | \b[0-9a-f]{32}\b
    | \b(?:org|proj|req|file|batch|batch_req|msgbatch|msg|chatcmpl|cmpl|resp|user|asst|sess|key|fp|rs|fc)[-_]
      (?=[A-Za-z0-9_-]*[0-9]|[A-Za-z0-9_-]{16})[A-Za-z0-9_-]{6,}
    """,
    re.VERBOSE,
)


def redact(text: str, *, maximum_length: int) -> str:
    """Give a provider's sentence without ids it issued and without keys, cut to ``maximum_length`` characters."""
    return _ISSUED.sub(REDACTED, text[: 4 * maximum_length])[:maximum_length]
