"""Forms of the operators' pages."""

from __future__ import annotations

from typing import Any

from django import forms

from catalog.domain.records import Rotation
from catalog.selectors import LaneOverview
from ground.reasons import REASON_MAX_CHARACTERS, REASON_MIN_CHARACTERS

_ROTATIONS = [
    (Rotation.IN.value, "In rotation"),
    (Rotation.DRAIN.value, "Draining"),
    (Rotation.OUT.value, "Out of rotation"),
]


class LaneFilterForm(forms.Form):
    """Which lanes to show; the URL's query string holds it."""

    text = forms.CharField(
        label="Model or lane", required=False, max_length=80, widget=forms.TextInput({"type": "search"})
    )
    provider = forms.ChoiceField(label="Provider", required=False)
    rotation = forms.ChoiceField(label="Rotation", required=False, choices=[("", "All"), *_ROTATIONS])

    def __init__(self, *args: Any, providers: dict[str, str], **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        self.fields["provider"] = forms.ChoiceField(
            label="Provider", required=False, choices=[("", "All"), *providers.items()]
        )


class LaneRotateForm(forms.Form):
    """A new rotation and the reason for it."""

    rotation = forms.ChoiceField(label="New rotation", widget=forms.RadioSelect)
    reason = forms.CharField(
        label="Reason",
        min_length=REASON_MIN_CHARACTERS,
        max_length=REASON_MAX_CHARACTERS,
        help_text="Colleagues read it in the lane's history.",
        widget=forms.Textarea({"rows": 3}),
    )

    def __init__(self, *args: Any, overview: LaneOverview, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        labels = {
            Rotation.IN: "In: takes new work",
            Rotation.DRAIN: "Drain: finishes what it has, is not quoted",
            Rotation.OUT: "Out: takes no work",
        }
        self.fields["rotation"] = forms.ChoiceField(
            label="New rotation",
            widget=forms.RadioSelect,
            choices=[
                (rotation.value, label)
                for rotation, label in labels.items()
                if rotation == Rotation.OUT or overview.can_come_in
            ],
        )
