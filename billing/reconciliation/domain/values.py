"""Reading single values: text to integers, Decimals and instants, each within what we can store. No float anywhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation, Overflow, localcontext
from typing import Any, Final

# 64 bits of pico-USD hold 9.2 million USD; a line of more is a mistake, or not in dollars.
AMOUNT_MAX: Final = Decimal(9_000_000)
# So that a month of them adds up within 64 bits.
QUANTITY_MAX: Final = 10**15
PICO_DECIMALS: Final = 12
RAW_MAX_CHARACTERS: Final = 4_000
_YEARS: Final = range(2015, 2101)
_TEXT_MAX_CHARACTERS: Final = 160
# Python's own reader also takes "1_0", and digits of any script.
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class BadValue(Exception):
    """A value cannot be read: a stable code, and a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def text_of(value: Any) -> str:  # noqa: ANN401 -- what a file holds
    """Give a value as storable text: empty for none, without NUL and broken characters, of bounded length."""
    if value is None:
        return ""
    text = str(value).strip()
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return clean[:_TEXT_MAX_CHARACTERS]


def upper_text_of(value: Any) -> str:  # noqa: ANN401 -- what a file holds
    """Give a value as storable text in capitals, which may be more letters than it had."""
    return text_of(text_of(value).upper())


def lower_text_of(value: Any) -> str:  # noqa: ANN401 -- what a file holds
    """Give a value as storable text in small letters, which may be more than it had."""
    return text_of(text_of(value).lower())


def raw_text(value: str) -> str:
    """Give a row as it was written, storable and of bounded length."""
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:RAW_MAX_CHARACTERS]


def row_hash(*parts: str) -> bytes:
    """Give 16 bytes that two rows share only if they are written alike; parts cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8))
        digest.update(encoded)
    return digest.digest()[:16]


def amount_of(value: Any, *, name: str = "amount") -> Decimal:  # noqa: ANN401 -- what a file holds
    """Give an exact amount from text, an integer, or a Decimal.

    Raises:
        BadValue: It is no number, not finite, or larger than any line.
    """
    amount = number_of(value, name=name, code="invalid_amount")
    if not amount:
        # A zero may be written with any exponent.
        return Decimal((0, (0,), -decimals_of(amount)))
    # The exponent first: arithmetic with an endless one raises.
    if amount.adjusted() > AMOUNT_MAX.adjusted() or abs(amount) > AMOUNT_MAX:
        raise BadValue("amount_too_large", f"{name} is above {AMOUNT_MAX:,} in one line.")
    return amount


def number_of(value: Any, *, name: str, code: str) -> Decimal:  # noqa: ANN401 -- what a file holds
    """Give the finite number that a text of ASCII digits writes, or a number itself, however large.

    Raises:
        BadValue: It is no number.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise BadValue(code, f"{name} is no number.")
    if isinstance(value, str):
        value = value.strip()
        if not _NUMBER.fullmatch(value):
            raise BadValue(code, f"{name} is no number: {value[:40]!r}.")
    try:
        return Decimal(value)
    except InvalidOperation:
        raise BadValue(code, f"{name} is no number: {str(value)[:40]!r}.") from None


def count_of(value: Any, *, name: str, times: int = 1, is_given_back: bool = False) -> int:  # noqa: ANN401 -- what a file holds
    """Give a whole count, multiplied by ``times``; zero stays zero and is never "missing".

    It is negative only where a line takes back what an earlier one billed (``is_given_back``).

    Raises:
        BadValue: It is no number, negative, not whole, or too large.
    """
    number = number_of(value, name=name, code="invalid_quantity")
    try:
        with localcontext() as context:
            context.prec = 60
            count = number * times
    except (InvalidOperation, Overflow):
        raise BadValue("invalid_quantity", f"{name} is no number: {str(value)[:40]!r}.") from None
    if not (-QUANTITY_MAX if is_given_back else 0) <= count <= QUANTITY_MAX:
        raise BadValue("invalid_quantity", f"{name} is out of range.")
    whole = int(count)
    if whole != count:
        # Units of a thousand tokens are printed with so many digits that the rest is a printer's, not a token.
        nearest = int(count.to_integral_value(ROUND_HALF_EVEN))
        if times == 1 or abs(count - nearest) > Decimal("0.001"):
            raise BadValue("invalid_quantity", f"{name} is not whole.")
        return nearest
    return whole


