"""Markers in what a user says (``[[sim:name]]``, ``[[sim:name=N]]``), which make a simulator misbehave."""

import re
from collections.abc import Mapping

_MARKER = re.compile(r"\[\[sim:([a-z_]+)(?:=(\d+))?\]\]")
MARKER_START = b"[[sim:"


def markers_in(text: str) -> Mapping[str, str]:
    """The markers in `text`, each with its number or an empty text."""
    return dict(_MARKER.findall(text))
