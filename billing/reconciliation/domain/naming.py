"""Naming differences: the first rule that explains one exactly, in pico-USD, wins.

The order is that of the classes, with two changes that make each class possible: what pairs two places (a day before, a
class beside) comes before "missing", of which every such pair has two; and "failed and not billed" comes before the
general "quantity". What no rule explains exactly is ``unexplained``.

Exactly means to the pico-USD of what the provider computed, of which its bill prints only so many decimals, cut or
rounded. So what is left is looked at again with that much slack, pairs before "missing", and only where tokens agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Final

from billing.reconciliation.domain.records import TokenClass
from billing.reconciliation.domain.sides import BreakKind, Known, KnownRates, Named, Place, Sides

Rule = Callable[[Sides, Known], str]
Finder = Callable[[Sequence[Sides], Known], Iterator[tuple[Sides, ...]]]
_DAY: Final = timedelta(days=1)
_INPUTS: Final = frozenset(
    {
        TokenClass.INPUT_UNCACHED.value,
        TokenClass.INPUT_CACHE_READ.value,
        TokenClass.INPUT_CACHE_WRITE_5M.value,
        TokenClass.INPUT_CACHE_WRITE_1H.value,
    }
)
# Standard costs twice what batch and flex do, priority twice what standard does.
_TIER_RATIOS: Final = (Fraction(2), Fraction(1, 2), Fraction(4), Fraction(1, 4))
# Above 200k or 272k tokens: input twice, output one and a half times (platform.openai.com, docs.anthropic.com).
_LONG_RATIOS: Final = (Fraction(2), Fraction(3, 2))
_DATED: Final = re.compile(r"([-@_:.](20\d\d-?\d\d-?\d\d|\d{4}|latest|preview|exp|v\d+(:\d+)?))+$")
_VENDOR: Final = re.compile(r"^([a-z]{2,6}\.)?[a-z]+[./](?=[a-z])")


def name_differences(compared: Sequence[Sides], known: Known) -> list[Named]:
    """Name every difference among the places of one invoice; places that agree to the pico-USD have none.

    Law: each differing place that is not outside is named exactly once.
    """
    naming = _Naming(compared, known)
    naming.each(BreakKind.DUPLICATE_RECEIPT, _duplicate_receipt)
    naming.each(BreakKind.DUPLICATE_INVOICE_LINE, _duplicate_line)
    naming.groups(BreakKind.TIME_BOUNDARY, _runs_of_days, _said_of_days)
    naming.groups(BreakKind.CACHE_CLASS, _swapped_classes, _said_of_classes)
    naming.groups(BreakKind.MODEL_ALIAS, _aliases, _said_of_names)
    naming.groups(BreakKind.TIER, _other_tiers, _said_of_tiers)
    if known.minor_unit_pico_usd > 1:
        naming.allow_for_printing()
        naming.groups(BreakKind.TIME_BOUNDARY, _runs_of_days, _said_of_days)
        naming.groups(BreakKind.MODEL_ALIAS, _aliases, _said_of_names)
        naming.groups(BreakKind.TIER, _other_tiers, _said_of_tiers)
        naming.ask_exactly()
    for kind, rule in _SINGLE_RULES:
        naming.each(kind, rule)
    naming.round_off()
    if known.minor_unit_pico_usd > 1:
        naming.allow_for_printing()
        for kind, rule in _AMOUNT_RULES:
            naming.each(kind, rule)
    naming.each(BreakKind.UNEXPLAINED, lambda _sides, _known: "No rule explains this amount exactly.")
    return naming.named


class _Naming:
    """What is left to name, and what has its name."""

    def __init__(self, compared: Sequence[Sides], known: Known) -> None:
        self._left = {sides.place: sides for sides in compared if sides.difference_pico_usd}
        self._known = known
        self.named: list[Named] = []

    def allow_for_printing(self) -> None:
        """Take amounts as equal from here on that are printed alike."""
        self._known = replace(self._known, is_as_printed=True)

    def ask_exactly(self) -> None:
        """Take amounts as equal from here on that are equal to the pico-USD."""
        self._known = replace(self._known, is_as_printed=False)

    def each(self, kind: BreakKind, rule: Rule) -> None:
        """Name the places that a rule explains by themselves."""
        for sides in [sides for sides in self._left.values() if not sides.is_outside]:
            if said := rule(sides, self._known):
                self._take(kind, said, (sides,))

    def groups(self, kind: BreakKind, find: Finder, say: Callable[[Sequence[Sides]], str]) -> None:
        """Name the places that a rule explains together."""
        for taken in list(find(list(self._left.values()), self._known)):
            self._take(kind, say(taken), taken)

    def round_off(self) -> None:
        """Name what rounding explains, the smallest first, as long as all of it stays below its stated total."""
        room_pico_usd = self._known.rounding_total_max_pico_usd
        for sides in sorted(self._left.values(), key=lambda each: abs(each.difference_pico_usd)):
            room_pico_usd -= abs(sides.difference_pico_usd)
            if not sides.is_outside and room_pico_usd >= 0 and (said := _rounding(sides, self._known)):
                self._take(BreakKind.ROUNDING, said, (sides,))

    def _take(self, kind: BreakKind, said: str, taken: Sequence[Sides]) -> None:
        cause = tuple(sorted(sides.place for sides in taken))
        for sides in taken:
            del self._left[sides.place]
            if not sides.is_outside:
                self.named.append(Named(sides=sides, kind=kind, said=said, cause=cause))


def family_of(model: str) -> str:
    """Give a model's name without its vendor, date and version."""
    return re.sub(r"[^a-z0-9]", "", _DATED.sub("", _VENDOR.sub("", model.strip().lower())))


