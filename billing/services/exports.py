"""Making exports: small ones at once, larger ones by a worker that may be killed at any instruction."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from accounts.audit import record
from accounts.models import ApiKey, Organisation, User
from accounts.selectors import DATABASE_NOW
from accounts.zones import reporting_zone_of, zone_named
from billing.exports.columns import plain
from billing.exports.models import Export, ExportState
from billing.exports.scope import (
    FILTERS_OF_CUSTOMERS,
    FILTERS_OF_THE_HOUSE,
    ExportFormat,
    ExportKind,
    ExportScope,
    formats_of,
    is_filter,
)
from billing.exports.writing import Written, rows_up_to, write_export
from ground import clock, retention_record
from ground.blobs import BlobWriter, WrittenBlob, blob_names, delete_blob, delete_overtaken
from ground.errors import InvalidRequest
from ground.filters import span_of_days
from ground.ids import created_at_of, is_public_id, new_public_id
from ground.leases import Lease, LeaseLost, claim, moving_on, unless_lost
from ground.retention_record import Kept
from ground.wake import wake

_log = logging.getLogger(__name__)
# Of one organisation, or of the house: nobody needs more at once, and each takes a worker.
_UNFINISHED_MAX: Final = 10
_COUNTED_MAX: Final = 100_000_000
_PROCESSES_MAX: Final = 5
_SECONDS_BETWEEN_TICKS: Final = 1.0
_FILES_PER_TURN: Final = 500
_PREFIX: Final = "exp_"
_FOLDER: Final = "exports"
# A call that writes its file at once is over long before; what has no row by then never gets one.
_ROW_IS_LATE_AFTER: Final = timedelta(hours=1)
_KEEPING: Final = ("public_id", "blob_name", "due_at")
_FAILED: Final = "The file could not be written. Ask for it again; if that fails too, write to us."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportWish:
    """What somebody asks for; days both included. Without a zone it is the organisation's, the house's is UTC."""

    kind: str
    file_format: str
    first_day: date | None = None
    last_day: date | None = None
    zone: str | None = None
    filters: Mapping[str, str] = field(default_factory=dict)


def create_export(
    organisation: Organisation | None,
    wish: ExportWish,
    *,
    made_by: User | None = None,
    api_key: ApiKey | None = None,
) -> Export:
    """Note an export, and write it at once where it is small.

    Args:
        organisation: Whose figures; None for the house's, of all its customers.
        wish: What is exported.
        made_by: The person who asks, if it is one.
        api_key: The key that asks, if it is one.

    Raises:
        InvalidRequest: It cannot be exported so; says which part.
    """
    at = clock.now()
    unfinished = Export.objects.filter(organisation=organisation, due_at__isnull=False)
    if unfinished.count() >= _UNFINISHED_MAX:
        raise InvalidRequest(
            f"{_UNFINISHED_MAX} exports are not finished yet: wait for one, or cancel it.", code="too_many_exports"
        )
    export = Export(
        public_id=new_public_id(_PREFIX, at),
        organisation=organisation,
        made_by=made_by,
        api_key=api_key,
        **_checked(organisation, wish),
        due_at=at,
        created_at=at,
        expires_at=at + settings.FILE_LIFETIME,
    )
    if rows_up_to(scope_of(export), settings.EXPORT_ROWS_AT_ONCE + 1) > settings.EXPORT_ROWS_AT_ONCE:
        _note(export)
        wake("billing.write_exports")
        return export
    # Claimed from the start: no worker takes it while it is written here, and one does if this process dies.
    export.state, export.fence = ExportState.RUNNING, 1
    export.lease_until = at + timedelta(seconds=settings.LEASE_SECONDS)
    _note(export)
    with unless_lost():
        _write(Lease(table=Export._meta.db_table, row_id=export.pk, fence=1))  # noqa: SLF001 -- Django's documented model API
    export.refresh_from_db()
    return export


def write_next_export() -> bool:
    """Write the export that has been due longest; say whether there was one."""
    lease = claim(Export, state_field="state", states=(ExportState.QUEUED, ExportState.RUNNING))
    if lease is None:
        return False
    with unless_lost():
        _write(lease)
    return True


@transaction.atomic
def cancel_export(export: Export) -> bool:
    """End an export that is not finished; whoever writes it finds its lease lost. Say whether it was ended here."""
    waiting = Export.objects.filter(pk=export.pk, state__in=[ExportState.QUEUED, ExportState.RUNNING])
    ended_count = waiting.update(
        state=ExportState.CANCELLED, due_at=None, lease_until=None, finished_at=clock.now(), fence=F("fence") + 1
    )
    if ended_count:
        record("export.cancelled", object_type="export", object_id=export.public_id, organisation=export.organisation)
    return bool(ended_count)


def sweep_exports() -> bool:
    """Remove the bytes of exports whose time is over; say whether there may be more to do."""
    over = Export.objects.filter(Q(expires_at__lte=DATABASE_NOW), swept_at=None, due_at=None)
    found = list(over.order_by("expires_at").values_list("pk", "blob_name")[:_FILES_PER_TURN])
    for key, name in found:
        if name:
            delete_blob(name)
        with transaction.atomic():
            marked = Export.objects.select_for_update().filter(pk=key, swept_at=None)
            sizes = list(marked.values_list("size_bytes", flat=True))
            marked.update(swept_at=clock.now())
            retention_record.add(Kept.EXPORTS, len(sizes), size_bytes=sum(size or 0 for size in sizes))
    if not found:
        retention_record.add(Kept.EXPORTS, 0, size_bytes=0)
    return len(found) == _FILES_PER_TURN


def scope_of(export: Export) -> ExportScope:
    """Give what an export is of."""
    zone = zone_named(export.zone)
    assert zone is not None, "a zone is checked before it is kept"
    span = span_of_days(export.first_day, export.last_day, zone)
    return ExportScope(
        kind=ExportKind(export.kind),
        organisation_id=export.organisation_id,
        since=span.since,
        until=span.until,
        zone=zone,
        filters=export.filters,
    )


def sweep_orphans() -> int:
    """Remove files that no export names and that nobody writes any more; give how many there were.

    A call whose transaction is rolled back, or whose process is killed before its end, leaves bytes without a row.
    """
    latest = clock.now() - _ROW_IS_LATE_AFTER
    names = (name for name in blob_names(_FOLDER) if _is_named_before(name, latest))
    removed_count = 0
    while some := list(islice(names, _FILES_PER_TURN)):
        rows = Export.objects.filter(public_id__in={_id_in(name) for name in some})
        # An export that is due has a next run, which removes what the ones before it left.
        kept = {public_id: None if due_at else blob for public_id, blob, due_at in rows.values_list(*_KEEPING)}
        for name in some:
            if kept.get(_id_in(name), "") not in {None, name}:
                delete_blob(name)
                removed_count += 1
    return removed_count


def _is_named_before(name: str, latest: datetime) -> bool:
    public_id = _id_in(name)
    return is_public_id(public_id, _PREFIX) and created_at_of(public_id) <= latest


def _id_in(name: str) -> str:
    return name.rpartition("/")[0].rpartition("/")[2]


@transaction.atomic
def _note(export: Export) -> None:
    export.save()
    changes = {"kind": ("", export.kind), "format": ("", export.file_format)}
    record(
        "export.made",
        object_type="export",
        object_id=export.public_id,
        organisation=export.organisation,
        changes=changes,
        user=export.made_by,
    )


def _checked(organisation: Organisation | None, wish: ExportWish) -> dict[str, object]:
    """Give a wish's fields, each found to be possible."""
    known = FILTERS_OF_THE_HOUSE if organisation is None else FILTERS_OF_CUSTOMERS
    if wish.kind not in known:
        raise InvalidRequest(f"'kind' is one of {', '.join(sorted(known))}.", param="kind")
    kind = ExportKind(wish.kind)
    formats = formats_of(kind)
    if wish.file_format not in formats:
        raise InvalidRequest(f"The format of this kind is one of {', '.join(formats)}.", param="format")
    filters = {name: value for name, value in wish.filters.items() if value}
    for name, value in filters.items():
        if name not in known[kind]:
            raise InvalidRequest(f"Exports of this kind have no filter {name[:40]!r}.", param="filters")
        if not is_filter(name, value):
            raise InvalidRequest(f"The filter {name!r} cannot have this value.", param="filters")
    default = "UTC" if organisation is None else reporting_zone_of(organisation).key
    zone = zone_named(default if wish.zone is None else wish.zone)
    if zone is None:
        raise InvalidRequest("'zone' is no time zone of the IANA list.", param="zone")
    first, last = wish.first_day, wish.last_day
    for param, day in (("since", first), ("until", last)):
        if day is not None and not date(2000, 1, 1) <= day < date(2999, 12, 31):
            raise InvalidRequest("Days are from 2000 to 2999.", param=param)
    if first and last and last < first:
        raise InvalidRequest("The last day is before the first.", param="until")
    return {
        "kind": kind,
        "file_format": ExportFormat(wish.file_format),
        "first_day": first,
        "last_day": last,
        "zone": zone.key,
        "filters": filters,
    }


