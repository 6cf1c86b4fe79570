"""What the pages and the API of reconciliation read. All of it is the house's own; no customer sees any."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from typing import Any, Final

from django.db.models import Count, F, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Abs, Coalesce

from billing.reconciliation.checklist import expected_accounts
from billing.reconciliation.domain.records import BadLine, BillLine, ColumnMapping, Format, ReadOptions, UnreadableFile
from billing.reconciliation.domain.registry import read_report
from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.domain.tables import TableRow, rows_of
from billing.reconciliation.models import (
    UNDECIDED,
    BadInvoiceLine,
    Break,
    BreakState,
    Bucket,
    FileState,
    InvoiceFile,
    ProviderInvoice,
)
from ground.blobs import open_blob
from ground.errors import NotFound
from ground.given_texts import is_storable

PREVIEW_ROW_COUNT = 20
UNEXPLAINED = Q(kind=BreakKind.UNEXPLAINED.value, state__in=UNDECIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """How well invoices and books agree, in pico-USD of sizes (no signs): exact, explained, unexplained, waiting.

    A break that somebody decided counts as explained. ``undecided_count`` are those that nobody has.
    """

    exact_pico_usd: int = 0
    explained_pico_usd: int = 0
    unexplained_pico_usd: int = 0
    waiting_pico_usd: int = 0
    invoiced_pico_usd: int = 0
    ours_pico_usd: int = 0
    explained_count: int = 0
    unexplained_count: int = 0
    undecided_count: int = 0
    oldest_unexplained_at: datetime | None = None
    oldest_undecided_at: datetime | None = None

    @property
    def whole_pico_usd(self) -> int:
        """All of it."""
        return self.exact_pico_usd + self.explained_pico_usd + self.unexplained_pico_usd + self.waiting_pico_usd

    @property
    def difference_pico_usd(self) -> int:
        """Invoiced less ours."""
        return self.invoiced_pico_usd - self.ours_pico_usd


def headline(invoices: QuerySet[ProviderInvoice]) -> Headline:
    """Give the headline of some invoices."""
    sums = invoices.aggregate(
        exact=Coalesce(Sum("exact_pico_usd"), 0, output_field=_pico()),
        waiting=Coalesce(Sum("waiting_pico_usd"), 0, output_field=_pico()),
        invoiced=Coalesce(Sum("invoiced_pico_usd"), 0, output_field=_pico()),
        ours=Coalesce(Sum("ours_pico_usd"), 0, output_field=_pico()),
    )
    size = Abs(F("difference_pico_usd"))
    found = (
        Break.objects.filter(invoice__in=invoices)
        .exclude(state=BreakState.CLEARED)
        .aggregate(
            explained=Coalesce(Sum(size, filter=~UNEXPLAINED), 0, output_field=_pico()),
            unexplained=Coalesce(Sum(size, filter=UNEXPLAINED), 0, output_field=_pico()),
            explained_count=Count("pk", filter=~UNEXPLAINED),
            unexplained_count=Count("pk", filter=UNEXPLAINED),
            undecided_count=Count("pk", filter=Q(state__in=UNDECIDED)),
            oldest_unexplained_at=Min("opened_at", filter=UNEXPLAINED),
            oldest_undecided_at=Min("opened_at", filter=Q(state__in=UNDECIDED)),
        )
    )
    return Headline(
        exact_pico_usd=int(sums["exact"]),
        waiting_pico_usd=int(sums["waiting"]),
        invoiced_pico_usd=int(sums["invoiced"]),
        ours_pico_usd=int(sums["ours"]),
        explained_pico_usd=int(found.pop("explained")),
        unexplained_pico_usd=int(found.pop("unexplained")),
        **found,
    )


def _pico() -> Any:  # noqa: ANN401 -- a field
    return Bucket._meta.get_field("ours_pico_usd")  # noqa: SLF001 -- Django's documented model API


def invoices(*, text: str = "", period: date | None = None) -> QuerySet[ProviderInvoice]:
    """Give invoices, the newest month first, with the count of undecided breaks and the state of their last file."""
    last_file = InvoiceFile.objects.filter(invoice=OuterRef("pk")).order_by("-pk")
    found = ProviderInvoice.objects.annotate(
        undecided_count=Count("breaks", filter=Q(breaks__state__in=UNDECIDED), distinct=True),
        file_state=Subquery(last_file.values("state")[:1]),
    )
    if text:
        found = found.filter(
            Q(provider__icontains=text)
            | Q(provider_account__icontains=text)
            | Q(number__icontains=text)
            | Q(public_id=text)
        )
    if period is not None:
        found = found.filter(period=period)
    return found.order_by("-period", "-pk")


def invoice_page(
    *, after: str, limit: int, text: str = "", period: date | None = None
) -> tuple[list[ProviderInvoice], bool]:
    """Give up to ``limit`` invoices, the newest month first, and whether there are more.

    Args:
        after: Public id of the last invoice of the page before; empty for the first page.
        limit: How many a page has.
        text: Part of the provider, the account or the number; or an id.
        period: Of this month alone.

    Raises:
        NotFound: ``after`` is no invoice.
    """
    found = invoices(text=text, period=period)
    if after:
        last = invoice_by_id(after)
        found = found.filter(Q(period__lt=last.period) | Q(period=last.period, pk__lt=last.pk))
    page = list(found[: limit + 1])
    return page[:limit], len(page) > limit


def invoice_by_id(public_id: str) -> ProviderInvoice:
    """Give an invoice.

    Raises:
        NotFound: There is none.
    """
    found = invoices().filter(public_id=public_id).first()
    if found is None:
        raise NotFound("There is no such invoice.")
    return found


def invoices_of_account(provider: str, account: str, since: date, until: date) -> list[ProviderInvoice]:
    """Give the invoices of an account for the months from one day's to another's, the earlier first."""
    months = {"period__gte": since.replace(day=1), "period__lte": until}
    found = ProviderInvoice.objects.filter(provider=provider, provider_account=account, **months)
    return list(found.order_by("period", "pk"))


def missing_invoices(month: date) -> list[tuple[str, str]]:
    """Give the accounts on which something was run in a month and that have no invoice with money yet."""
    billed = set(
        ProviderInvoice.objects.filter(
            period=month, files__has_money=True, files__state__in=[FileState.READ, FileState.UPLOADED]
        ).values_list("provider", "provider_account")
    )
    return [account for account in expected_accounts(month) if account not in billed]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakChoice:
    """Which breaks. ``states`` empty: all that are still there; ``min_pico_usd`` is of the difference's size."""

    states: Sequence[str] = ()
    kind: str = ""
    provider: str = ""
    owner_id: int | None = None
    is_unowned: bool = False
    invoice: str = ""
    period: date | None = None
    since: date | None = None
    until: date | None = None
    min_pico_usd: int = 0


