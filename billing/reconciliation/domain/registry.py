"""Which reader reads which report, and what each is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from billing.reconciliation.domain import anthropic_reports, cur, focus, mapped, openai_reports
from billing.reconciliation.domain.records import Format, Item, ReadOptions

# Goes up with every change that reads a file otherwise; kept with each file.
PARSER_VERSION: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A format: its name for people, and its reader. ``has_money`` is False for usage, the second evidence."""

    name: str
    read: Callable[[BinaryIO, ReadOptions], Iterator[Item]]
    has_money: bool = True
    is_table: bool = False


REPORTS: Final = {
    Format.OPENAI_COSTS: Report(name="OpenAI costs (JSON pages)", read=openai_reports.read_costs),
    Format.OPENAI_USAGE: Report(name="OpenAI usage (JSON pages)", read=openai_reports.read_usage, has_money=False),
    Format.ANTHROPIC_COST: Report(name="Anthropic cost (JSON pages)", read=anthropic_reports.read_cost),
    Format.ANTHROPIC_USAGE: Report(
        name="Anthropic usage (JSON pages)", read=anthropic_reports.read_usage, has_money=False
    ),
    Format.FOCUS: Report(name="FOCUS 1.0 to 1.2 (CSV, Parquet)", read=focus.read, is_table=True),
    Format.AWS_CUR: Report(name="AWS CUR 2.0 (CSV, Parquet)", read=cur.read, is_table=True),
    Format.MAPPED_CSV: Report(name="Another CSV, by a mapping", read=mapped.read, is_table=True),
}


def read_report(report_format: Format, stream: BinaryIO, options: ReadOptions) -> Iterator[Item]:
    """Read a report to the normal form, streamed; the last item is the :class:`FileEnd`.

    Raises:
        UnreadableFile: It is not of this format at all.
    """
    return REPORTS[report_format].read(stream, options)
