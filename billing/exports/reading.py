"""Reads of exports: one organisation's, or the house's."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from accounts.models import Organisation
from accounts.selectors import DATABASE_NOW
from billing.exports.models import Export
from ground.errors import NotFound
from ground.ids import is_public_id


def export_by_id(organisation: Organisation | None, public_id: str, *, param: str | None = "export_id") -> Export:
    """Give an export of an organisation; of the house where there is none.

    Raises:
        NotFound: It has none by that id.
    """
    is_id = is_public_id(public_id, "exp_")
    found = _exports_of(organisation).filter(public_id=public_id).first() if is_id else None
    if found is None:
        raise NotFound("There is no such export.", param=param)
    return found


def export_page(organisation: Organisation | None, *, after: str | None, limit: int) -> tuple[list[Export], bool]:
    """Give up to ``limit`` exports, newest first, and whether there are more; ``after`` is the last of the page before.

    Raises:
        NotFound: ``after`` is no export of these.
    """
    found = _exports_of(organisation)
    if after is not None:
        last = export_by_id(organisation, after, param="after")
        found = found.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    page = list(found.order_by("-created_at", "-pk")[: limit + 1])
    return page[:limit], len(page) > limit


def file_of(export: Export) -> str:
    """Give the name of an export's blob.

    Raises:
        NotFound: It has none yet, or no more.
    """
    kept = Export.objects.filter(pk=export.pk, state="completed", swept_at=None, expires_at__gt=DATABASE_NOW)
    name = kept.values_list("blob_name", flat=True).first()
    if name is None:
        raise NotFound("The export has no file: it is not written yet, or its time is over.", param="export_id")
    return str(name)


def file_name_of(export: Export) -> str:
    """Give the name under which an export's file is saved: kind, days and their zone."""
    days = [day.isoformat() for day in (export.first_day, export.last_day) if day]
    parts = ["lanehouse", export.kind, *days, export.zone.replace("/", "-")]
    return f"{'_'.join(parts)}.{export.file_format}"


def _exports_of(organisation: Organisation | None) -> QuerySet[Export]:
    return Export.objects.select_related("organisation", "made_by", "api_key").filter(organisation=organisation)
