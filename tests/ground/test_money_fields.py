"""Amounts as people type them."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from ground.money_fields import UsdField


@pytest.mark.parametrize(
    ("text", "micro_usd"),
    [
        ("12.50", 12_500_000), ("$1,234.000001", 1_234_000_001), ("999,999,999", 999_999_999_000_000),
        # Somebody's decimal comma, other scripts' digits, and what is no plain amount.
        *((text, None) for text in ("12,50", "1,5", ",5", "1.234,50", "\u0661", "-1", "1e3", "NaN", "1.0000000")),
    ],
)  # fmt: skip
def test_an_amount_is_read_exactly_or_refused(text: str, micro_usd: int | None) -> None:
    if micro_usd is not None:
        assert UsdField().clean(text) == micro_usd
        return
    with pytest.raises(ValidationError):
        UsdField().clean(text)
