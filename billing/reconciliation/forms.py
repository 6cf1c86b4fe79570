"""Forms of finance's pages of invoices, breaks and periods."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any, Final

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator

from accounts.models import StaffRole, User
from accounts.zones import zone_names
from billing.reconciliation.domain.decisions import SAID, Action
from billing.reconciliation.domain.mapped import AMOUNT_UNITS, FIELDS, NEEDED_FIELDS
from billing.reconciliation.domain.records import ColumnMapping, Format
from billing.reconciliation.domain.registry import REPORTS
from billing.reconciliation.domain.sides import BreakKind
from billing.reconciliation.models import UNDECIDED, Break, BreakState, ColumnMappingRow
from billing.reconciliation.months import FIRST, LAST
from billing.reconciliation.selectors import BreakChoice
from billing.reconciliation.views.shown import KIND_WORDS, STATE_BADGES
from catalog.selectors import provider_names
from ground.filters import DaysForm, ListFilterForm
from ground.reasons import REASON_MAX_CHARACTERS

_MONTH_FORMAT: Final = "%Y-%m"
_UNIT_WORDS: Final = {"usd": "US dollars", "cents": "Cents", "micro_usd": "Micro-USD"}
UNDECIDED_STATE: Final = "undecided"
NOBODY: Final = "nobody"


class MonthField(forms.DateField):
    """A month; its value is the first day."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(
            label="Month",
            input_formats=[_MONTH_FORMAT],
            widget=forms.DateInput({"type": "month"}, format=_MONTH_FORMAT),
            error_messages={"invalid": "Write a month as 2026-11."},
            validators=[MinValueValidator(FIRST), MaxValueValidator(LAST)],
            **kwargs,
        )

    def prepare_value(self, value: object) -> object:
        """Give a month as the query string spells it."""
        return value.strftime(_MONTH_FORMAT) if isinstance(value, date) else value


class InvoiceFilterForm(ListFilterForm):
    """Which invoices to show."""

    text = forms.CharField(
        label="Provider, account or number", required=False, max_length=80, widget=forms.TextInput({"type": "search"})
    )
    period = MonthField(required=False)
    field_order = ("text", "period")


class BreakFilterForm(DaysForm):
    """Which breaks to show."""

    state = forms.ChoiceField(
        label="State",
        required=False,
        choices=[
            ("", "All"),
            (UNDECIDED_STATE, "Undecided"),
            *((state.value, STATE_BADGES[state][1]) for state in BreakState),
        ],
    )
    kind = forms.ChoiceField(
        label="Kind", required=False, choices=[("", "Any"), *((each.value, KIND_WORDS[each]) for each in BreakKind)]
    )
    provider = forms.ChoiceField(label="Provider", required=False)
    owner = forms.ChoiceField(label="Owner", required=False)
    period = MonthField(required=False)
    invoice = forms.CharField(label="Invoice", required=False, max_length=40, widget=forms.HiddenInput)
    min_difference = forms.DecimalField(
        label="Min. difference, $", required=False, min_value=0, max_value=Decimal(10**9), max_digits=22
    )
    field_order = ("state", "kind", "provider", "owner", "period", "since", "until", "min_difference", "invoice")

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(*args, **kwargs)
        self.fields["provider"].choices = [("", "Any"), *provider_names().items()]  # type: ignore[attr-defined]  # a ChoiceField
        owners = [(str(person.pk), person.name) for person in finance_people()]
        self.fields["owner"].choices = [("", "Anybody"), (NOBODY, "Nobody"), *owners]  # type: ignore[attr-defined]  # the same

    def choice(self) -> BreakChoice:
        """Give what a valid form asks for."""
        cleaned = self.cleaned_data
        state, owner = cleaned["state"], cleaned["owner"]
        states = tuple(str(each) for each in UNDECIDED) if state == UNDECIDED_STATE else (state,) if state else ()
        return BreakChoice(
            states=states,
            kind=cleaned["kind"],
            provider=cleaned["provider"],
            owner_id=int(owner) if owner.isdigit() else None,
            is_unowned=owner == NOBODY,
            invoice=cleaned["invoice"],
            period=cleaned["period"],
            since=cleaned["since"],
            until=cleaned["until"],
            min_pico_usd=int((cleaned["min_difference"] or Decimal(0)).scaleb(12)),
        )


def finance_people() -> list[User]:
    """Give who may own breaks, by name."""
    roles = [StaffRole.FINANCE, StaffRole.SUPERADMIN]
    return list(User.objects.filter(staff_role__in=roles, is_active=True).order_by("name", "pk"))