def _is_same(left: Fraction | int, right: Fraction | int, known: Known, *places: Sides) -> bool:
    """Say whether two amounts are one, as far as the bill's lines at these places print it."""
    if not known.is_as_printed:
        return left == right
    # Some bills truncate: less than one unit a line, not half of one.
    line_count = sum(max(1, sides.invoiced_line_count) for sides in places)
    return (
        all(_has_tokens(sides) for sides in places)
        and abs(Fraction(left - right)) < known.minor_unit_pico_usd * line_count
    )


def _has_tokens(sides: Sides) -> bool:
    return not sides.invoiced_line_count or sides.invoiced_quantity is not None


def _duplicate_receipt(sides: Sides, known: Known) -> str:
    copies = sides.duplicate_job_pico_usd
    is_it = copies > 0 and _is_same(copies, -sides.difference_pico_usd, known, sides)
    return "Our books hold the same job twice." if is_it else ""


def _duplicate_line(sides: Sides, known: Known) -> str:
    copies = sides.duplicate_line_pico_usd
    is_it = copies > 0 and _is_same(copies, sides.difference_pico_usd, known, sides)
    return "The invoice holds the same line twice." if is_it else ""


def _runs_of_days(left: Sequence[Sides], known: Known) -> Iterator[tuple[Sides, ...]]:
    """Give shortest runs of days in a row whose differences cancel out, in money and in tokens."""
    for group in _grouped(left, "day").values():
        days = {sides.place.day: sides for sides in group}
        for first in sorted(days):
            run: list[Sides] = []
            day = first
            while day in days:
                run.append(days[day])
                if len(run) > 1 and _cancels(run, known):
                    for sides in run:
                        del days[sides.place.day]
                    yield tuple(run)
                    break
                day += _DAY


def _cancels(run: Sequence[Sides], known: Known) -> bool:
    rest = sum(sides.difference_pico_usd for sides in run)
    if not _is_same(rest, 0, known, *run) or all(sides.is_outside for sides in run):
        return False
    # A place without lines was billed nothing, which is a quantity; lines without one say nothing.
    invoiced = [0 if not sides.invoiced_line_count else sides.invoiced_quantity for sides in run]
    known_tokens = [tokens for tokens in invoiced if tokens is not None]
    return len(known_tokens) < len(invoiced) or sum(known_tokens) == sum(sides.ours_quantity for sides in run)


def _said_of_days(run: Sequence[Sides]) -> str:
    first, last = run[0].place.day, run[-1].place.day
    return f"{first:%d %b} to {last:%d %b} add up alike on both sides: work near midnight is billed on another day."


def _swapped_classes(left: Sequence[Sides], known: Known) -> Iterator[tuple[Sides, ...]]:
    """Give input places beside each other whose tokens add up to the same, each billed at a rate of its own class."""
    for group in _grouped([s for s in left if s.place.token_class in _INPUTS], "token_class").values():
        if len(group) < 2 or any(sides.is_outside for sides in group):  # noqa: PLR2004 -- a swap has two sides
            continue
        if any(sides.invoiced_line_count and sides.invoiced_quantity is None for sides in group):
            continue
        moved = sum((sides.invoiced_quantity or 0) - sides.ours_quantity for sides in group)
        if not moved and all(_is_priced(sides, known) for sides in group):
            yield tuple(group)


