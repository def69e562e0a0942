"""Single bits of an output, and pairs of them: two bits that each look fair may hide a secret in their XOR."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from geodp.auditing.bounds import LowerBound
from geodp.auditing.events import RANKING_LEVEL, Candidate, Event, Feature, words
from geodp.inputs import Array

#: The number of bits that are compared in all pairs: the last ones of every entry, equally many of each, at least one. Only
#: the first ``_MOST_ENTRIES`` entries are used. The work for an output grows with the square of the number of bits.
_BITS, _MOST_ENTRIES = 256, 1024
#: The number of bits that a float stores of its significand.
_SIGNIFICAND = 52
#: The number of pairs, those that differ most between the data sets, whose bounds are computed carefully.
_SHORT_LIST = 64


class Parities:
    """Counts on each data set how often each bit is one, and how often each two bits differ."""

    def __init__(self, entries: int) -> None:
        self.entries = min(entries, _MOST_ENTRIES)
        self.bits = min(max(_BITS // entries, 1), _SIGNIFICAND)
        columns = 1 + self.entries * self.bits
        self._agreements = np.zeros((2, columns, columns), dtype=np.int64)
        self._draws = [0, 0]

    def add(self, side: int, y: Array) -> None:
        bits = (words(y)[:, : self.entries, None] >> np.arange(self.bits, dtype=np.uint64)) & np.uint64(1)
        # the first column is always zero, so a bit that differs from it is one
        signs = np.ones((len(y), 1 + self.entries * self.bits), dtype=np.float32)
        signs[:, 1:] -= 2.0 * bits.reshape(len(y), -1).astype(np.float32)
        # the sums are at most the size of a chunk, which float32 holds exactly
        self._agreements[side] += np.rint(signs.T @ signs).astype(np.int64)
        self._draws[side] += len(y)

    def most_revealing(self, side: int, bound: LowerBound) -> tuple[Candidate, Feature]:
        """The most revealing event "a bit, or the XOR of two, is one (or zero)", with the hits counted on ``side``.

        Because there are so many pairs, they are ranked by bounds that hold for all of them at once.
        """
        draws = self._draws[side]
        pairs = np.triu_indices(len(self._agreements[0]), 1)
        ones, others = ((draws - self._agreements[which][pairs]) // 2 for which in (side, 1 - side))
        least, chosen, one = -math.inf, 0, True
        for above in (True, False):
            hits, misses = (ones, others) if above else (draws - ones, draws - others)
            listed = _short_list(hits, misses)
            bounds = bound(hits[listed], misses[listed], draws, RANKING_LEVEL / len(ones))
            top = int(np.argmax(bounds))
            if bounds[top] > least:
                least, chosen, one = float(bounds[top]), int(listed[top]), above
        columns = [int(index[chosen]) - 1 for index in pairs]
        places = [divmod(column, self.bits) for column in columns if column >= 0]
        named = " and ".join(f"bit {bit} of entry {entry}" for entry, bit in places)
        name = f"whether {'the XOR of ' if len(places) > 1 else ''}{named} is one"
        return Candidate(Event(name, one, 0.5), least), partial(_parity, places)


def _parity(places: list[tuple[int, int]], y: Array) -> Array:
    total = np.zeros(len(y), dtype=np.uint64)
    for entry, bit in places:
        total ^= words(y)[:, entry] >> np.uint64(bit)
    return (total & np.uint64(1)).astype(np.float64)


def _short_list(hits: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the log ratio of the counts is largest: divided by its standard error, or minus four standard errors."""
    ratio = np.log((hits + 1.0) / (others + 1.0))
    error = np.sqrt(1.0 / (hits + 1.0) + 1.0 / (others + 1.0))
    size = min(_SHORT_LIST, len(hits))
    tops = [np.argpartition(score, len(score) - size)[-size:] for score in (ratio / error, ratio - 4.0 * error)]
    return np.unique(np.concatenate(tops))
