"""Where the customers' documentation says what a code means."""

from __future__ import annotations

from django.urls import reverse


def documentation_of(code: str) -> str:
    """Give the path, on this server, of the place in the page of errors that explains a code."""
    return f"{reverse('console:docs-page', args=['errors'])}#{code}"