class ImportForm(forms.Form):
    """A report, and what it does not say of itself."""

    file = forms.FileField(label="File", help_text="JSON pages, CSV (also gzipped) or Parquet, up to 2 GiB.")
    report_format = forms.ChoiceField(
        label="Report", choices=[(each.value, report.name) for each, report in REPORTS.items()]
    )
    provider = forms.ChoiceField(label="Provider")
    provider_account = forms.CharField(
        label="Our account there", max_length=80, help_text="As it stands with our lanes, so that attempts are found."
    )
    period = MonthField()
    number = forms.CharField(label="Invoice number", max_length=120, required=False)
    stated_total = forms.DecimalField(
        label="Total on the invoice, $",
        required=False,
        max_digits=18,
        decimal_places=6,
        help_text="Compared with the sum of the lines, to the micro-dollar.",
    )
    request_parameters = forms.CharField(
        label="How it was fetched",
        max_length=160,
        required=False,
        help_text="For example: group_by=project_id,line_item; limit=31.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(*args, **kwargs)
        self.fields["provider"].choices = list(provider_names().items())  # type: ignore[attr-defined]  # a ChoiceField

    def stated_total_micro_usd(self) -> int | None:
        """Give the typed total of a valid form."""
        total: Decimal | None = self.cleaned_data["stated_total"]
        return None if total is None else int(total.scaleb(6))

    def report_period(self) -> date:
        """Give the month of a valid form."""
        period: date = self.cleaned_data["period"]
        return period

    def format(self) -> Format:
        """Give the format of a valid form."""
        return Format(self.cleaned_data["report_format"])


class MappingForm(forms.Form):
    """Which column of somebody else's table is what."""

    saved = forms.ModelChoiceField(
        ColumnMappingRow.objects.order_by("name"), label="Saved mapping", required=False, empty_label="None"
    )
    amount_unit = forms.ChoiceField(label="Unit of money", choices=[(each, _UNIT_WORDS[each]) for each in AMOUNT_UNITS])
    currency = forms.CharField(label="Currency", initial="USD", max_length=3, min_length=3)
    zone = forms.ChoiceField(label="Time zone of its days", initial="UTC")
    tokens_per_unit_count = forms.TypedChoiceField(
        label="One unit is",
        coerce=int,
        initial=1,
        choices=[(1, "1 token"), (1_000, "1,000 tokens"), (1_000_000, "1,000,000 tokens")],
    )
    delimiter = forms.ChoiceField(
        label="Columns are split by",
        initial=",",
        choices=[(",", "Comma"), (";", "Semicolon"), ("\t", "Tab"), ("|", "Bar")],
    )
    save_as = forms.CharField(label="Keep this mapping as", max_length=80, required=False)

    def __init__(self, *args: Any, header: tuple[str, ...], **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(*args, **kwargs)
        self.fields["zone"].choices = [(name, name) for name in sorted(zone_names())]  # type: ignore[attr-defined]  # a ChoiceField
        columns = [("", "Not there"), *((name, name) for name in header)]
        for name, label in FIELDS.items():
            guess = next((column for column in header if column.strip().lower() in {name, label.lower()}), "")
            self.fields[f"column_{name}"] = forms.ChoiceField(
                label=label, required=name in NEEDED_FIELDS, choices=columns, initial=guess
            )

    def columns(self) -> list[forms.BoundField]:
        """Give the fields that name columns."""
        return [self[f"column_{name}"] for name in FIELDS]

    def settings(self) -> list[forms.BoundField]:
        """Give the others, but for the saved mapping and the name."""
        return [self[n] for n in ("amount_unit", "currency", "zone", "tokens_per_unit_count", "delimiter")]

    def mapping(self) -> ColumnMapping:
        """Give what a valid form says."""
        cleaned = self.cleaned_data
        columns = {name: cleaned[f"column_{name}"] for name in FIELDS if cleaned[f"column_{name}"]}
        return ColumnMapping(
            columns=columns,
            delimiter=cleaned["delimiter"],
            zone=cleaned["zone"],
            amount_unit=cleaned["amount_unit"],
            currency=cleaned["currency"].upper(),
            tokens_per_unit_count=cleaned["tokens_per_unit_count"],
        )


class ReasonForm(forms.Form):
    """A reason alone."""

    reason = forms.CharField(
        label="Reason",
        max_length=REASON_MAX_CHARACTERS,
        widget=forms.Textarea({"rows": 2, "autofocus": True}),
        help_text="Colleagues read it later.",
    )


class DecisionForm(ReasonForm):
    """One decision for one break or many."""

    action = forms.ChoiceField(choices=[(each.value, SAID[each]) for each in Action], widget=forms.HiddenInput)
    owner = forms.ModelChoiceField(User.objects.none(), label="Owner", required=False)
    entry_key = forms.CharField(label="Ledger entry", max_length=250, required=False, help_text="Its business key.")
    field_order = ("action", "owner", "entry_key", "reason")

    def __init__(self, *args: Any, action: Action, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(*args, **kwargs)
        self.fields["owner"].queryset = User.objects.filter(  # type: ignore[attr-defined]  # a ModelChoiceField
            staff_role__in=[StaffRole.FINANCE, StaffRole.SUPERADMIN], is_active=True
        ).order_by("name")
        self.fields["owner"].label_from_instance = lambda person: person.name  # type: ignore[attr-defined]  # the same
        if action is not Action.ASSIGN:
            del self.fields["owner"]
        if action is not Action.LINK:
            del self.fields["entry_key"]


def ids_of(values: list[str]) -> list[str]:
    """Give the ids among the ticks of a list, each once."""
    return list(dict.fromkeys(value for value in values if value))


def count_of(found: list[Break]) -> str:
    """Give how many breaks, in words."""
    return f"{len(found):,} break{'' if len(found) == 1 else 's'}"
