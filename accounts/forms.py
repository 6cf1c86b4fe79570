"""Forms: sign-in and passwords, settings and people, a new API key, the filters of lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib.auth.forms import AuthenticationForm, SetPasswordForm
from django.core.exceptions import ValidationError

from accounts.audit_pages import AuditChoice
from accounts.domain.audit import Area
from accounts.domain.scopes import SAID
from accounts.domain.staff_scopes import SAID as STAFF_SAID
from accounts.domain.staff_scopes import StaffScope
from accounts.models import ActorKind, MemberRole, Organisation, OrganisationKind, User
from accounts.selectors import KeyState
from accounts.services.organisations import KEY_NAME_MAX_CHARACTERS
from accounts.services.sign_in import Try, address_of
from accounts.zones import zone_choices
from ground.filters import DaysForm, ListFilterForm

_LIVE, _TEST = "live", "test"
_KINDS = {_LIVE: OrganisationKind.CUSTOMER, _TEST: OrganisationKind.TEST}
_LIFETIMES = {
    "never": ("Never", None),
    "7": ("After 7 days", timedelta(days=7)),
    "30": ("After 30 days", timedelta(days=30)),
    "90": ("After 90 days", timedelta(days=90)),
    "365": ("After a year", timedelta(days=365)),
}

_ROLES = {
    MemberRole.ADMIN: "Admin: everything, with keys, people and settings",
    MemberRole.DEVELOPER: "Developer: quotes, batches, files, webhooks",
    MemberRole.BILLING: "Billing: wallet, receipts, statements, exports",
    MemberRole.VIEWER: "Viewer: looks at batches and quotes",
}


class SignInForm(AuthenticationForm):
    """E-mail and password; the answer to a wrong pair never says which half was wrong."""

    error_messages = {  # noqa: RUF012 -- Django declares it on the instance
        "invalid_login": "The e-mail or the password is not right.",
        "inactive": "The e-mail or the password is not right.",
    }
    # Above zero: the try was not made, and this is how long to wait.
    wait_seconds = 0

    def clean(self) -> dict[str, Any]:
        """Look at the password only if this account may be tried from here.

        Raises:
            ValidationError: The pair is wrong, or tries went wrong too often.
        """
        email, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if not email or not password or self.request is None:
            return super().clean()
        attempt = Try(email=email, address=address_of(self.request))
        self.wait_seconds = attempt.begin()
        if self.wait_seconds:
            minutes = -(-self.wait_seconds // 60)
            unit = "minute" if minutes == 1 else "minutes"
            raise ValidationError(
                f"Too many sign-ins went wrong here, so this one was not tried. Try again in {minutes} {unit}."
            )
        cleaned = super().clean()
        attempt.succeed()
        return cleaned


class KeyForm(forms.Form):
    """What a new key is for, what it may do, and how long."""

    name = forms.CharField(
        label="Name",
        max_length=KEY_NAME_MAX_CHARACTERS,
        help_text="What will use it, so that you know it again.",
        widget=forms.TextInput({"autocomplete": "off", "autofocus": True}),
    )
    kind = forms.ChoiceField(
        label="For",
        choices=[(_LIVE, "Live: real lanes, your credit"), (_TEST, "Test: stand-in lanes, play credit")],
    )
    scopes = forms.MultipleChoiceField(
        label="It may",
        choices=[(scope.value, f"{said} ({scope.value})") for scope, said in SAID.items()],
        initial=[scope.value for scope in SAID],
        help_text="Each part may be read too by a key that acts on it.",
        error_messages={"required": "Tick at least one; a key that may do nothing is of no use."},
        widget=forms.CheckboxSelectMultiple,
    )
    lifetime_days = forms.ChoiceField(
        label="It expires", choices=[(key, words) for key, (words, _) in _LIFETIMES.items()], initial="never"
    )

    def owner(self, organisation: Organisation) -> Organisation:
        """Give whose key a valid form asks for: the organisation, or its test twin."""
        return organisation.test_twin if self.cleaned_data["kind"] == _TEST else organisation

    def lifetime(self) -> timedelta | None:
        """Give how long the key of a valid form is good; None for ever."""
        return _LIFETIMES[self.cleaned_data["lifetime_days"]][1]


class KeyFilterForm(ListFilterForm):
    """Which keys to show."""

    text = forms.CharField(
        label="Name or last four", required=False, max_length=80, widget=forms.TextInput({"type": "search"})
    )
    state = forms.ChoiceField(
        label="State", required=False, choices=[("", "All"), *((state.value, state.label) for state in KeyState)]
    )
    kind = forms.ChoiceField(label="For", required=False, choices=[("", "All"), (_LIVE, "Live"), (_TEST, "Test")])

    def wanted(self) -> dict[str, Any]:
        """Give what a valid form asks of the list."""
        cleaned = self.cleaned_data
        return {"text": cleaned["text"], "state": cleaned["state"], "kind": _KINDS.get(cleaned["kind"], "")}


class StaffKeyForm(forms.Form):
    """What a new key of one of our own people is for, what it may do, and how long; it always expires."""

    name = forms.CharField(
        label="Name",
        max_length=KEY_NAME_MAX_CHARACTERS,
        help_text="The program that will use it, so that you know it again.",
        widget=forms.TextInput({"autocomplete": "off", "autofocus": True}),
    )
    scope = forms.ChoiceField(
        label="It may",
        choices=[(scope.value, f"{said} ({scope.value})") for scope, said in STAFF_SAID.items()],
        widget=forms.RadioSelect,
        initial=StaffScope.FINANCE_READ.value,
    )
    lifetime_days = forms.ChoiceField(
        label="It expires",
        choices=[(key, words) for key, (words, span) in _LIFETIMES.items() if span is not None],
        initial="90",
    )

    def lifetime(self) -> timedelta:
        """Give how long the key of a valid form is good."""
        span = _LIFETIMES[self.cleaned_data["lifetime_days"]][1]
        assert span is not None, "never is not offered"
        return span


class StaffKeyFilterForm(ListFilterForm):
    """Which keys of our own people to show."""

    text = forms.CharField(
        label="Name, person or last four", required=False, max_length=80, widget=forms.TextInput({"type": "search"})
    )
    state = forms.ChoiceField(
        label="State", required=False, choices=[("", "All"), *((state.value, state.label) for state in KeyState)]
    )


class AuditFilterForm(DaysForm):
    """Which entries of the audit log to show."""

    text = forms.CharField(
        label="Object, action, person or reason",
        required=False,
        max_length=200,
        widget=forms.TextInput({"type": "search"}),
    )
    area = forms.ChoiceField(label="About", required=False)
    actor_kind = forms.ChoiceField(label="By", required=False, choices=[("", "Anybody"), *ActorKind.choices])
    customer = forms.CharField(label="Customer's id or namespace", required=False, max_length=40)
    field_order = ("text", "area", "actor_kind", "customer", "since", "until")

    def __init__(self, *args: Any, is_own: bool, areas: Sequence[Area] = (), **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(*args, **kwargs)
        offered = [(area.value, area.value.replace("_", " ").capitalize()) for area in areas or tuple(Area)]
        self.fields["area"].choices = [("", "Everything"), *offered]  # type: ignore[attr-defined]  # a ChoiceField
        if is_own:
            del self.fields["customer"]

    def choice(self, within: AuditChoice, zone: ZoneInfo) -> AuditChoice:
        """Give the entries that a valid form asks for, within what its reader may see."""
        cleaned = self.cleaned_data
        return replace(
            within,
            area=cleaned["area"],
            text=cleaned["text"],
            actor_kind=cleaned["actor_kind"],
            customer=cleaned.get("customer", ""),
            span=self.span(zone),
        )


class ForgottenForm(forms.Form):
    """The address of somebody who forgot their password."""

    email = forms.EmailField(
        label="E-mail", max_length=254, widget=forms.EmailInput({"autocomplete": "username", "autocapitalize": "none"})
    )


class NewPasswordForm(SetPasswordForm):  # type: ignore[type-arg]  # generic in the stubs alone
    """A new password, twice; Django's validators judge it."""

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        super().__init__(user, *args, **kwargs)
        self.fields["new_password1"].help_text = "At least 12 characters, and none that many people use."
        self.fields["new_password2"].label = "The same again"
        self.fields["new_password2"].help_text = ""


class OrganisationForm(forms.Form):
    """What holds for a whole organisation."""

    reporting_zone = forms.ChoiceField(
        label="Reporting zone",
        choices=zone_choices,
        widget=forms.Select({"class": "input"}),
        help_text="Days and months of usage, statements and exports are those of this zone. A change moves the borders "
        "of days from now on, also of days gone by; receipts and the ledger keep their instants.",
    )


class MemberForm(forms.Form):
    """A member's role."""

    role = forms.ChoiceField(label="Role", choices=list(_ROLES.items()), widget=forms.RadioSelect)


class InviteForm(MemberForm):
    """Somebody to invite."""

    name = forms.CharField(label="Name", max_length=120, widget=forms.TextInput({"class": "input"}))
    email = forms.EmailField(label="E-mail", max_length=254, widget=forms.EmailInput({"class": "input"}))
    field_order = ("name", "email", "role")
