"""Form fields of money."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

_MICRO_PER_USD = 1_000_000
_DECIMALS = 6
# A comma where no thousands end is somebody's decimal mark: refused, not guessed.
_AMOUNT = re.compile(rf"(\d{{1,9}}|\d{{1,3}}(?:,\d{{3}}){{1,2}})(?:\.(\d{{1,{_DECIMALS}}}))?", re.ASCII)


class UsdField(forms.CharField):
    """An amount in USD with up to six decimals, given as integer micro-USD; commas between thousands may stand."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 -- Django's signature
        kwargs.setdefault("widget", forms.TextInput({"inputmode": "decimal", "autocomplete": "off"}))
        kwargs.setdefault("max_length", 20)
        super().__init__(**kwargs)

    def prepare_value(self, value: object) -> object:
        """Give an amount in micro-USD as people write it; what was typed stays as it is."""
        return usd_text(value) if isinstance(value, int) else value

    def clean(self, value: object) -> int | None:
        """Give the amount in micro-USD; None where nothing was entered.

        Raises:
            ValidationError: It is no such amount.
        """
        text = str(super().clean(value)).strip().removeprefix("$")
        if not text:
            return None
        found = _AMOUNT.fullmatch(text)
        if found is None:
            raise ValidationError("Give an amount in USD, such as 12.50, with at most six decimals.")
        return int(found[1].replace(",", "")) * _MICRO_PER_USD + int((found[2] or "").ljust(_DECIMALS, "0"))


def usd_text(micro_usd: int) -> str:
    """Give an amount as the field takes it."""
    dollars, rest = divmod(micro_usd, _MICRO_PER_USD)
    return f"{dollars}.{rest:0{_DECIMALS}d}".rstrip("0").removesuffix(".")
