"""A table of weights for a vocabulary that nobody published, fitted to what rows settled at.

A non-negative mix of the known tables, then a correction by class of byte pair, drawn towards that mix (ridge). All the
fit needs are sums over rows: products of the known tables' counts and of how many pairs of each class a row has. No
row can be read from them, and none is kept.

References:
    The project's measured study of token estimators, "Closed vocabulary". With 256 classes instead of 65,536 pairs and
    each known vocabulary left out in turn: 4.3 % a row after 300 rows of many kinds, 3.7 % after 1,000; the mix alone
    5.3 %, the mean of the known tables 10.4 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from routing.domain.estimate.tables import (
    LARGEST_WEIGHT,
    PAIR_COUNT,
    TABLE_ORDER,
    WEIGHT_SCALE,
    Vocabulary,
    vocabulary_named,
)
from routing.domain.estimate.weights import RowTexts, between, weigh_rows

LEAST_ROWS = 300
# Rows of one lesson that are added up: more of the same kind of text would drown the others.
ROWS_A_LESSON = 500
# A candidate takes over when its rows are off by a tenth less, over this many rows that it had not seen.
SHADOW_ROWS, BETTER_PER_MILLE = 150, 900
_RIDGE = 3e-3
_CLASS_COUNT = 16
_MIX_COUNT = len(TABLE_ORDER) + 2

Features = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


def _classes() -> npt.NDArray[np.int64]:
    """Give each byte pair's class: that of its first byte and that of its second."""
    kinds: Sequence[Sequence[int] | bytes] = (
        *(b"\n", b" ", b"0123456789", b"aeiou", b"tnsrhldc", b"bfgjkmpqvwxyz", range(65, 91), b".,;:!?", b"\"'`"),
        *(b"()[]{}<>", b"-_/\\|=+*&%$#@^~", range(0x80, 0xC0), range(0xC2, 0xE0), range(0xE0, 0xF0)),
        range(0xF0, 0x100),
    )
    of_byte = np.zeros(256, dtype=np.int64)
    for number, kind in enumerate(kinds, start=1):
        of_byte[list(kind)] = number
    pairs = np.arange(PAIR_COUNT)
    classes: Numbers = of_byte[pairs & 0xFF] * _CLASS_COUNT + of_byte[pairs >> 8]
    return classes


_CLASS_OF_PAIR = _classes()
FEATURE_COUNT = _MIX_COUNT + _CLASS_COUNT**2


def features_of(texts: RowTexts, message_counts: Numbers) -> Features:
    """Give what the fit looks at, a line a row: the known tables' counts, messages, 1, and pairs by class."""
    count = len(texts)
    known = [weigh_rows(texts, 0, count, vocabulary_named(name)) / WEIGHT_SCALE for name in TABLE_ORDER]
    ends = np.append(texts.starts[1:], len(texts.pairs))
    row_of_pair = np.repeat(np.arange(count), ends - texts.starts) * _CLASS_COUNT**2
    counts = np.zeros(count * _CLASS_COUNT**2, dtype=np.int64)
    for pairs in (texts.pairs, between(texts.pairs)):
        counts += np.bincount(row_of_pair[: len(pairs)] + _CLASS_OF_PAIR[pairs], minlength=len(counts))
    return np.column_stack([*known, message_counts, message_counts > 0, counts.reshape(count, -1)]).astype(np.float64)


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """The sums over rows, each by 1 / settled squared: of products of features, and of features times settled."""

    row_count: int = 0
    products: bytes = b""
    targets: bytes = b""

    def with_rows(self, features: Features, settled: Numbers) -> Self:
        """Give the sums with more rows."""
        relative = features / settled[:, None]
        products, targets = self._arrays()
        products = products + relative.T @ relative
        return type(self)(
            row_count=self.row_count + len(settled),
            products=products[np.triu_indices(FEATURE_COUNT)].astype("<f4").tobytes(),
            targets=(targets + relative.sum(axis=0)).astype("<f4").tobytes(),
        )

    def _arrays(self) -> tuple[Features, Features]:
        products = np.zeros((FEATURE_COUNT, FEATURE_COUNT))
        if not self.row_count:
            return products, np.zeros(FEATURE_COUNT)
        products[np.triu_indices(FEATURE_COUNT)] = np.frombuffer(self.products, dtype="<f4")
        products += np.triu(products, 1).T
        return products, np.frombuffer(self.targets, dtype="<f4").astype(np.float64)

    def fit(self) -> Fit | None:
        """Give the table that fits; None before there are 300 rows."""
        if self.row_count < LEAST_ROWS:
            return None
        products, targets = self._arrays()
        mix = _non_negative(products[:_MIX_COUNT, :_MIX_COUNT], targets[:_MIX_COUNT])
        by_class = products[_MIX_COUNT:, _MIX_COUNT:]
        strength = _RIDGE * np.trace(by_class) / len(by_class)
        rest = targets[_MIX_COUNT:] - products[_MIX_COUNT:, :_MIX_COUNT] @ mix
        correction = np.linalg.solve(by_class + strength * np.eye(len(by_class)), rest)
        known = np.stack([vocabulary_named(name).weights for name in TABLE_ORDER]).astype(np.float64)
        weights = mix[: len(TABLE_ORDER)] @ known + correction[_CLASS_OF_PAIR] * WEIGHT_SCALE
        weights[0] = 0
        return Fit(
            weights=np.clip(np.rint(weights), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype("<i2").tobytes(),
            message_tokens=round(float(mix[-2])),
            request_tokens=round(float(mix[-1])),
        )


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted table: weights as little-endian 16-bit numbers, and the framing that goes with them."""

    weights: bytes
    message_tokens: int
    request_tokens: int

    def as_vocabulary(self, like: Vocabulary) -> Vocabulary:
        """Give it as a vocabulary whose tools and band are those of another."""
        return dataclasses.replace(
            like,
            name=f"{like.name}, learned",
            weights=np.frombuffer(self.weights, dtype="<i2").astype(np.int16),
            message_tokens=self.message_tokens,
            request_tokens=self.request_tokens,
        )


def _non_negative(products: Features, targets: Features) -> Features:
    """Solve least squares without negative parts: what comes out negative is left out, until nothing does."""
    left = np.ones(len(targets), dtype=bool)
    found = np.zeros(len(targets))
    while left.any():
        chosen = products[np.ix_(left, left)]
        ridge = 1e-6 * np.trace(products) / len(targets) * np.eye(len(chosen))
        found = np.zeros(len(targets))
        found[left] = np.linalg.solve(chosen + ridge, targets[left])
        if (found >= 0).all():
            break
        left &= found > 0
    return np.maximum(found, 0)


class Apprentice(msgspec.Struct, frozen=True, kw_only=True):
    """A table in the making: its sums, the candidate, and how both tables did on rows the candidate had not seen."""

    sums: Sums = Sums()
    candidate: Fit | None = None
    shadow_row_count: int = 0
    used_error_ppm_sum: int = 0
    candidate_error_ppm_sum: int = 0

    def to_bytes(self) -> bytes:
        """Give the stored form."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes | memoryview) -> Self:
        """Read the stored form."""
        return msgspec.msgpack.decode(bytes(stored), type=cls)

    def is_better(self) -> bool:
        """Say whether the candidate has earned to be used."""
        return (
            self.candidate is not None
            and self.shadow_row_count >= SHADOW_ROWS
            and self.candidate_error_ppm_sum * 1_000 <= self.used_error_ppm_sum * BETTER_PER_MILLE
        )
