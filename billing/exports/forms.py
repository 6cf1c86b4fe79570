"""Asking for an export on a page: what, in which format and zone; days and filters come along from the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from accounts.models import OrganisationKind
from accounts.zones import zone_choices
from billing.exports.scope import FILTERS_OF_CUSTOMERS, FILTERS_OF_THE_HOUSE, ExportFormat, ExportKind, formats_of
from billing.forms import ACCOUNT_WORDS, CREDITED, ENTRY_WORDS, FINAL
from billing.reconciliation.forms import UNDECIDED_STATE
from billing.reconciliation.models import BreakState
from billing.reconciliation.views.shown import KIND_WORDS as BREAK_WORDS
from billing.reconciliation.views.shown import STATE_BADGES
from billing.services.exports import ExportWish
from ground.filters import DaysForm
from ground.given_texts import number_in
from ground.money_fields import usd_text

KIND_WORDS = {
    ExportKind.LEDGER: "Ledger",
    ExportKind.USAGE: "Usage",
    ExportKind.RECEIPTS: "Receipts, line by line",
    ExportKind.STATEMENTS: "Statements, opening to closing",
    ExportKind.FOCUS: "FOCUS 1.2 (cost and usage)",
    ExportKind.JOURNAL: "Journal for beancount",
    ExportKind.BREAKS: "Breaks of provider invoices",
}
FORMAT_WORDS = {
    ExportFormat.CSV: "CSV",
    ExportFormat.JSONL: "JSON Lines",
    ExportFormat.PARQUET: "Parquet",
    ExportFormat.BEANCOUNT: "beancount",
}
FILTER_WORDS = {
    "kind": "Kind",
    "model": "Model",
    "key": "Key",
    "lane": "Lane",
    "text": "Text",
    "state": "State",
    "organisation": "Organisation",
    "account": "Account",
    "account_kind": "Kind of account",
    "least_micro_usd": "At least",
    "most_micro_usd": "At most",
    "book": "Book",
    "provider": "Provider",
    "owner": "Owner",
    "period": "Month",
    "invoice": "Invoice",
    "min_difference": "Least difference, USD",
}
# What the service calls a field, and what the form does.
FIELD_OF = {"kind": "of", "format": "written_as", "since": "since", "until": "until", "zone": "zone"}


_SAID: dict[tuple[ExportKind | None, str], Mapping[Any, str]] = {
    (ExportKind.LEDGER, "kind"): ENTRY_WORDS,
    (ExportKind.LEDGER, "account_kind"): ACCOUNT_WORDS,
    (ExportKind.LEDGER, "book"): {OrganisationKind.TEST: "Play money", OrganisationKind.CUSTOMER: "Customers"},
    (ExportKind.BREAKS, "kind"): BREAK_WORDS,
    (ExportKind.BREAKS, "state"): {
        UNDECIDED_STATE: "Undecided",
        **{state: STATE_BADGES[state][1] for state in BreakState},
    },
    (ExportKind.RECEIPTS, "state"): {FINAL: "Final", CREDITED: "Credited"},
}
_MONEY = frozenset({"least_micro_usd", "most_micro_usd"})


def filter_words(kind: ExportKind | None, filters: Mapping[str, str]) -> list[tuple[str, str]]:
    """Give an export's filters as the screen that they come from says them: (label, value), by name."""
    return [(FILTER_WORDS[name], _said(kind, name, value)) for name, value in sorted(filters.items())]


def _said(kind: ExportKind | None, name: str, value: str) -> str:
    # A link may say anything: only what is an amount of ours is shown as one.
    micro_usd = number_in(value) if name in _MONEY else None
    if micro_usd is not None:
        return f"${usd_text(micro_usd)}"
    return str(_SAID.get((kind, name), {}).get(value, value))


class ExportForm(DaysForm):
    """An export to be made. ``of`` is its kind: screens have filters by that name."""

    of = forms.ChoiceField(label="What")
    written_as = forms.ChoiceField(label="Format", choices=[(each.value, FORMAT_WORDS[each]) for each in FORMAT_WORDS])
    zone = forms.ChoiceField(
        label="Days in", choices=zone_choices, error_messages={"invalid_choice": "This is no time zone of the list."}
    )
    field_order = ("of", "written_as", "since", "until", "zone")

    def __init__(self, *args: Any, is_of_the_house: bool, **named: Any) -> None:  # noqa: ANN401 -- as forms have it
        """Offer the kinds of a customer, or those of the house, with a hidden field for each filter."""
        super().__init__(*args, **named)
        known = FILTERS_OF_THE_HOUSE if is_of_the_house else FILTERS_OF_CUSTOMERS
        self.fields["of"] = forms.ChoiceField(label="What", choices=[(kind.value, KIND_WORDS[kind]) for kind in known])
        if not is_of_the_house:
            self.fields["written_as"] = forms.ChoiceField(
                label="Format", choices=[(each.value, FORMAT_WORDS[each]) for each in formats_of(ExportKind.LEDGER)]
            )
        self._names = sorted(set().union(*known.values()))
        for name in self._names:
            self.fields[name] = forms.CharField(
                label=FILTER_WORDS[name], required=False, max_length=200, widget=forms.HiddenInput
            )

    def carried(self) -> list[tuple[str, str]]:
        """Give the filters that came along from a screen, in words."""
        kind = ExportKind(self["of"].value()) if self["of"].value() in set(ExportKind) else None
        return filter_words(kind, {name: value for name in self._names if (value := self[name].value())})

    def wish(self) -> ExportWish:
        """Give what a valid form asks for."""
        cleaned = self.cleaned_data
        return ExportWish(
            kind=cleaned["of"],
            file_format=cleaned["written_as"],
            first_day=cleaned["since"],
            last_day=cleaned["until"],
            zone=cleaned["zone"],
            filters={name: cleaned[name] for name in self._names if cleaned[name]},
        )
