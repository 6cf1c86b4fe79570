"""Print money, time, ids, counts and states; the one place that knows how they look on a page.

Always holds: money comes as integer micro-USD and stays an integer, so what is printed exactly is exact; ``None`` means
unknown and prints an en dash, never zero; a float or a naive datetime is a bug and raises.
"""

import re
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.template import Context
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import guide
from ground.visible import visible

register = template.Library()

MINUS = "\u2212"
DASH = "\u2013"
ELLIPSIS = "\u2026"

MICRO_PER_USD = 1_000_000
PICO_PER_MICRO = 1_000_000
MICRO_PER_CENT = 10_000
MICRO_PER_RATE_STEP = 100
SHORTENED_ID_LENGTH = 18
REFERENCE_LENGTH = 32
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# The part of a public id that tells it from others.
_ID = re.compile(r"([0-9A-HJKMNP-TV-Z]{4})[0-9A-HJKMNP-TV-Z]{18}([0-9A-HJKMNP-TV-Z]{4})")
_STATES: dict[str, tuple[str, str]] = {
    "validating": ("run", "Validating"),
    "in_progress": ("run", "In progress"),
    "finalizing": ("run", "Finalizing"),
    "completed": ("ok", "Completed"),
    "failed": ("bad", "Failed"),
    "expired": ("warn", "Expired"),
    "cancelling": ("warn", "Cancelling"),
    "cancelled": ("off", "Cancelled"),
    "queued": ("idle", "Queued"),
    "waiting": ("warn", "Waiting"),
    "submitting": ("run", "Submitting"),
    "submitted": ("run", "Submitted"),
    "running": ("run", "Running"),
    "collecting": ("run", "Collecting"),
    "intended": ("idle", "Intended"),
    "unknown": ("warn", "Unknown"),
    "ended": ("run", "Ended"),
    "collected": ("ok", "Collected"),
    "abandoned": ("bad", "Abandoned"),
    "succeeded": ("ok", "Succeeded"),
    "open": ("idle", "No outcome yet"),
    "in": ("ok", "In rotation"),
    "drain": ("warn", "Draining"),
    "out": ("off", "Out of rotation"),
}


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"an integer is needed here, not {type(value).__name__}"
        raise TypeError(message)
    return value


def _half_even(value: int, step: int) -> int:
    """Give ``value / step`` for a value that is not negative, rounded to the nearest whole, ties to the even one."""
    quotient, rest = divmod(value, step)
    return quotient + (2 * rest > step or (2 * rest == step and quotient % 2 == 1))


def _sign(value: int) -> str:
    return MINUS if value < 0 else ""


def _unknown() -> SafeString:
    return format_html('<span class="unknown" title="Not known">{}</span>', DASH)


def _exact_text(micro_usd: int) -> str:
    dollars, rest = divmod(abs(micro_usd), MICRO_PER_USD)
    return f"{_sign(micro_usd)}${dollars:,}.{rest:06d}"


def _title(micro_usd: int, per: str = "") -> str:
    return f"{_exact_text(micro_usd)}{per} \u00b7 {_sign(micro_usd)}{abs(micro_usd):,} micro-USD"


def _css(micro_usd: int) -> str:
    return "money neg" if micro_usd < 0 else "money"


@register.filter
def money_exact(micro_usd: int | None) -> SafeString:
    """Give the amount with all six decimals, the last four apart so that the eye can stop at the cents."""
    if micro_usd is None:
        return _unknown()
    text = _exact_text(_whole(micro_usd))
    return format_html(
        '<data class="{}" value="{}" title="{}" tabindex="-1">{}<span class="micro">{}</span></data>',
        _css(micro_usd),
        micro_usd,
        _title(micro_usd),
        text[:-4],
        text[-4:],
    )


@register.filter
def money_short(micro_usd: int | None) -> SafeString:
    """Give the amount to the cent, half-even, for cards and lists; what is not zero never prints as zero."""
    if micro_usd is None:
        return _unknown()
    cents = _half_even(abs(_whole(micro_usd)), MICRO_PER_CENT)
    if cents == 0 and micro_usd != 0:
        text = f"{_sign(micro_usd)}<$0.01"
    else:
        text = f"{_sign(micro_usd)}${cents // 100:,}.{cents % 100:02d}"
    return format_html(
        '<data class="{}" value="{}" title="{}" tabindex="-1">{}</data>',
        _css(micro_usd),
        micro_usd,
        _title(micro_usd),
        text,
    )


