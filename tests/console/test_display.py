"""Money, time, ids, counts and states as a page prints them."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.template import Context, Template
from hypothesis import given
from hypothesis import strategies as st

from console.templatetags import display

AT = datetime(2026, 11, 29, 14, 2, 11, tzinfo=UTC)
AMOUNTS = st.integers(min_value=-(10**16), max_value=10**16) | st.integers(min_value=-20_000, max_value=20_000)


def shown(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html).replace("&lt;", "<")


def rendered(source: str, **context: object) -> str:
    return Template("{% load display %}" + source).render(Context(context))


def number(text: str) -> int:
    digits = int(re.sub(r"\D", "", text))
    return -digits if text.startswith("\u2212") else digits


@given(AMOUNTS)
def test_exact_money_reads_back_as_the_same_integer(micro_usd: int) -> None:
    html = display.money_exact(micro_usd)
    assert number(shown(html)) == micro_usd
    assert f'value="{micro_usd}"' in html


@given(AMOUNTS)
def test_short_money_is_within_half_a_cent_and_never_prints_something_as_zero(micro_usd: int) -> None:
    text = shown(display.money_short(micro_usd))
    assert text.startswith("\u2212") == (micro_usd < 0)
    if "<" in text:
        assert 0 < abs(micro_usd) <= 5_000
    else:
        assert abs(number(text) * 10_000 - micro_usd) <= 5_000
        assert (number(text) == 0) == (micro_usd == 0)


@given(st.integers(min_value=-(10**19), max_value=10**19) | st.integers(min_value=-(10**7), max_value=10**7))
def test_a_request_is_priced_to_the_last_pico_dollar(pico_usd: int) -> None:
    text = shown(display.money_pico(pico_usd)).replace(",", "").replace("$", "").replace("\u2212", "-")
    assert Decimal(text) * 10**12 == pico_usd
    assert len(text.partition(".")[2]) >= 6


def test_digits_below_a_micro_dollar_come_in_threes_and_keep_their_room() -> None:
    html = display.money_pico(-7_834_560_000)
    assert 'value="-7834.56" title="\u22127,834,560,000 pico-USD"' in html
    assert '<span class="micro">7834<span class="nano">560</span><span class="pico"></span></span>' in html
    assert '<span class="nano">000</span><span class="pico">001</span>' in display.money_pico(1)
    assert 'value="2" ' in display.money_pico(2_000_000)


@pytest.mark.parametrize(("balance", "text"), [(25_000_000, "$25.000000 Cr"), (-1, "$0.000001 Dr"), (0, "$0.000000 ")])
def test_a_balance_is_written_with_its_side_and_without_a_sign(balance: int, text: str) -> None:
    assert shown(display.money_sided(balance)) == text


def test_a_reference_stays_as_it_was_written_but_for_the_ids_in_it() -> None:
    assert shown(display.reference("SEPA 2026-11-01 / 440001-A")) == "SEPA 2026-11-01 / 440001-A"
    assert shown(display.reference("settle:batch_01M8Q4GTD1CDKGBCC2VS6KHX0G")) == "settle:batch_01M8\u2026HX0G"
    assert shown(display.reference("x" * 99)) == "x" * 31 + "\u2026"


@given(st.integers(min_value=0, max_value=10**12))
def test_a_rate_has_two_to_four_decimals_and_never_prints_something_as_zero(rate: int) -> None:
    text = shown(display.money_rate(rate))
    assert re.fullmatch(r"<\$0\.0001|\$[\d,]+\.\d{2,4}", text)
    assert (text == "$0.00") == (rate == 0)


@pytest.mark.parametrize("form", [display.money_exact, display.money_short, display.money_rate, display.money_pico])
@pytest.mark.parametrize("wrong", [1.0, "1", True, ""])
def test_what_is_not_an_integer_is_never_printed_as_money(form: object, wrong: object) -> None:
    assert callable(form)
    with pytest.raises(TypeError):
        form(wrong)


@pytest.mark.parametrize("form", [display.money_exact, display.money_short, display.money_rate, display.money_pico])
def test_unknown_money_is_a_dash_with_a_title(form: object) -> None:
    assert callable(form)
    assert form(None) == '<span class="unknown" title="Not known">\u2013</span>'


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [
        (0, "$0.00"),
        (1, "<$0.01"),
        (5_000, "<$0.01"),
        (5_001, "$0.01"),
        (-1, "\u2212<$0.01"),
        (15_000, "$0.02"),
        (25_000, "$0.02"),
        (1_234_567_890_000, "$1,234,567.89"),
        (-37_599_886, "\u2212$37.60"),
    ],
)
def test_short_money_by_example(micro_usd: int, text: str) -> None:
    assert shown(display.money_short(micro_usd)) == text


def test_exact_money_mutes_the_last_four_digits_and_titles_the_micro_usd() -> None:
    html = display.money_exact(23_951_101)
    assert '>$23.95<span class="micro">1101</span></data>' in html
    assert 'title="$23.951101 \u00b7 23,951,101 micro-USD"' in html


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (450_000, "$0.45"),
        (448_300, "$0.4483"),
        (18_750, "$0.0188"),
        (75_000, "$0.075"),
        (7_500_000, "$7.50"),
        (1, "<$0.0001"),
    ],
)
def test_rate_by_example(rate: int, text: str) -> None:
    assert shown(display.money_rate(rate)) == text


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/Berlin", "29 Nov 2026, 15:02 CET"),
        (ZoneInfo("Asia/Kathmandu"), "29 Nov 2026, 19:47 UTC+05:45"),
        ("America/Sao_Paulo", "29 Nov 2026, 11:02 UTC\u221203:00"),
        (None, "29 Nov 2026, 14:02 UTC"),
    ],
)
def test_an_instant_is_shown_in_the_zone_and_titled_in_utc(zone: object, text: str) -> None:
    html = rendered("{% instant at %}", at=AT, zone=zone)
    assert html == f'<time datetime="2026-11-29T14:02:11Z" title="2026-11-29 14:02:11 UTC">{text}</time>'


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("second", "29 Nov 2026, 15:02:11 CET"),
        ("short", "29 Nov, 15:02"),
        ("day", "29 Nov 2026"),
        ("clock", "15:02 CET"),
    ],
)
def test_an_instant_has_shorter_styles(style: str, text: str) -> None:
    assert shown(rendered("{% instant at style %}", at=AT, style=style, zone="Europe/Berlin")) == text


def test_a_relative_instant_keeps_the_absolute_in_its_title() -> None:
    html = rendered("{% instant at relative_to=now %}", at=AT, now=AT + timedelta(minutes=4, seconds=9))
    assert shown(html) == "4 min ago"
    assert 'title="29 Nov 2026, 14:02:11 UTC \u00b7 2026-11-29 14:02:11 UTC"' in html


def test_a_naive_datetime_never_reaches_a_page() -> None:
    with pytest.raises(ValueError, match="naive"):
        display.instant(Context(), AT.replace(tzinfo=None))


@given(
    st.integers(min_value=946_684_800, max_value=4_102_444_800),
    st.sampled_from(["Asia/Kolkata", "America/Los_Angeles"]),
)
def test_the_machine_readable_instant_does_not_depend_on_the_zone(seconds: int, zone: str) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    expected = f'<time datetime="{at:%Y-%m-%dT%H:%M:%S}Z"'
    assert display.instant(Context(), at).startswith(expected)
    assert display.instant(Context({"zone": zone}), at.astimezone(ZoneInfo("Asia/Kathmandu"))).startswith(expected)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (3_120, "52 min"), (7_080, "1 h 58 min"), (7_200, "2 h"), (183_600, "2 d 3 h")],
)
def test_a_duration_has_its_two_largest_units(seconds: int, text: str) -> None:
    assert display.duration(seconds) == text


def test_a_long_id_is_shortened_in_the_middle_and_whole_in_the_title() -> None:
    html = display.middle_shortened("batch_01JQ7M4ZK8W2T5N9XR3B")
    assert html == '<span class="id" title="batch_01JQ7M4ZK8W2T5N9XR3B">batch_01JQ\u2026XR3B</span>'


def test_a_short_id_stays_whole() -> None:
    assert shown(display.middle_shortened("file-01JQ7M4Z")) == "file-01JQ7M4Z"


@given(st.integers())
def test_thousands_read_back_as_the_same_integer(count: int) -> None:
    assert number(str(display.tokens(count))) == count


@given(st.integers(min_value=0, max_value=10**9), st.integers(min_value=1, max_value=10**9), st.sampled_from([0, 1, 2]))
def test_percent_is_0_or_100_only_when_it_is_true(part: int, whole: int, decimals: int) -> None:
    part = min(part, whole)
    text = str(display.percent(part, whole, decimals))
    value = text.removesuffix(" %")
    assert (value.lstrip("<") == value and float(value.replace(",", "")) == 0) == (part == 0)
    assert (not text.startswith("<") and float(value.lstrip("<")) == 100) == (part == whole)


def test_percent_by_example() -> None:
    assert display.percent(41_212, 80_000) == "51.5 %"
    assert display.percent(79_999, 80_000) == "99.9 %"
    assert display.percent(1, 80_000) == "<0.1 %"
    assert display.percent(1_626, 131_842, 2) == "1.23 %"
    assert "\u2013" in str(display.percent(1, 0))


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**9))
def test_the_parts_of_a_bar_never_exceed_it_and_a_failed_row_is_seen(completed: int, failed: int, total: int) -> None:
    bar = display.progress_bar("Lane", completed, failed, total)
    done, bad = bar["done_width"], bar["failed_width"]
    assert isinstance(done, int)
    assert isinstance(bad, int)
    assert done >= 0
    assert done + bad <= 1000
    assert (bad > 0) == (failed > 0)


def test_a_bar_speaks_its_figures_and_has_no_style_attribute() -> None:
    html = " ".join(rendered("{% progress_bar label='Together' completed=41212 failed=197 total=80000 %}").split())
    assert (
        'role="progressbar" aria-label="Together" aria-valuemin="0" aria-valuemax="80000" aria-valuenow="41409"' in html
    )
    assert 'aria-valuetext="41,212 of 80,000 rows completed, 197 failed"' in html
    assert '<rect class="done" width="515"' in html
    assert "style=" not in html


@pytest.mark.parametrize(
    ("status", "tone", "word"),
    [
        ("in_progress", "run", "In progress"),
        ("completed", "ok", "Completed"),
        ("waiting", "warn", "Waiting"),
        ("failed", "bad", "Failed"),
        ("unknown", "warn", "Unknown"),
        ("drain", "warn", "Draining"),
        ("out", "off", "Out of rotation"),
        ("not_yet_known", "idle", "Not yet known"),
    ],
)
def test_a_status_is_a_word_with_a_tone(status: str, tone: str, word: str) -> None:
    html = rendered("{% status_badge status %}", status=status)
    assert f'class="badge {tone}"' in html
    assert shown(html).strip() == word


def test_each_tone_that_needs_attention_has_its_own_shape() -> None:
    shapes = {
        tone: re.search(r"<(circle|path d=\"[^\"]*\")", rendered("{% include '_badge.html' %}", tone=tone, word="x"))
        for tone in ("ok", "warn", "bad")
    }
    assert len({found.group() for found in shapes.values() if found}) == 3


def test_provider_text_is_escaped() -> None:
    assert "<b>" not in rendered("{% status_badge status %}", status="<b>x</b>")
    assert "<b>" not in display.middle_shortened("<b>x</b>")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(86_400, "24 hours"), (2_592_000, "30 days"), (1_800, "30 minutes"), (90, "90 seconds"), (1, "1 second")],
)
def test_a_span_is_spelled_in_its_largest_whole_unit_of_two_or_more(seconds: int, said: str) -> None:
    assert display.spelled_span(seconds) == said


def test_a_strangers_text_keeps_both_ends_and_hides_nothing() -> None:
    assert display.both_ends("short", 40) == "short"
    assert display.both_ends("a" * 60 + "0123456789xyz", 40) == "a" * 26 + "\u2026" + "0123456789xyz"
    assert display.both_ends("a\u202eb\u2028c\x00", 40) == r"a\u202eb\u2028c\u0000"
