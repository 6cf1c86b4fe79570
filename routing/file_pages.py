"""An organisation's files as people look them up: also those that are gone, of which the record stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Case, CharField, Q, Value, When

from accounts.models import AuditEntry, Organisation
from accounts.selectors import DATABASE_NOW
from ground.errors import NotFound
from ground.filters import EVER, Span
from ground.ids import created_at_of, is_public_id
from routing.models import Batch, Quote, StoredFile
from routing.selectors import FileQuote, quotes_of_files

_SHOWN_BATCHES: Final = 20
FILE_STATES: Final[Mapping[str, Q]] = {
    "kept": Q(deleted_at=None) & (Q(expires_at=None) | Q(expires_at__gt=DATABASE_NOW)),
    "over": Q(deleted_at=None, expires_at__lte=DATABASE_NOW),
    "deleted": Q(deleted_at__isnull=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFilter:
    """Which files a list shows; what is empty leaves all.

    Args:
        text: Part of a file's name or id.
        purpose: What it is for.
        state: A key of ``FILE_STATES``.
        span: When they came.
    """

    text: str = ""
    purpose: str = ""
    state: str = ""
    span: Span = EVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file with its state and, of one that was uploaded, its newest quote."""

    stored: StoredFile
    state: str
    quote: FileQuote | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFiles:
    """A page of files, newest first."""

    files: tuple[ListedFile, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file and what there is to know of it. ``line_count`` is None where nobody has read it."""

    listed: ListedFile
    line_count: int | None
    batches: tuple[Batch, ...]
    deleted_by: str


def listed_file_page(organisation: Organisation, *, after: str | None, limit: int, chosen: FileFilter) -> ListedFiles:
    """Give up to ``limit`` files, newest first, whatever became of them; ``after`` is the last id of the page before.

    Raises:
        NotFound: There is no file ``after``.
    """
    files = StoredFile.objects.filter(organisation=organisation)
    if chosen.text:
        files = files.filter(Q(filename__icontains=chosen.text) | Q(public_id__icontains=chosen.text))
    if chosen.purpose:
        files = files.filter(purpose=chosen.purpose)
    if chosen.state:
        files = files.filter(FILE_STATES[chosen.state])
    if chosen.span.since is not None:
        files = files.filter(created_at__gte=chosen.span.since)
    if chosen.span.until is not None:
        files = files.filter(created_at__lt=chosen.span.until)
    if after is not None:
        last = _any_file(organisation, after)
        files = files.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    page = list(files.annotate(state=_STATE).order_by("-created_at", "-pk")[: limit + 1])
    return ListedFiles(files=_listed(organisation, page[:limit]), has_more=len(page) > limit)


def file_facts(organisation: Organisation, public_id: str) -> FileFacts:
    """Give one file of an organisation, also one that is gone.

    Raises:
        NotFound: It never had one with this id.
    """
    stored = _any_file(organisation, public_id)
    (listed,) = _listed(organisation, [stored])
    made = Q(input_file_id=public_id) | Q(output_file=stored) | Q(error_file=stored) | Q(results_file=stored)
    found = Batch.objects.filter(made, organisation=organisation).defer("plan").order_by("-created_at", "-pk")
    batches = tuple(found[:_SHOWN_BATCHES])
    return FileFacts(
        listed=listed,
        line_count=_line_count(stored, batches),
        batches=batches,
        deleted_by=_deleted_by(organisation, stored, batches) if listed.state == "deleted" else "",
    )


_STATE = Case(
    *(When(condition, then=Value(state)) for state, condition in FILE_STATES.items()), output_field=CharField()
)


def _any_file(organisation: Organisation, public_id: str) -> StoredFile:
    stored = None
    if is_public_id(public_id, "file-"):
        files = StoredFile.objects.filter(organisation=organisation, public_id=public_id)
        stored = files.select_related("api_key").annotate(state=_STATE).first()
    if stored is None:
        raise NotFound("There is no such file.")
    return stored


def _listed(organisation: Organisation, files: Sequence[StoredFile]) -> tuple[ListedFile, ...]:
    quotes = quotes_of_files(organisation, files)
    return tuple(
        ListedFile(stored=stored, state=stored.state, quote=quotes.get(stored.quote_id))  # type: ignore[attr-defined]
        for stored in files
    )


def _line_count(stored: StoredFile, batches: Sequence[Batch]) -> int | None:
    """Give the lines of a file: of an output what the batch says, of an input what its newest quote has read."""
    for batch in batches:
        if stored.pk == batch.output_file_id:
            return batch.completed_count
        if stored.pk == batch.error_file_id:
            return batch.failed_count
        if stored.pk == batch.results_file_id:
            return batch.row_count
    if not stored.quote_id:
        return None
    at = created_at_of(stored.quote_id)
    quotes = Quote.objects.filter(public_id=stored.quote_id, created_at=at, organisation_id=stored.organisation_id)
    return quotes.values_list("row_count", flat=True).first() or None


def _deleted_by(organisation: Organisation, stored: StoredFile, batches: Sequence[Batch]) -> str:
    """Give who deleted a file, alone or with all of its batch; empty where nobody wrote it down."""
    deeds = Q(object_type="file", object_id=stored.public_id) | Q(
        object_type="batch", object_id__in=[batch.public_id for batch in batches], action="batch.files_deleted"
    )
    entries = AuditEntry.objects.filter(deeds, organisation=organisation)
    return entries.order_by("-pk").values_list("actor_name", flat=True).first() or ""