@register.filter
def money_pico(pico_usd: int | None) -> SafeString:
    """Give an amount in pico-USD exactly: six decimals, and below the micro-USD three or six more where it has them.

    The last two groups are elements of their own, also when they are empty: in a table each row then keeps room for
    what any row has, so that decimal points stand under each other.
    """
    if pico_usd is None:
        return _unknown()
    micro_usd, below = divmod(abs(_whole(pico_usd)), PICO_PER_MICRO)
    text = f"{_sign(pico_usd)}{_exact_text(micro_usd)}"
    digits = f"{below:06d}"
    return format_html(
        '<data class="{}" value="{}{}" title="{} pico-USD" tabindex="-1">{}<span class="micro">{}'
        '<span class="nano">{}</span><span class="pico">{}</span></span></data>',
        _css(pico_usd),
        "-" if pico_usd < 0 else "",
        f"{micro_usd}.{digits}".rstrip("0").rstrip(".") if below else micro_usd,
        f"{_sign(pico_usd)}{abs(pico_usd):,}",
        text[:-4],
        text[-4:],
        digits[:3] if below else "",
        digits[3:] if below % 1000 else "",
    )


@register.filter
def money_sided(balance_micro_usd: int | None) -> SafeString:
    """Give a ledger account's balance, a credit above zero, as accountants write it: its size and its side."""
    if balance_micro_usd is None:
        return _unknown()
    side, word = ("Cr", "credit") if balance_micro_usd > 0 else ("Dr", "debit") if balance_micro_usd < 0 else ("", "")
    return format_html(
        '{} <span class="dr-cr" title="{}">{}</span>', money_exact(abs(_whole(balance_micro_usd))), word, side
    )


@register.filter
def money_rate(rate_micro_usd_per_mtok: int | None) -> SafeString:
    """Give a rate in dollars per million tokens with two to four decimals; the column or label names the unit."""
    rate = rate_micro_usd_per_mtok
    if rate is None:
        return _unknown()
    steps = _half_even(abs(_whole(rate)), MICRO_PER_RATE_STEP)
    if steps == 0 and rate != 0:
        text = f"{_sign(rate)}<$0.0001"
    else:
        decimals = f"{steps % 10_000:04d}"
        kept = decimals[:2] + decimals[2:].rstrip("0")
        text = f"{_sign(rate)}${steps // 10_000:,}.{kept}"
    return format_html(
        '<data class="{}" value="{}" title="{}" tabindex="-1">{}</data>',
        _css(rate),
        rate,
        _title(rate, " per 1M tokens"),
        text,
    )


@register.filter
def tokens(count: int | None) -> SafeString | str:
    """Give a count of tokens, rows or anything else whole, with thousands commas."""
    if count is None:
        return _unknown()
    return f"{_sign(_whole(count))}{abs(count):,}"


register.filter("thousands", tokens)


def _share(part: int, whole: int, decimals: int) -> str:
    scale = 10**decimals
    steps = _half_even(part * 100 * scale, whole)
    if steps == 0 and part > 0:
        return f"<0.{1:0{decimals}d} %" if decimals else "<1 %"
    if steps == 100 * scale and part < whole:
        steps -= 1
    units, rest = divmod(steps, scale)
    return f"{units:,}.{rest:0{decimals}d} %" if decimals else f"{units:,} %"


@register.simple_tag
def percent(part: int | None, whole: int | None, decimals: int = 1) -> SafeString | str:
    """Give part of whole in percent; 0 and 100 are printed only when they are true to the last unit."""
    if part is None or not whole:
        return _unknown()
    return _share(_whole(part), _whole(whole), decimals)


