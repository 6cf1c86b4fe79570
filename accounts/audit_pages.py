"""Reads of the audit log: a page of it, and all of it line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Q, QuerySet

from accounts.domain.audit import Area
from accounts.models import AuditEntry, Organisation
from ground.errors import NotFound
from ground.filters import EVER, Span
from ground.ids import is_public_id

_READ_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChoice:
    """Which entries are asked for; what is empty chooses nothing.

    ``owner`` narrows to one organisation and its twin (a customer's own log), ``customer`` to one by id or namespace.
    """

    owner: Organisation | None = None
    areas: Sequence[Area] = ()
    area: str = ""
    text: str = ""
    actor_kind: str = ""
    customer: str = ""
    span: Span = EVER

    def entries(self) -> QuerySet[AuditEntry]:
        """Give the entries, newest first."""
        found = AuditEntry.objects.select_related("organisation", "user", "api_key").order_by("-pk")
        if self.owner is not None:
            found = found.filter(Q(organisation=self.owner) | Q(organisation__twin_of=self.owner))
        if self.areas:
            found = found.filter(_in_areas(self.areas))
        if self.area:
            found = found.filter(_in_areas([Area(self.area)]))
        if self.actor_kind:
            found = found.filter(actor_kind=self.actor_kind)
        if self.customer:
            found = found.filter(Q(organisation__public_id=self.customer) | Q(organisation__slug=self.customer))
        if self.text:
            found = found.filter(_says(self.text, is_customer=self.owner is not None))
        if self.span.since is not None:
            found = found.filter(at__gte=self.span.since)
        if self.span.until is not None:
            found = found.filter(at__lt=self.span.until)
        return found


def audit_page(choice: AuditChoice, *, after: str | None, limit: int) -> tuple[list[AuditEntry], bool]:
    """Give up to ``limit`` entries, newest first, and whether there are more.

    Args:
        choice: Which ones.
        after: Public id of the last entry of the page before.
        limit: How many a page has.

    Raises:
        NotFound: ``after`` is no entry that this reader may see.
    """
    found = choice.entries()
    if after is not None:
        seen = AuditChoice(owner=choice.owner, areas=choice.areas).entries()
        last = seen.filter(public_id=after).first() if is_public_id(after, "aud_") else None
        if last is None:
            raise NotFound("There is no such entry.", param="after")
        found = found.filter(pk__lt=last.pk)
    page = list(found[: limit + 1])
    return page[:limit], len(page) > limit


def audit_lines(choice: AuditChoice) -> Iterator[AuditEntry]:
    """Give all entries, newest first, read a thousand at a time: neither memory nor a transaction grows with them."""
    last: int | None = None
    while True:
        rest = choice.entries() if last is None else choice.entries().filter(pk__lt=last)
        page = list(rest[:_READ_ROWS])
        yield from page
        if len(page) < _READ_ROWS:
            return
        last = page[-1].pk


def _in_areas(areas: Sequence[Area]) -> Q:
    found = Q(pk=None)
    for area in areas:
        found |= Q(action__startswith=f"{area.value}.")
    return found


def _says(text: str, *, is_customer: bool) -> Q:
    found = Q(object_id__icontains=text) | Q(action__icontains=text) | Q(reason__icontains=text) | Q(request_id=text)
    # A customer does not learn our staff's names, by searching neither.
    names = Q(actor_name__icontains=text)
    return found | (names & Q(is_staff=False) if is_customer else names)