def breaks(choice: BreakChoice) -> QuerySet[Break]:
    """Give the breaks that match, the newest first."""
    found = Break.objects.select_related("invoice", "owner", "decided_by").defer("evidence")
    found = found.filter(state__in=choice.states) if choice.states else found.exclude(state=BreakState.CLEARED)
    filters = {
        "kind": choice.kind,
        "invoice__provider": choice.provider,
        "owner_id": choice.owner_id,
        "invoice__public_id": choice.invoice,
        "invoice__period": choice.period,
        "day__gte": choice.since,
        "day__lte": choice.until,
    }
    found = found.filter(**{name: value for name, value in filters.items() if value})
    if choice.is_unowned:
        found = found.filter(owner=None)
    if choice.min_pico_usd:
        found = found.filter(
            Q(difference_pico_usd__gte=choice.min_pico_usd) | Q(difference_pico_usd__lte=-choice.min_pico_usd)
        )
    return found.order_by("-opened_at", "-pk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Signed sums of a list's both sides, and how many it has."""

    count: int
    invoiced_pico_usd: int
    ours_pico_usd: int
    difference_pico_usd: int


def totals_of(found: QuerySet[Break] | QuerySet[Bucket] | QuerySet[ProviderInvoice]) -> Totals:
    """Give the total row of a filter, over all its pages; an invoice that is not matched adds nothing."""
    sums = found.order_by().aggregate(
        count=Count("pk", distinct=True),
        invoiced=Coalesce(Sum("invoiced_pico_usd"), 0, output_field=_pico()),
        ours=Coalesce(Sum("ours_pico_usd"), 0, output_field=_pico()),
    )
    invoiced_pico_usd, ours_pico_usd = int(sums["invoiced"]), int(sums["ours"])
    return Totals(
        count=sums["count"],
        invoiced_pico_usd=invoiced_pico_usd,
        ours_pico_usd=ours_pico_usd,
        difference_pico_usd=invoiced_pico_usd - ours_pico_usd,
    )


def break_by_id(public_id: str) -> Break:
    """Give a break.

    Raises:
        NotFound: There is none.
    """
    found = Break.objects.select_related("invoice", "owner", "decided_by").filter(public_id=public_id).first()
    if found is None:
        raise NotFound("There is no such break.")
    return found


def siblings_of(found: Break) -> QuerySet[Break]:
    """Give the other breaks of the same cause."""
    if not found.cause_key:
        return Break.objects.none()
    return (
        Break.objects.filter(invoice=found.invoice, cause_key=found.cause_key)
        .exclude(pk=found.pk)
        .exclude(state=BreakState.CLEARED)
        .order_by("pk")
    )


def page_after(found: QuerySet[Break], after: str, limit: int) -> tuple[list[Break], bool]:
    """Give the breaks after one in a list, and whether there are more.

    Raises:
        NotFound: ``after`` names none.
    """
    if after:
        last = break_by_id(after)
        found = found.filter(Q(opened_at__lt=last.opened_at) | Q(opened_at=last.opened_at, pk__lt=last.pk))
    page = list(found[: limit + 1])
    return page[:limit], len(page) > limit


_PLACE: Final = ("day", "model", "tier", "token_class", "project")


def place_page(invoice: ProviderInvoice, *, after: str, limit: int, state: str = "") -> tuple[list[Bucket], bool]:
    """Give up to ``limit`` compared places of an invoice, by day, and whether there are more.

    A cursor names a place, and not its row: matching again writes the rows anew.

    Raises:
        NotFound: ``after`` is no cursor of :func:`place_cursor`.
    """
    found = _places(invoice, state)
    if after:
        found = found.filter(_beyond(_PLACE, _read_cursor(after, date.fromisoformat, str, str, str, str)))
    page = list(found.order_by(*_PLACE)[: limit + 1])
    return page[:limit], len(page) > limit


def place_totals(invoice: ProviderInvoice, *, state: str = "") -> Totals:
    """Give the sums of an invoice's places, or of those in a state, over all pages."""
    return totals_of(_places(invoice, state))


def _places(invoice: ProviderInvoice, state: str) -> QuerySet[Bucket]:
    found = Bucket.objects.filter(invoice=invoice)
    return found.filter(state=state) if state else found


def place_cursor(bucket: Bucket) -> str:
    """Give the cursor of a place."""
    return _cursor_of(*(str(getattr(bucket, name)) for name in _PLACE))


def bad_line_page(file: InvoiceFile, *, after: str, limit: int) -> tuple[list[BadInvoiceLine], bool]:
    """Give up to ``limit`` bad lines of a file, in its order, and whether there are more.

    Raises:
        NotFound: ``after`` is no cursor of :func:`bad_line_cursor`.
    """
    found = BadInvoiceLine.objects.filter(file=file)
    if after:
        found = found.filter(_beyond(("line", "pk"), _read_cursor(after, int, int)))
    page = list(found.order_by("line", "pk")[: limit + 1])
    return page[:limit], len(page) > limit


def bad_line_cursor(line: BadInvoiceLine) -> str:
    """Give the cursor of a bad line."""
    return _cursor_of(line.line, line.pk)


def _cursor_of(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _read_cursor(text: str, *kinds: Callable[[Any], Any]) -> tuple[Any, ...]:
    try:
        values = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        read = tuple(kind(value) for kind, value in zip(kinds, values, strict=True))
    # Anybody can make one up: with endless numbers, endless nesting, half characters.
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise NotFound("There is no such place in this list.", param="after") from error
    if not all(is_storable(value) for value in read if isinstance(value, str)):
        raise NotFound("There is no such place in this list.", param="after")
    if any(not 0 <= value < 2**63 for value in read if isinstance(value, int)):
        raise NotFound("There is no such place in this list.", param="after")
    return read


def _beyond(names: Sequence[str], values: Sequence[object]) -> Q:
    """Give what comes after these values in the order of these fields."""
    found = Q(pk__in=[])
    for number, name in enumerate(names):
        same = dict(zip(names[:number], values, strict=False))
        found |= Q(**same, **{f"{name}__gt": values[number]})
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The first rows of a table: as they stand there, and as a mapping reads them (or why it cannot)."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    read: tuple[BillLine | BadLine, ...] = ()
    trouble: str = ""


def preview(file: InvoiceFile, mapping: ColumnMapping | None) -> Preview:
    """Give the first 20 rows of a draft."""
    delimiter = mapping.delimiter if mapping else ","
    try:
        with open_blob(file.blob_name) as blob:
            first = list(
                islice(
                    rows_of(blob, ReadOptions(is_parquet=file.is_parquet), needed=(), delimiter=delimiter),
                    PREVIEW_ROW_COUNT,
                )
            )
    except UnreadableFile as error:
        return Preview(header=(), rows=(), trouble=error.message)
    names = tuple(dict.fromkeys(name for row in first if isinstance(row, TableRow) for name in row.cells))
    rows = tuple(tuple(row.cells.get(name, "") for name in names) for row in first if isinstance(row, TableRow))
    if mapping is None:
        return Preview(header=names, rows=rows)
    options = ReadOptions(mapping=mapping, is_parquet=file.is_parquet)
    try:
        with open_blob(file.blob_name) as blob:
            items = read_report(Format.MAPPED_CSV, blob, options)
            read = tuple(item for item in islice(items, PREVIEW_ROW_COUNT) if isinstance(item, BillLine | BadLine))
    except UnreadableFile as error:
        return Preview(header=names, rows=rows, trouble=error.message)
    return Preview(header=names, rows=rows, read=read)