def count_or_none(value: Any, *, name: str) -> int | None:  # noqa: ANN401 -- what a file holds
    """Give a quantity of whatever a provider counts, and none where it is no whole count that we can hold.

    Raises:
        BadValue: It is no number.
    """
    number = number_of(value, name=name, code="invalid_quantity")
    is_held = 0 <= number <= QUANTITY_MAX and number == number.to_integral_value()
    return int(number) if is_held else None


def optional_count(row: Mapping[str, Any], name: str) -> int:
    """Give a count that a report leaves out where it does not apply."""
    return 0 if row.get(name) is None else count_of(row[name], name=name)


def unix_instant(value: Any, *, name: str) -> datetime:  # noqa: ANN401 -- what a file holds
    """Give the instant of whole Unix seconds.

    Raises:
        BadValue: It is no instant of our time.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue("invalid_time", f"{name} is no Unix time.")
    try:
        return _of_our_time(datetime.fromtimestamp(value, UTC), name)
    except (OverflowError, OSError, ValueError):
        raise BadValue("invalid_time", f"{name} is no Unix time.") from None


def instant_of(value: Any, *, name: str, zone: tzinfo | None = None) -> datetime:  # noqa: ANN401 -- what a file holds
    """Give the instant of an RFC 3339 text, in UTC. Without an offset it is read in ``zone``; a day is its start.

    Raises:
        BadValue: It cannot be read, or has no offset and there is no zone.
    """
    if isinstance(value, datetime):
        read = value
    else:
        try:
            # BigQuery and Athena write "2026-10-05 00:00:00 UTC".
            read = datetime.fromisoformat(re.sub(r" UTC$", "+00:00", str(value).strip()))
        except ValueError:
            raise BadValue("invalid_time", f"{name} is no time: {str(value)[:40]!r}.") from None
    if read.tzinfo is None:
        if zone is None:
            raise BadValue("invalid_time", f"{name} has no time zone: {str(value)[:40]!r}.")
        read = read.replace(tzinfo=zone)
    try:
        return _of_our_time(read.astimezone(UTC), name)
    except OverflowError:
        raise BadValue("invalid_time", f"{name} is no time of ours.") from None


def _of_our_time(instant: datetime, name: str) -> datetime:
    if instant.year not in _YEARS:
        raise BadValue("invalid_time", f"{name} lies in the year {instant.year}.")
    return instant


def day_window(day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """Give a day of a zone as instants: 23 to 25 hours long where clocks change."""
    start, end = (datetime.combine(each, time(), zone) for each in (day, day + timedelta(days=1)))
    return start.astimezone(UTC), end.astimezone(UTC)


def checked_window(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Give a window again.

    Raises:
        BadValue: It ends before it has begun.
    """
    if end <= start:
        raise BadValue("invalid_window", "The window ends before it begins.")
    return start, end


def pico_usd_of(amount_usd: Decimal) -> int:
    """Give an amount in pico-USD; digits beyond are some printer's binary noise, and are rounded half-even."""
    with localcontext() as context:
        context.prec = 60
        return int(amount_usd.scaleb(PICO_DECIMALS).to_integral_value(ROUND_HALF_EVEN))


def decimals_of(amount: Decimal) -> int:
    """Give how many decimals an amount was printed with, at most those of a pico-USD."""
    exponent = amount.as_tuple().exponent
    return min(PICO_DECIMALS, max(0, -exponent)) if isinstance(exponent, int) else 0
