"""Make the sample organisation of ``make run``: people of three roles, a key, credit, and the stand-in provider.

Running it again changes nothing. It prints ``NAME=value`` lines for scripts; what it printed before comes back to it in
the environment, because keys and passwords are kept only as hashes.
"""

from __future__ import annotations

import os
import secrets
from typing import Any, Final

from django.core.management.base import BaseCommand
from django.db import transaction

from accounts.audit import Hand, acting, record
from accounts.models import MemberRole, Organisation, OrganisationKind, StaffRole, User
from accounts.selectors import caller_by_key
from accounts.services.organisations import add_member, create_api_key, create_organisation
from billing.reconciliation.services.sample import hand_in_sample_month
from billing.services.wallets import open_wallet, record_top_up
from ground import clock
from ground.errors import AuthenticationFailed
from routing.services.provider_accounts import set_provider_account

SLUG: Final = "sample"
TOP_UP_MICRO_USD: Final = 25_000_000
_PEOPLE: Final = (
    ("CUSTOMER", "customer@sample.example", "Casey Customer", StaffRole.NONE),
    ("OPERATOR", "operator@lanehouse.example", "Olu Operator", StaffRole.OPERATOR),
    ("FINANCE", "finance@lanehouse.example", "Fay Finance", StaffRole.FINANCE),
    # What needs two people can be tried out.
    ("FINANCE_2", "second@lanehouse.example", "Sam Second", StaffRole.FINANCE),
)


class Command(BaseCommand):
    """Print what was made, one ``NAME=value`` a line."""

    help = "Make the sample organisation, its people, key, credit and provider account; safe to repeat."

    def handle(self, *_args: Any, **_options: Any) -> None:  # noqa: ANN401 -- Django's signature
        """Make what is missing and print the values."""
        with acting(Hand(name="bootstrap_sample")):
            self._make()

    def _make(self) -> None:
        with transaction.atomic():
            organisation = self._organisation()
            self._print("LANEHOUSE_API_KEY", self._api_key(organisation))
            for name, email, person, staff_role in _PEOPLE:
                user, password = self._user(name, email, person, staff_role)
                if staff_role == StaffRole.NONE:
                    add_member(organisation=organisation, user=user, role=MemberRole.ADMIN, at=clock.now())
                self._print(f"LANEHOUSE_{name}_LOGIN", email)
                self._print(f"LANEHOUSE_{name}_PASSWORD", password)
        hand_in_sample_month(organisation)
        for provider in ("openai", "anthropic", "bedrock"):
            self._lead_to_simulator(provider, os.environ.get(f"LANEHOUSE_SIMULATOR_{provider.upper()}_URL", ""))

    def _lead_to_simulator(self, provider: str, url: str) -> None:
        if not url:
            return
        for kind in OrganisationKind.values:
            set_provider_account(
                provider=provider,
                kind=kind,
                name=f"{provider}-{kind}",
                base_url=url,
                # Of the form that every adapter takes: Bedrock's is an id and a secret.
                api_key=f"SIMULATED{kind.upper()}:simulated-secret",
                at=clock.now(),
                notice_secret=os.environ.get("LANEHOUSE_SIMULATOR_NOTICE_SECRET", "") if provider == "openai" else "",
            )

    def _organisation(self) -> Organisation:
        organisation = Organisation.objects.filter(slug=SLUG, kind=OrganisationKind.CUSTOMER).first()
        if organisation is None:
            organisation = create_organisation(slug=SLUG, name="Sample Company", at=clock.now())
        for each in (organisation, organisation.test_twin):
            open_wallet(each)
            record_top_up(
                each,
                reference="sample-credit",
                amount_micro_usd=TOP_UP_MICRO_USD,
                effective_at=organisation.created_at,
                recorded_by=None,
            )
        return organisation

    def _api_key(self, organisation: Organisation) -> str:
        text = os.environ.get("LANEHOUSE_API_KEY", "")
        try:
            if caller_by_key(text).organisation == organisation:
                return text
        except AuthenticationFailed:
            pass
        _, new = create_api_key(organisation=organisation, name="Sample key", at=clock.now())
        return new.text

    def _user(self, name: str, email: str, person: str, staff_role: StaffRole) -> tuple[User, str]:
        password = os.environ.get(f"LANEHOUSE_{name}_PASSWORD", "")
        user = User.objects.filter(email=email).first()
        if user is None:
            password = password or secrets.token_urlsafe(12)
            user = User.objects.create_user(
                email=email, password=password, name=person, staff_role=staff_role, created_at=clock.now()
            )
            record(
                "member.account_made",
                object_type="user",
                object_id=email,
                changes={"staff_role": (None, staff_role or None)},
            )
        elif not password or not user.check_password(password):
            password = secrets.token_urlsafe(12)
            user.set_password(password)
            user.save(update_fields=["password"])
            record("sign_in.password_set", object_type="user", object_id=email)
        return user, password

    def _print(self, name: str, value: str) -> None:
        self.stdout.write(f"{name}={value}")
