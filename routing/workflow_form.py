"""The form of a workflow: amounts in USD as people write them, integers of micro-USD inside."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms

from routing.domain.constraints import DAY_MINUTES, LaneConstraints
from routing.domain.scoring import WebhookMode, WorkflowProfile
from routing.services.workflows import NAME_MAX_CHARACTERS, PENALTY_MAX_MICRO_USD, RATE_MAX_MICRO_USD_PER_MTOK
from routing.workflows import places

_MICRO = 1_000_000
_PLACES = 6
# What the service names, and the field that shows it.
FIELD_OF = {
    "name": "name",
    "penalty_micro_usd_per_minute": "penalty_per_minute",
    "penalty_micro_usd_per_percent": "penalty_per_percent",
    "constraints.regions": "regions",
    "constraints.providers_allowed": "providers_allowed",
    "constraints.providers_denied": "providers_denied",
    "constraints.max_input_rate_micro_usd_per_mtok": "max_input_rate",
    "constraints.max_output_rate_micro_usd_per_mtok": "max_output_rate",
    "constraints.finish_by_minutes": "finish_by_minutes",
}


def _usd_field(label: str, help_text: str, highest_micro_usd: int, *, required: bool) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        help_text=help_text,
        required=required,
        min_value=0,
        max_value=highest_micro_usd // _MICRO,
        decimal_places=_PLACES,
        widget=forms.TextInput({"inputmode": "decimal", "autocomplete": "off"}),
    )


def _ticks(label: str, help_text: str) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        label=label, help_text=help_text, required=False, widget=forms.CheckboxSelectMultiple
    )


class WorkflowForm(forms.Form):
    """What a workflow says."""

    name = forms.CharField(
        label="Name",
        max_length=NAME_MAX_CHARACTERS,
        help_text="a-z, 0-9 and '-'. Programs say it: POST /v1/quotes/model?workflow=name. It is not changed later.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    penalty_per_minute = _usd_field(
        "A minute of waiting is worth (USD)",
        "Added to a lane's score for each minute of its p95 completion. Default 0.0005.",
        PENALTY_MAX_MICRO_USD,
        required=True,
    )
    penalty_per_percent = _usd_field(
        "A percent of errors is worth (USD)",
        "Added for each percent of the lane's error rate over 24 hours. Default 0.005.",
        PENALTY_MAX_MICRO_USD,
        required=True,
    )
    fan_out = forms.BooleanField(
        label="Fan out to a second lane when the best one would be over 90 % full", required=False
    )
    webhook_mode = forms.ChoiceField(
        label="Webhooks for low-cost batches",
        choices=[
            (WebhookMode.GATHER.value, "Gathered, every 30 seconds"),
            (WebhookMode.EACH.value, "One event each, at once"),
        ],
    )
    regions = _ticks("Regions allowed", "None ticked: every region.")
    providers_allowed = _ticks("Providers allowed", "None ticked: every provider that is not denied.")
    providers_denied = _ticks("Providers denied", "A denied provider is never used, not even for re-dispatched rows.")
    max_input_rate = _usd_field(
        "Highest input rate (USD per 1M tokens)",
        "Compared with what a lane charges for input tokens; equal is allowed.",
        RATE_MAX_MICRO_USD_PER_MTOK,
        required=False,
    )
    max_output_rate = _usd_field(
        "Highest output rate (USD per 1M tokens)",
        "Compared with what a lane charges for output tokens; equal is allowed.",
        RATE_MAX_MICRO_USD_PER_MTOK,
        required=False,
    )
    finish_by_minutes = forms.IntegerField(
        label="Finish by (minutes)",
        help_text="Compared with a lane's p95 completion; equal is allowed.",
        required=False,
        min_value=1,
        max_value=DAY_MINUTES,
        widget=forms.TextInput({"inputmode": "numeric", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, is_named: bool = False, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's own
        super().__init__(*args, **kwargs)
        known = places()
        for name, choices in (
            ("regions", known.regions),
            ("providers_allowed", known.providers),
            ("providers_denied", known.providers),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.MultipleChoiceField)
            field.choices = [(choice, choice) for choice in choices]
        if is_named:
            del self.fields["name"]

    def wanted(self, name: str) -> WorkflowProfile:
        """Give what a valid form asks for, under a name."""
        cleaned = self.cleaned_data
        return WorkflowProfile(
            name=name,
            penalty_micro_usd_per_minute=_micro(cleaned["penalty_per_minute"]) or 0,
            penalty_micro_usd_per_percent=_micro(cleaned["penalty_per_percent"]) or 0,
            fan_out=cleaned["fan_out"],
            webhook_mode=WebhookMode(cleaned["webhook_mode"]),
            constraints=LaneConstraints(
                regions=tuple(cleaned["regions"]),
                providers_allowed=tuple(cleaned["providers_allowed"]),
                providers_denied=tuple(cleaned["providers_denied"]),
                max_input_rate_micro_usd_per_mtok=_micro(cleaned["max_input_rate"]),
                max_output_rate_micro_usd_per_mtok=_micro(cleaned["max_output_rate"]),
                finish_by_minutes=cleaned["finish_by_minutes"],
            ),
        )


def shown_in_form(profile: WorkflowProfile) -> dict[str, Any]:
    """Give a form's first values from a profile."""
    constraints = profile.constraints
    return {
        "penalty_per_minute": _usd(profile.penalty_micro_usd_per_minute),
        "penalty_per_percent": _usd(profile.penalty_micro_usd_per_percent),
        "fan_out": profile.fan_out,
        "webhook_mode": profile.webhook_mode.value,
        "regions": list(constraints.regions),
        "providers_allowed": list(constraints.providers_allowed),
        "providers_denied": list(constraints.providers_denied),
        "max_input_rate": _usd(constraints.max_input_rate_micro_usd_per_mtok),
        "max_output_rate": _usd(constraints.max_output_rate_micro_usd_per_mtok),
        "finish_by_minutes": constraints.finish_by_minutes,
    }


def _micro(usd: Decimal | None) -> int | None:
    # Six places at most were let in, so this is exact.
    return None if usd is None else int(usd * _MICRO)


def _usd(micro_usd: int | None) -> str | None:
    if micro_usd is None:
        return None
    whole, part = divmod(micro_usd, _MICRO)
    return f"{whole}.{part:06}".rstrip("0").rstrip(".")