def _is_priced(sides: Sides, known: Known) -> bool:
    """Say whether the provider's amount is its quantity at a rate that we know, or at ours."""
    tokens = sides.invoiced_quantity or 0
    return any(
        _is_same(tokens * rate, sides.invoiced_pico_usd, known, sides)
        for rate in {0, *_rates_at(sides, known)}
        if rate or not tokens
    )


def _rates_at(sides: Sides, known: Known) -> frozenset[Fraction | int]:
    rates: frozenset[Fraction | int] = _known_at(sides, known).batch
    return rates | {Fraction(sides.ours_pico_usd, sides.ours_quantity)} if sides.ours_quantity else rates


def _known_at(sides: Sides, known: Known) -> KnownRates:
    return known.rates.get((sides.place.model, sides.place.token_class), KnownRates())


def _said_of_classes(_taken: Sequence[Sides]) -> str:
    return "The same tokens, counted in another cache class."


def _aliases(left: Sequence[Sides], known: Known) -> Iterator[tuple[Sides, ...]]:
    return _pairs(left, lambda billed, ours: _is_alias(billed, ours, known), "model")


def _said_of_names(pair: Sequence[Sides]) -> str:
    return f"The invoice says {pair[0].place.model!r} for what we have as {pair[1].place.model!r}."


def _other_tiers(left: Sequence[Sides], known: Known) -> Iterator[tuple[Sides, ...]]:
    return _pairs(left, lambda billed, ours: _is_at_another_tier(billed, ours, known), "tier")


def _said_of_tiers(pair: Sequence[Sides]) -> str:
    return f"Billed as {pair[0].place.tier}, run as {pair[1].place.tier}: the same tokens, at the other tier's rate."


def _pairs(
    left: Sequence[Sides], is_pair: Callable[[Sides, Sides], bool], differing: str
) -> Iterator[tuple[Sides, Sides]]:
    """Give pairs (billed alone, ours alone) of places that differ in one thing and satisfy a test; each place once."""
    for group in _grouped([sides for sides in left if not sides.is_outside], differing).values():
        ours = [sides for sides in group if sides.ours_job_count and not sides.invoiced_line_count]
        for one in (sides for sides in group if sides.invoiced_line_count and not sides.ours_job_count):
            other = next((each for each in ours if is_pair(one, each)), None)
            if other is not None:
                ours.remove(other)
                yield one, other


def _is_alias(billed: Sides, ours: Sides, known: Known) -> bool:
    return (
        _is_same(billed.invoiced_pico_usd, ours.ours_pico_usd, known, billed)
        and billed.invoiced_quantity in {None, ours.ours_quantity}
        and family_of(billed.place.model) == family_of(ours.place.model) != ""
    )


def _is_at_another_tier(billed: Sides, ours: Sides, known: Known) -> bool:
    rates = _known_at(billed, known).all()
    return billed.invoiced_quantity in {None, ours.ours_quantity} and (
        any(_is_same(ours.ours_quantity * rate, billed.invoiced_pico_usd, known, billed) for rate in rates)
        or any(
            _is_same(ours.ours_pico_usd * ratio, billed.invoiced_pico_usd, known, billed)
            for ratio in (1, *_TIER_RATIOS)
        )
    )


def _tier(sides: Sides, known: Known) -> str:
    if not sides.is_same_quantity or sides.long_quantity or not sides.ours_pico_usd:
        return ""
    standard = _known_at(sides, known).standard - _known_at(sides, known).batch
    if any(_is_same(sides.ours_quantity * rate, sides.invoiced_pico_usd, known, sides) for rate in standard):
        return "Billed at the rate of synchronous calls, run as batch."
    ratio = next(
        (each for each in _TIER_RATIOS if _is_same(sides.ours_pico_usd * each, sides.invoiced_pico_usd, known, sides)),
        None,
    )
    return "" if ratio is None else f"Billed at {ratio} times our rate, as another tier is."


def _context_tier(sides: Sides, known: Known) -> str:
    if not sides.is_same_quantity or not sides.long_quantity:
        return ""
    rate = Fraction(sides.ours_pico_usd, sides.ours_quantity)
    for ratio in _LONG_RATIOS:
        if _is_same(sides.long_quantity * rate * (ratio - 1), sides.difference_pico_usd, known, sides):
            return f"{sides.long_quantity:,} tokens are billed at {ratio} times the rate, as long context."
    return ""


