"""Making every stored secret anew with the newest key, so that an old one can be thrown away.

Kept answers of calls are not touched: they never change, and are gone after a day.
"""

from __future__ import annotations

from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import transaction

from accounts.audit import record
from ground.secrets import decrypt, encrypt
from routing.models import ProviderAccount
from webhooks.models import Endpoint

# Every column that holds a secret for longer than a day.
ENCRYPTED: Final[tuple[tuple[Any, tuple[str, ...]], ...]] = (
    (ProviderAccount, ("api_key_encrypted", "notice_secret_encrypted")),
    (Endpoint, ("secret", "previous_secret")),
)
_ROWS_PER_TURN = 200


def rotate_encryption() -> int:
    """Encrypt all secrets with the newest of ``ENCRYPTION_KEYS``; give how many were made anew.

    Rows are locked a few at a time, so the product may run meanwhile; killed or repeated, it goes on where it was.

    Raises:
        cryptography.fernet.InvalidToken: A secret was made with a key that is not in the list any more.
    """
    rotated_count = sum(_rotate(model, columns) for model, columns in ENCRYPTED)
    if rotated_count:
        with transaction.atomic():
            record(
                "encryption.rotated",
                object_type="secrets",
                object_id="all",
                changes={"rotated_count": (None, rotated_count)},
            )
    return rotated_count


def _rotate(model: Any, columns: tuple[str, ...]) -> int:  # noqa: ANN401 -- any of our models
    rotated_count, last = 0, 0
    while True:
        with transaction.atomic():
            rows = list(
                model.objects.select_for_update(no_key=True).filter(pk__gt=last).order_by("pk")[:_ROWS_PER_TURN]
            )
            for row in rows:
                anew = {
                    name: encrypt(decrypt(bytes(token)))
                    for name in columns
                    if (token := getattr(row, name)) and not _is_newest(bytes(token))
                }
                if anew:
                    model.objects.filter(pk=row.pk).update(**anew)
                rotated_count += len(anew)
        if len(rows) < _ROWS_PER_TURN:
            return rotated_count
        last = rows[-1].pk


def _is_newest(token: bytes) -> bool:
    try:
        Fernet(settings.ENCRYPTION_KEYS[0]).decrypt(token)
    except InvalidToken:
        return False
    return True
