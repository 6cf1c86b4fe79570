"""Reading a report in the background: piece by piece, each in a transaction of its own that checks the fence.

Law: every line of the file is a row, as read or as bad. A run that is killed leaves pieces that the next one removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from itertools import islice
from typing import Final

from django.conf import settings
from django.db import connection
from django.db.models import Q

from billing.reconciliation.domain.records import (
    BadLine,
    BillLine,
    ColumnMapping,
    FileEnd,
    Format,
    Item,
    ReadOptions,
    UnreadableFile,
)
from billing.reconciliation.domain.registry import PARSER_VERSION, read_report
from billing.reconciliation.domain.values import decimals_of, pico_usd_of
from billing.reconciliation.models import (
    BadInvoiceLine,
    FileState,
    InvoiceFile,
    InvoiceLine,
    ProviderInvoice,
)
from billing.reconciliation.services.matching import match_is_due
from ground import clock
from ground.blobs import open_blob
from ground.leases import Keeper, Lease, claim, moving_on, unless_lost
from ground.wake import wake

_LINES_AT_ONCE: Final = 5_000
# What has ended so many runs ends the next one too.
_RUNS_MAX: Final = 5
_COLUMNS: Final = (
    "file_id, line, account, window_start, window_end, model_name, tier, token_class, project, quantity, unit,"
    " amount_pico_usd, currency, charge_kind, is_long_context, reference, format_note, raw, raw_row_hash"
)


class _Cancelled(Exception):
    """A person asked to stop."""


def read_next_file() -> bool:
    """Read the file that has been due longest; say whether there was one."""
    lease = claim(InvoiceFile, state_field="state", states=(FileState.UPLOADED,))
    if lease is None:
        return False
    with unless_lost():
        try:
            _read(lease)
        except _Cancelled:
            with _emptied(lease) as file:
                file.state, file.due_at = FileState.CANCELLED, None
        except UnreadableFile as error:
            with _emptied(lease) as file:
                file.state, file.trouble, file.due_at = FileState.UNREADABLE, error.message[:300], None
        except FileNotFoundError:
            with _emptied(lease) as file:
                file.state, file.trouble, file.due_at = FileState.UNREADABLE, "The bytes of the file are lost.", None
    return True


def options_of(file: InvoiceFile) -> ReadOptions:
    """Give how a file is read."""
    mapping = None if file.mapping is None else ColumnMapping(**file.mapping)
    return ReadOptions(
        mapping=mapping, is_parquet=file.is_parquet, unpacked_max_bytes=settings.REPORT_UNPACKED_MAX_BYTES
    )


def _read(lease: Lease) -> None:
    if lease.fence > _RUNS_MAX:
        raise UnreadableFile(f"Reading broke off {_RUNS_MAX} times. Nothing of the file counts.")
    with _emptied(lease, keep_lease=True) as file:
        blob_name, report_format, options, period = (
            file.blob_name,
            file.report_format,
            options_of(file),
            (file.invoice.period),
        )
    totals = _Totals(period)
    keep = Keeper(lease)
    with open_blob(blob_name) as blob:
        items = read_report(Format(report_format), blob, options)
        while piece := list(islice(items, _LINES_AT_ONCE)):
            totals.add(piece)
            with moving_on(InvoiceFile, lease, keep_lease=True) as file:
                if file.is_cancel_asked:
                    raise _Cancelled
                _copy_lines(file.pk, piece)
                file.read_line_count = totals.line_count + totals.bad_line_count
            keep()
    if totals.line_count and totals.inside_count == 0:
        raise UnreadableFile(f"No line of the file lies in {period:%B %Y}.")
    _finish(lease, totals)


class _Totals:
    """What a file adds up to while it is read."""

    def __init__(self, period: date) -> None:
        self._period = period
        self.line_count = self.bad_line_count = self.inside_count = 0
        self.total_pico_usd = 0
        self.amount_decimals_count = 0
        self.end = FileEnd(page_count=0, incomplete_reason="The file breaks off.")

    def add(self, piece: list[Item]) -> None:
        for item in piece:
            if isinstance(item, FileEnd):
                self.end = item
            elif isinstance(item, BadLine):
                self.bad_line_count += 1
            else:
                self.line_count += 1
                # A line of the month before that ends in it counts too: zones differ.
                self.inside_count += self._period in {
                    item.window_start.date().replace(day=1),
                    item.window_end.date().replace(day=1),
                }
                if item.amount is not None:
                    self.amount_decimals_count = max(self.amount_decimals_count, decimals_of(item.amount))
                    if item.currency == "USD":
                        self.total_pico_usd += pico_usd_of(item.amount)


@contextmanager
def _emptied(lease: Lease, *, keep_lease: bool = False) -> Iterator[InvoiceFile]:
    """Give the claimed file without the lines that an earlier run left."""
    with moving_on(InvoiceFile, lease, keep_lease=keep_lease) as file:
        InvoiceLine.objects.filter(file=file).delete()
        BadInvoiceLine.objects.filter(file=file).delete()
        file.read_line_count = 0
        yield file


def _finish(lease: Lease, totals: _Totals) -> None:
    """Let a file that was read take the place of the one before, and ask for a match."""
    with moving_on(InvoiceFile, lease) as file:
        at = clock.now()
        invoice = ProviderInvoice.objects.select_for_update().get(pk=file.invoice_id)
        current = Q(invoice=invoice, has_money=file.has_money, state=FileState.READ)
        InvoiceFile.objects.filter(current).update(state=FileState.REPLACED)
        file.state, file.read_at, file.due_at = FileState.READ, at, None
        file.parser_version = PARSER_VERSION
        file.page_count, file.incomplete_reason = totals.end.page_count, totals.end.incomplete_reason[:200]
        file.line_count, file.bad_line_count = totals.line_count, totals.bad_line_count
        file.amount_decimals_count = totals.amount_decimals_count
        file.total_pico_usd = totals.total_pico_usd
        ProviderInvoice.objects.filter(pk=invoice.pk).update(**match_is_due(at))
        wake("billing.match_invoices")


def _copy_lines(file_id: int, piece: list[Item]) -> None:
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY billing_invoiceline ({_COLUMNS}) FROM STDIN") as copy:
            for item in piece:
                if isinstance(item, BillLine):
                    copy.write_row(_row(file_id, item))
        bad = [item for item in piece if isinstance(item, BadLine)]
        with cursor.copy("COPY billing_badinvoiceline (file_id, line, code, message, raw) FROM STDIN") as copy:
            for line in bad:
                copy.write_row((file_id, line.line, line.code, line.message[:300], line.raw))


def _row(file_id: int, line: BillLine) -> tuple[object, ...]:
    return (
        file_id,
        line.line,
        line.account,
        line.window_start,
        line.window_end,
        line.model_name,
        line.tier,
        line.token_class.value,
        line.project,
        line.quantity,
        line.unit,
        None if line.amount is None else pico_usd_of(line.amount),
        line.currency,
        line.charge_kind.value,
        line.is_long_context,
        line.reference,
        line.format_note[:160],
        line.raw,
        line.raw_row_hash,
    )
