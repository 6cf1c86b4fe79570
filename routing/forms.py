"""Filters of the lists of batches, of a batch's rows and of files, and an operator's decision about an unclear job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from django import forms

from ground.filters import DaysForm, ListFilterForm
from ground.reasons import REASON_MAX_CHARACTERS, REASON_MIN_CHARACTERS
from routing.accuracy import LearningHistory
from routing.batch_rows import FAILED, OPEN, SUCCEEDED, RowFilter
from routing.engine_steps import QUEUE_WORDS
from routing.engine_steps import STATE_WORDS as ENGINE_STATE_WORDS
from routing.file_pages import FileFilter
from routing.models import LearningChoice, ProviderJob, UnclearChoice
from routing.risks import RISK_WORDS
from routing.selectors import BatchFilter

# The tabs of a list, in their order.
STATE_WORDS = {
    "": "All",
    "running": "Running",
    "completed": "Completed",
    "partly_failed": "Partly failed",
    "failed": "Failed",
    "expired": "Expired",
    "cancelled": "Cancelled",
}

# The tabs of a batch's rows, in their order; the numbers of the batch count so too.
ROW_OUTCOME_WORDS = {"": "All", SUCCEEDED: "Succeeded", FAILED: "Failed", OPEN: "No outcome yet"}
FILE_STATE_WORDS = {"": "All", "kept": "Kept", "over": "Time is over", "deleted": "Deleted"}
_LAST_ROW = 2**31 - 1


def _search_field(label: str) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=80,
        widget=forms.TextInput({"type": "search", "size": "11", "autocomplete": "off"}),
    )


class BatchFilterForm(DaysForm):
    """Which of an organisation's batches to show."""

    text = _search_field("Name or id")
    model = _search_field("Model")
    state = forms.ChoiceField(
        label="State", required=False, choices=list(STATE_WORDS.items()), widget=forms.HiddenInput
    )
    field_order: tuple[str, ...] = ("text", "model", "since", "until", "state")

    def wanted(self, zone: ZoneInfo) -> BatchFilter:
        """Give what a valid form asks for."""
        cleaned = self.cleaned_data
        return BatchFilter(
            state=cleaned["state"],
            text=cleaned["text"],
            model=cleaned["model"],
            lane=cleaned.get("lane", ""),
            span=self.span(zone),
        )


class OperatorBatchFilterForm(BatchFilterForm):
    """Which of all batches to show."""

    customer = _search_field("Customer")
    lane = _search_field("Lane")
    risk = forms.ChoiceField(
        label="Risk", required=False, choices=[("", "All"), ("any", "Any risk"), *RISK_WORDS.items()]
    )
    field_order = ("text", "customer", "model", "lane", "risk", "since", "until", "state")


class EngineFilterForm(ListFilterForm):
    """Which of the engine's steps to show."""

    text = _search_field("Lane, batch or customer")
    state = forms.ChoiceField(label="State", required=False, choices=[("", "Any"), *ENGINE_STATE_WORDS.items()])
    queue = forms.ChoiceField(
        label="Queue", required=False, choices=[("", "All"), *QUEUE_WORDS.items()], widget=forms.HiddenInput
    )
    field_order = ("text", "state", "queue")


class FileFilterForm(DaysForm):
    """Which files to show."""

    text = _search_field("Name or id")
    purpose = forms.ChoiceField(
        label="Purpose", required=False, choices=[("", "Any"), ("batch", "Input"), ("batch_output", "Output")]
    )
    state = forms.ChoiceField(
        label="State", required=False, choices=list(FILE_STATE_WORDS.items()), widget=forms.HiddenInput
    )
    field_order = ("text", "purpose", "since", "until", "state")

    def wanted(self, zone: ZoneInfo) -> FileFilter:
        """Give what a valid form asks for."""
        cleaned = self.cleaned_data
        return FileFilter(
            text=cleaned["text"], purpose=cleaned["purpose"], state=cleaned["state"], span=self.span(zone)
        )


