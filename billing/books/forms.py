"""Forms of the books' pages."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import forms

from accounts.models import OrganisationKind
from billing.books.selectors import Axis
from billing.forms import ACCOUNT_WORDS, ENTRY_WORDS
from ground import clock
from ground.filters import DaysForm, ListFilterForm, day_field, span_of_days
from ground.money_fields import UsdField

_BOOKS = [("", "Customers"), (OrganisationKind.TEST.value, "Play money")]
MONTH = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])")


class EntryFilterForm(DaysForm):
    """Which legs of the ledger to show."""

    searches = "id_text"
    text = forms.CharField(
        label="Customer, reference or entry",
        required=False,
        max_length=250,
        widget=forms.TextInput({"type": "search"}),
    )
    account_kind = forms.ChoiceField(label="Account", required=False, choices=[("", "All"), *ACCOUNT_WORDS.items()])
    kind = forms.ChoiceField(label="Kind", required=False, choices=[("", "All"), *ENTRY_WORDS.items()])
    least_micro_usd = UsdField(label="At least USD", required=False)
    most_micro_usd = UsdField(label="At most USD", required=False)
    book = forms.ChoiceField(label="Book", required=False, choices=_BOOKS)
    field_order = ("text", "account_kind", "kind", "least_micro_usd", "most_micro_usd", "since", "until", "book")


class BalanceForm(ListFilterForm):
    """When, by which time and in which book accounts have a balance."""

    searches = ""
    until = day_field("At the end of")
    by = forms.ChoiceField(
        label="By", required=False, choices=[("", "Time of booking"), (Axis.EFFECTIVE.value, "Effective time")]
    )
    account_kind = forms.ChoiceField(label="Account", required=False, choices=[("", "All"), *ACCOUNT_WORDS.items()])
    book = forms.ChoiceField(label="Book", required=False, choices=_BOOKS)

    def axis(self) -> Axis:
        """Give which time of the entries counts, of a valid form."""
        return Axis(self.cleaned_data["by"] or Axis.BOOKED)

    def book_name(self) -> str:
        """Give the book of a valid form."""
        return str(self.cleaned_data["book"] or OrganisationKind.CUSTOMER)

    def instant(self, zone: ZoneInfo) -> datetime:
        """Give the last instant of the day that a valid form names, in a zone; now where it names none."""
        until = span_of_days(None, self.cleaned_data["until"], zone).until
        return until - timedelta(microseconds=1) if until else clock.now()


class PeriodForm(DaysForm):
    """The days of a statement; empty: the month that runs."""

    searches = ""
    field_order = ("since", "until")


class WalletFilterForm(ListFilterForm):
    """Which wallets to show."""

    searches = "id_text"
    text = forms.CharField(label="Customer", required=False, max_length=120, widget=forms.TextInput({"type": "search"}))
    below_micro_usd = UsdField(label="Available below USD", required=False)
    owing = forms.ChoiceField(label="Owes us", required=False, choices=[("", "All"), ("yes", "Something")])


class TopUpForm(forms.Form):
    """Money that came in."""

    amount_micro_usd = UsdField(label="Amount in USD")
    reference = forms.CharField(
        label="Reference of the payment",
        max_length=200,
        help_text="As the bank has it. The same reference twice is one top-up.",
    )
    received_on = forms.DateField(
        label="Received on", required=False, widget=forms.DateInput({"type": "date"}), help_text="Empty: today."
    )

    def clean_received_on(self) -> date | None:
        """Refuse days that are none of a payment."""
        day: date | None = self.cleaned_data["received_on"]
        if day is not None and day.year < 2000:  # noqa: PLR2004 -- as the filters have it
            raise forms.ValidationError("Choose a day after 2000.")
        return day

    def clean(self) -> dict[str, Any]:
        """Ask for something above zero."""
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("amount_micro_usd") == 0:
            self.add_error("amount_micro_usd", "Give an amount above zero.")
        return cleaned
