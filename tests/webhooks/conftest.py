from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from accounts.models import Organisation
from tests.webhooks.kit import make_organisation

Allow = Callable[..., None]


@pytest.fixture
def organisation(db: None) -> Organisation:
    return make_organisation()


@pytest.fixture
def allow(settings: Any) -> Allow:
    """Put receivers on the operator's list."""

    def listed(*receivers: Any) -> None:
        settings.WEBHOOK_ALLOWED_RECEIVERS = tuple(
            receiver if isinstance(receiver, str) else receiver.authority for receiver in receivers
        )

    return listed
