"""Make a key for ``/v1/finance``; it is printed once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.audit import Hand, acting
from accounts.domain.staff_scopes import StaffScope
from accounts.models import User
from accounts.services.staff_keys import create_staff_key
from ground import clock
from ground.errors import LanehouseError


class Command(BaseCommand):
    """``make_staff_key fay@example.com --name "Month end" --scope finance:write``."""

    help = "Make a key with which a program acts in the name of a person of finance."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take whose key it is and what it may do."""
        parser.add_argument("email")
        parser.add_argument("--name", required=True)
        parser.add_argument("--scope", action="append", choices=[scope.value for scope in StaffScope], required=True)
        parser.add_argument("--days", type=int, default=90)

    def handle(self, *_arguments: Any, **options: Any) -> None:  # noqa: ANN401 -- Django's own signature
        """Make it."""
        user = User.objects.filter(email=options["email"].lower()).first()
        if user is None:
            raise CommandError("There is nobody with this address.")
        try:
            with acting(Hand(name="make_staff_key")):
                _key, new = create_staff_key(
                    user,
                    name=options["name"],
                    scopes=[StaffScope(scope) for scope in options["scope"]],
                    at=clock.now(),
                    lifetime=timedelta(days=max(1, options["days"])),
                )
        except LanehouseError as error:
            raise CommandError(error.message) from error
        self.stdout.write(new.text)