def _price_version(sides: Sides, known: Known) -> str:
    if not sides.is_same_quantity:
        return ""
    rate = next(
        (
            rate
            for rate in sorted(_known_at(sides, known).all())
            if _is_same(sides.ours_quantity * rate, sides.invoiced_pico_usd, known, sides)
        ),
        None,
    )
    return "" if rate is None else f"Billed at {rate:,} micro-USD per million tokens, a rate of another time."


def _unbilled_failed(sides: Sides, known: Known) -> str:
    failed = sides.failed_pico_usd
    is_it = failed > 0 and _is_same(failed, -sides.difference_pico_usd, known, sides)
    return "What ended failed, expired or cancelled was not billed; we had expected it." if is_it else ""


def _in_another_currency(sides: Sides, _known: Known) -> str:
    is_it = sides.noted == BreakKind.CURRENCY and not sides.invoiced_line_count
    return "Billed in another currency, which is not compared with USD." if is_it else ""


def _in_a_strange_format(sides: Sides, _known: Known) -> str:
    is_it = sides.noted == BreakKind.FORMAT and not sides.invoiced_line_count
    return "Billed in a line whose meaning is not known." if is_it else ""


def _given_back(sides: Sides, _known: Known) -> str:
    is_alone = not sides.ours_job_count and sides.invoiced_pico_usd < 0
    is_line = sides.has_such_line and sides.difference_pico_usd < 0
    return "The provider gives money back in a line of usage." if is_alone or is_line else ""


def _missing_receipt(sides: Sides, _known: Known) -> str:
    if not sides.ours_job_count:
        return "They bill this, and we have nothing of it."
    return "One line of the invoice has nothing in our books." if sides.has_such_line else ""


def _missing_invoice(sides: Sides, _known: Known) -> str:
    if not sides.invoiced_line_count:
        return "We have this, and they do not bill it."
    return "One of our jobs is not on the invoice." if sides.has_such_job else ""


def _quantity(sides: Sides, known: Known) -> str:
    # Fewer than none are no count of tokens.
    if sides.invoiced_quantity is None or sides.invoiced_quantity < 0 or sides.invoiced_quantity == sides.ours_quantity:
        return ""
    if not _is_priced(sides, known):
        return ""
    return f"Billed {sides.invoiced_quantity:,} tokens, we have {sides.ours_quantity:,}; the rate is the agreed one."


def _rounding(sides: Sides, known: Known) -> str:
    if sides.invoiced_quantity not in {None, sides.ours_quantity}:
        return ""
    # Some bills truncate: less than one unit a line, not half of one.
    if abs(sides.difference_pico_usd) >= known.minor_unit_pico_usd * max(1, sides.invoiced_line_count):
        return ""
    return f"Less than one unit of the invoice's last decimal on each of {sides.invoiced_line_count:,} lines."


def _grouped(left: Sequence[Sides], without: str) -> dict[Place, list[Sides]]:
    """Give places together that are equal but for one thing."""
    blank = date.min if without == "day" else ""
    groups: dict[Place, list[Sides]] = defaultdict(list)
    for sides in left:
        groups[replace(sides.place, **{without: blank})].append(sides)  # type: ignore[arg-type]  # one field by name
    return groups


_SINGLE_RULES: Final[tuple[tuple[BreakKind, Rule], ...]] = (
    (BreakKind.TIER, _tier),
    (BreakKind.CONTEXT_TIER, _context_tier),
    (BreakKind.PRICE_VERSION, _price_version),
    (BreakKind.UNBILLED_FAILED, _unbilled_failed),
    (BreakKind.CURRENCY, _in_another_currency),
    (BreakKind.FORMAT, _in_a_strange_format),
    (BreakKind.CREDIT_OR_COMMITMENT, _given_back),
    (BreakKind.MISSING_RECEIPT, _missing_receipt),
    (BreakKind.MISSING_INVOICE, _missing_invoice),
    (BreakKind.QUANTITY, _quantity),
)
# Those that compare an amount with another, which printing has cut short.
_AMOUNT_RULES: Final[tuple[tuple[BreakKind, Rule], ...]] = (
    (BreakKind.DUPLICATE_RECEIPT, _duplicate_receipt),
    (BreakKind.DUPLICATE_INVOICE_LINE, _duplicate_line),
    (BreakKind.TIER, _tier),
    (BreakKind.CONTEXT_TIER, _context_tier),
    (BreakKind.PRICE_VERSION, _price_version),
    (BreakKind.UNBILLED_FAILED, _unbilled_failed),
    (BreakKind.QUANTITY, _quantity),
)
