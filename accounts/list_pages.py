"""A list: one page and its region for all of them. What a row shows is each list's own table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.pages import region_asked_for
from ground.filters import ListFilterForm

ROWS_PER_PAGE = 50
_REGION = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A button in the page's head; ``key`` is its element's id. A dialog's, or a plain link's."""

    key: str
    label: str
    url: str
    icon: str = ""
    is_dialog: bool = False
    is_primary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """What a list is called and says.

    ``table`` is the template of its rows, ``above`` one between head and filters, ``bulk`` the form of what is done
    with the rows that are ticked. ``empty_deed`` is the button of a list that nothing is in yet.
    """

    nav: str
    title: str
    heading: str
    lead: str
    what: str
    table: str
    empty_title: str
    empty_text: str
    deeds: Sequence[Deed] = ()
    crumbs: Sequence[dict[str, str]] = ()
    above: str = ""
    bulk: str = ""
    empty_deed: Deed | None = None


def show_list(
    request: HttpRequest, page: ListPage, form: ListFilterForm, rows: Sequence[Any], *, next_after: str, **more: object
) -> HttpResponse:
    """Show a page of a list; alone: its region ``list``.

    Args:
        request: The request, whose ``after`` is the cursor.
        page: What the list is.
        form: Its filters, validated or not.
        rows: What the table shows.
        next_after: The cursor of the next page; empty where there is none.
        more: What the table or the part above needs.
    """
    context = list_context(request, page, form, rows, next_after=next_after) | more
    return render(request, "_list_region.html" if region_asked_for(request) == _REGION else "list.html", context)


def list_context(
    request: HttpRequest, page: ListPage, form: ListFilterForm, rows: Sequence[Any], *, next_after: str
) -> dict[str, Any]:
    """Give what ``_list_region.html`` needs, for a page that holds more than its list."""
    return {
        "active_nav": page.nav,
        "page": page,
        "form": form,
        "chips": form.chips(),
        "rows": rows,
        "list_url": request.path,
        "is_first_page": not request.GET.get("after"),
        "newest_url": request.path + form.query(),
        "older_url": request.path + form.query(after=next_after) if next_after else "",
    }