class _Tick:
    """Says how far the writing is, and finds out whether it is still wanted."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._told_at = time.monotonic()

    def __call__(self, done_count: int) -> None:
        if time.monotonic() - self._told_at < _SECONDS_BETWEEN_TICKS:
            return
        self._told_at = time.monotonic()
        self._lease.renew()
        Export.objects.filter(pk=self._lease.row_id, fence=self._lease.fence).update(done_count=done_count)


def _write(lease: Lease) -> None:
    """Write a claimed export; killed anywhere, the next run begins again and removes what was left."""
    export = Export.objects.get(pk=lease.row_id)
    if lease.fence > _PROCESSES_MAX:
        _end_as_failed(lease)
        return
    folder = f"{_FOLDER}/{export.public_id}"
    delete_overtaken(folder, lease.fence)
    with moving_on(Export, lease, keep_lease=True) as row:
        row.state, row.done_count = ExportState.RUNNING, 0
        row.expected_count = rows_up_to(scope_of(row), _COUNTED_MAX)
    try:
        with BlobWriter(f"{folder}/{lease.fence}.{export.file_format}") as writer:
            written = write_export(scope_of(export), ExportFormat(export.file_format), writer.write, _Tick(lease))
            blob = writer.save()
    except LeaseLost:
        raise
    except Exception:  # noqa: BLE001 -- whatever it is, the row says so and nobody waits for ever
        _log.exception("export %s could not be written", export.public_id)
        _end_as_failed(lease)
        return
    try:
        _complete(lease, written, blob)
    except LeaseLost:
        delete_blob(blob.name)
        raise


def _complete(lease: Lease, written: Written, blob: WrittenBlob) -> None:
    with moving_on(Export, lease) as row:
        row.state, row.due_at, row.finished_at = ExportState.COMPLETED, None, clock.now()
        row.row_count = row.done_count = written.row_count
        row.totals = {name: plain(amount) for name, amount in written.totals.items()}
        row.size_bytes, row.sha256, row.blob_name = blob.size_bytes, blob.sha256, blob.name


def _end_as_failed(lease: Lease) -> None:
    with moving_on(Export, lease) as row:
        row.state, row.due_at, row.finished_at, row.failure = ExportState.FAILED, None, clock.now(), _FAILED
