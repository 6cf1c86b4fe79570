"""Secrets at rest: encrypted with keys from the environment, newest first (Fernet; see cryptography's MultiFernet)."""

from __future__ import annotations

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings


def encrypt(text: str) -> bytes:
    """Encrypt a secret with the newest key."""
    return _fernet().encrypt(text.encode())


def decrypt(token: bytes) -> str:
    """Decrypt a secret with whichever key made it.

    Raises:
        cryptography.fernet.InvalidToken: No key of ours made it.
    """
    return _fernet().decrypt(bytes(token)).decode()


def _fernet() -> MultiFernet:
    assert settings.ENCRYPTION_KEYS, "LANEHOUSE_ENCRYPTION_KEYS is not set"
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])