@register.inclusion_tag("_progress.html")
def progress_bar(
    label: str, completed: int, failed: int, total: int | None, noun: str = "rows completed"
) -> dict[str, object]:
    """Give a bar with its figures, in thousandths of the whole; the failed part is drawn after the completed one.

    Args:
        label: names the bar for screen readers, for example the lane.
        completed: rows with a good outcome.
        failed: rows with any other final outcome; shown at least six thousandths wide, so that a single one is seen.
        total: all rows; None or 0 while it is not known.
        noun: what is counted.
    """
    whole = total or 0
    done_width = min(completed * 1000 // whole, 1000) if whole else 0
    failed_width = max(failed * 1000 // whole, 6) if whole and failed else 0
    failed_width = min(failed_width, 1000)
    done_width = min(done_width, 1000 - failed_width)
    spoken = f"{completed:,} of {whole:,} {noun}" if whole else f"{completed:,} {noun}, total not known yet"
    return {
        "label": label,
        "completed": completed,
        "failed": failed,
        "total": total,
        "finished": min(completed + failed, whole),
        "done_width": done_width,
        "failed_width": failed_width,
        "spoken": f"{spoken}, {failed:,} failed" if failed else spoken,
    }


@lru_cache(maxsize=256)
def _zone_named(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _zone_of(zone: tzinfo | str | None) -> tzinfo:
    if isinstance(zone, str) and zone:
        return _zone_named(zone)
    return zone if isinstance(zone, tzinfo) else UTC


def _zone_label(local: datetime) -> str:
    name = local.tzname() or ""
    if name[:1] in {"+", "-"}:
        digits = name[1:].ljust(4, "0")
        return f"UTC{MINUS if name[0] == '-' else '+'}{digits[:2]}:{digits[2:4]}"
    return name


def _span(seconds: int) -> str:
    for size, unit, smaller, small_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit} {rest} {small_unit}" if rest else f"{seconds // size} {unit}"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"  # noqa: PLR2004 -- seconds in a minute


@register.filter
def duration(seconds: int | None) -> SafeString | str:
    """Give a span in its two largest units: ``41 s``, ``52 min``, ``1 h 58 min``, ``2 d 3 h``."""
    return _unknown() if seconds is None else _span(_whole(seconds))


@register.filter
def spelled_span(seconds: int) -> str:
    """Give a whole span in words, for running text: ``30 minutes``, ``24 hours``, ``30 days``."""
    for size, word in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if _whole(seconds) % size == 0 and seconds > size:
            return f"{seconds // size:,} {word}"
    return f"{seconds:,} second{'' if seconds == 1 else 's'}"


def _instant_text(local: datetime, style: str) -> str:
    day = f"{local.day} {MONTHS[local.month - 1]}"
    texts = {
        "minute": f"{day} {local.year}, {local:%H:%M} {_zone_label(local)}",
        "second": f"{day} {local.year}, {local:%H:%M:%S} {_zone_label(local)}",
        "short": f"{day}, {local:%H:%M}",
        "day": f"{day} {local.year}",
        "clock": f"{local:%H:%M} {_zone_label(local)}",
    }
    return texts[style]


def _relative_text(value: datetime, at: datetime) -> str:
    seconds = int((at - value).total_seconds())
    if abs(seconds) < 1:
        return "now"
    return f"{_span(seconds)} ago" if seconds > 0 else f"in {_span(-seconds)}"


@register.simple_tag(takes_context=True)
def instant(
    context: Context,
    value: datetime | None,
    style: str = "minute",
    zone: tzinfo | str | None = None,
    relative_to: datetime | None = None,
) -> SafeString:
    """Give an aware datetime as ``<time>`` in the viewer's zone, with UTC in its title.

    Args:
        context: its ``zone`` (a tzinfo or a zone name) is the viewer's; without one it is UTC.
        value: None prints an en dash.
        style: ``minute``, ``second``, ``short`` (no year and zone: for tables that name the zone), ``day``, ``clock``.
        zone: wins over the context, for example the reporting zone.
        relative_to: the present, for live things only: prints ``4 min ago`` and moves the absolute into the title.
    """
    if value is None:
        return _unknown()
    if value.tzinfo is None:
        message = "a naive datetime reached a page"
        raise ValueError(message)
    utc = value.astimezone(UTC)
    local = value.astimezone(_zone_of(zone or context.get("zone")))
    title = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    text = _instant_text(local, style)
    if relative_to is not None:
        text, title = _relative_text(value, relative_to), f"{_instant_text(local, 'second')} \u00b7 {title}"
    return format_html('<time datetime="{}Z" title="{}">{}</time>', f"{utc:%Y-%m-%dT%H:%M:%S}", title, text)


@register.filter
def middle_shortened(public_id: str | None) -> SafeString:
    """Give a public id for a list: prefix and both ends, the whole in the title; short ones stay whole."""
    if not public_id:
        return _unknown()
    text = public_id
    if len(text) > SHORTENED_ID_LENGTH:
        start = max(text.find("_"), text.find("-")) + 5
        text = f"{text[:start]}{ELLIPSIS}{text[-4:]}"
    return format_html('<span class="id" title="{}">{}</span>', public_id, text)


@register.filter
def reference(text: str | None) -> SafeString:
    """Give a reference or an entry's key for a list: what people wrote as they wrote it, ids in it middle-shortened."""
    if not text:
        return _unknown()
    short = _ID.sub(rf"\1{ELLIPSIS}\2", text)
    css = "id" if short != text else ""
    if len(short) > REFERENCE_LENGTH:
        short = f"{short[: REFERENCE_LENGTH - 1]}{ELLIPSIS}"
    return format_html('<span class="{}" title="{}">{}</span>', css, text, short)


@register.filter
def both_ends(text: str, length: int) -> str:
    """Give a stranger's text in so many characters: its beginning and its end, for what differs is often there."""
    seen = visible(text)
    if len(seen) <= length:
        return seen
    end = length // 3
    return f"{seen[: length - end - 1]}{ELLIPSIS}{seen[-end:]}"


@register.inclusion_tag("_badge.html")
def status_badge(status: str, detail: str = "") -> dict[str, Any]:
    """Give the badge of a batch, sub-lane, provider job or lane rotation state.

    A word that is not in the table gets a neutral badge: a page must stay readable when a state is added below it.
    """
    tone, word = _STATES.get(status, ("idle", status.replace("_", " ").capitalize()))
    return {"tone": tone, "word": word, "detail": detail}


@register.simple_tag
def icon(name: str) -> SafeString:
    """Give an icon of the sprite; it is decoration, so the control around it carries the name."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("icons.svg"), name)


@register.inclusion_tag("docs/_snippet.html")
def snippet(name: str) -> dict[str, str]:
    """Give a snippet of the documentation with its name and a button that copies it."""
    return {"name": name, "text": guide.snippets()[name]}