class RowFilterForm(ListFilterForm):
    """Which rows of a batch to show; the codes and lanes to choose from are the batch's own."""

    custom_id = _search_field("Custom id")
    code = forms.ChoiceField(label="Code", required=False)
    lane = forms.ChoiceField(label="Lane", required=False)
    outcome = forms.ChoiceField(
        label="Outcome", required=False, choices=list(ROW_OUTCOME_WORDS.items()), widget=forms.HiddenInput
    )
    # Where the page begins: behind this row.
    after = forms.IntegerField(required=False, min_value=0, max_value=_LAST_ROW, widget=forms.HiddenInput)

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 -- Django's own
        codes: Sequence[tuple[str, int]],
        lane_ids: Sequence[str],
        **kwargs: Any,  # noqa: ANN401 -- Django's own
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"] = forms.ChoiceField(
            label="Code",
            required=False,
            choices=[("", "Any"), *((code, f"{code} ({row_count:,})") for code, row_count in codes)],
        )
        self.fields["lane"] = forms.ChoiceField(
            label="Lane", required=False, choices=[("", "Any"), *((lane_id, lane_id) for lane_id in lane_ids)]
        )

    def chosen(self) -> dict[str, str]:
        """Give the filters that are set; where the page begins is none."""
        return {name: value for name, value in super().chosen().items() if name != "after"}

    def wanted(self) -> RowFilter:
        """Give what a valid form asks for."""
        cleaned = self.cleaned_data
        return RowFilter(
            outcome=cleaned["outcome"], code=cleaned["code"], lane_id=cleaned["lane"], custom_id=cleaned["custom_id"]
        )

    def after_row(self) -> int:
        """Give the row behind which a valid form's page begins; -1: it begins with the first."""
        after = self.cleaned_data["after"]
        return -1 if after is None else int(after)


class UnclearJobForm(forms.Form):
    """What becomes of a job of which nobody can tell whether its provider has it, and why."""

    choice = forms.ChoiceField(label="What is true", widget=forms.RadioSelect)
    reason = forms.CharField(
        label="Reason",
        min_length=REASON_MIN_CHARACTERS,
        max_length=REASON_MAX_CHARACTERS,
        help_text="What you saw at the provider. It is kept with your name.",
        widget=forms.Textarea({"rows": 3}),
    )

    def __init__(self, *args: Any, job: ProviderJob, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        adoptions = [
            (f"{UnclearChoice.ADOPT.value}:{candidate['batch_ref']}", f"It is {candidate['batch_ref']}: take that one")
            for candidate in job.candidates
        ]
        self.fields["choice"] = forms.ChoiceField(
            label="What is true",
            widget=forms.RadioSelect,
            choices=[
                *adoptions,
                (UnclearChoice.SEND_AGAIN.value, "It never arrived: send it again"),
                (UnclearChoice.GIVE_UP.value, "It cannot be told: give it up, its rows go to another lane or fail"),
            ],
        )

    def chosen(self) -> tuple[UnclearChoice, str]:
        """Give the choice of a valid form, and the provider's reference where one is adopted."""
        choice, _, batch_ref = self.cleaned_data["choice"].partition(":")
        return UnclearChoice(choice), batch_ref


class LearningForm(forms.Form):
    """Whether what was learned of a model is used, from which version on, and why."""

    choice = forms.ChoiceField(label="What holds from now on", widget=forms.RadioSelect)
    to_version = forms.TypedChoiceField(
        label="Version to go back to", required=False, coerce=int, empty_value=None, widget=forms.Select
    )
    reason = forms.CharField(
        label="Reason",
        min_length=REASON_MIN_CHARACTERS,
        max_length=REASON_MAX_CHARACTERS,
        help_text="It is kept with your name. Quotes that were made keep their figures.",
        widget=forms.Textarea({"rows": 3}),
    )

    def __init__(self, *args: Any, history: LearningHistory, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        switch = LearningChoice.OFF if history.learned.is_on else LearningChoice.ON
        self.fields["choice"] = forms.ChoiceField(
            label="What holds from now on",
            widget=forms.RadioSelect,
            choices=[(choice.value, choice.label) for choice in (switch, LearningChoice.BACK)],
        )
        versions = [(each.version, f"{each.version} of {each.learned_at:%d %b %H:%M} UTC") for each in history.versions]
        to_version = self.fields["to_version"]
        assert isinstance(to_version, forms.TypedChoiceField), "it is declared so above"
        to_version.choices = [("", "None"), *versions[1:]]

    def clean(self) -> dict[str, Any]:
        """Ask for a version where one is gone back to."""
        cleaned = super().clean() or {}
        if cleaned.get("choice") == LearningChoice.BACK and not cleaned.get("to_version"):
            self.add_error("to_version", "Choose the version to go back to.")
        return cleaned

    def chosen(self) -> tuple[LearningChoice, int | None]:
        """Give the choice of a valid form, and its version where it goes back."""
        choice = LearningChoice(self.cleaned_data["choice"])
        return choice, self.cleaned_data["to_version"] if choice == LearningChoice.BACK else None
