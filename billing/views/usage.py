"""Usage: cards, bars by day and a table by model, key, lane or batch; all in one region that the filters replace."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.models import Membership, Organisation
from accounts.pages import member_page, region_asked_for
from accounts.zones import reporting_zone_of
from billing.exports.scope import ExportKind
from billing.usage.forms import UsageFilterForm
from billing.usage.reading import Dimension, batch_usage_page, last_usage_before, usage_rows
from billing.views import shown
from billing.views.usage_shown import bars_of, cuts_of, groups_of, receipt_place, total_of
from ground import clock

_BATCHES_PER_PAGE: Final = 50
# More days and groups than any page has; the form bounds the days.
_ROWS_MAX: Final = 200_000
_REGION = "list"


@require_safe
@member_page
def usage_page(request: HttpRequest, membership: Membership) -> HttpResponse:
    """Show an organisation's usage in days of its reporting zone; alone: the region ``list``."""
    organisation = membership.organisation
    zone = reporting_zone_of(organisation)
    form = UsageFilterForm(request.GET)
    context: dict[str, Any] = {"active_nav": "usage", "form": form, "reporting_zone": zone.key}
    if form.is_valid():
        since, until = form.days(clock.now().astimezone(zone).date())
        context |= {"since": since, "until": until, "chips": form.chips(without=frozenset({"by"}))}
        days = {"since": since.isoformat(), "until": until.isoformat()}
        named = {name: value for name, value in form.chosen().items() if name in {"model", "key", "lane"}}
        context["export_url"] = shown.export_url(membership, ExportKind.USAGE, {**days, **named})
        context |= _usage(request, organisation, form, since, until)
    is_region = region_asked_for(request) == _REGION
    return render(request, f"billing/{'_usage_region' if is_region else 'usage'}.html", context)


def _usage(
    request: HttpRequest, organisation: Organisation, form: UsageFilterForm, since: date, until: date
) -> dict[str, Any]:
    zone, choice, dimension = reporting_zone_of(organisation), form.choice(), form.dimension()
    cuts = cuts_of(since, until, zone)
    is_by_batch = dimension is Dimension.BATCH
    by = () if is_by_batch else (dimension,)
    rows = usage_rows(organisation, cuts, by=by, chosen=choice, limit=_ROWS_MAX)
    if not rows:
        last_at = last_usage_before(organisation, cuts[0])
        last_day = last_at.astimezone(zone).date() if last_at else None
        return {"last_day": last_day, "last_day_query": f"?since={last_day}&until={last_day}"}
    groups = groups_of(organisation, rows, dimension, form) if by else ()
    found: dict[str, Any] = {
        "total": total_of(rows),
        "groups": groups,
        "chart": bars_of(cuts, rows, groups, zone),
        "is_by_batch": is_by_batch,
        "dimension": dimension.name.lower(),
    }
    if is_by_batch:
        after = request.GET.get("after") or None
        page, has_more = batch_usage_page(
            organisation,
            cuts[0],
            cuts[-1],
            chosen=choice,
            before_receipt=receipt_place(organisation, after),
            limit=_BATCHES_PER_PAGE,
        )
        found |= {
            "batches": page,
            "older_url": request.path + form.query(after=page[-1].batch_public_id) if has_more else "",
        }
    return found
