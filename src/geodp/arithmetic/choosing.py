r"""Random choices among finitely many things, with exact probabilities.

**Claim.** :func:`choose` returns ``i`` with probability exactly proportional to ``w_i exp(rate s_i)`` for whole numbers ``s_i``
and ``w_i > 0`` and a rational ``rate``, if the bits are independent and fair.

*Proof.* The ideal algorithm draws one uniform real number ``u`` and returns the ``i`` with ``S_{i-1} <= u S_n < S_i``, where
``S_i`` is the sum of ``w_j exp(rate s_j)`` up to ``i``. The program evaluates both sides in intervals that enclose them, from the
bits of ``u`` revealed so far. It answers only if every comparison has one answer throughout the intervals, and otherwise
starts again with twice the precision and the same bits followed by new ones. So every answer is that of the ideal algorithm.
A tie has probability zero, and an undecided comparison at the starting precision about ``2^-128``.

:func:`choose_among_many` does the same for very many things, of which most have the score 0 and only the others are listed. Each
thing has the weight 1, and a thing with the score ``s > 0`` has ``exp(rate s) - 1`` more: together ``exp(rate s)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from flint import arb

from geodp.arithmetic.entropy import Entropy, OperatingSystem, Tape
from geodp.arithmetic.intervals import Undecided, enclosed, interval, less, working_precision

_BITS = 192


def choose(scores: Sequence[int], rate: Fraction, entropy: Entropy | None = None, weights: Sequence[int] | None = None) -> int:
    """A random index, with probabilities proportional to its weight (by default 1) times ``exp(rate * score)``.

    >>> from geodp.arithmetic.entropy import NotPrivate
    >>> source = NotPrivate(1)
    >>> draws = [choose([0, -2], Fraction(1, 2), source) for _ in range(1000)]
    >>> round(draws.count(0) / 1000, 1)  # 1/(1 + exp(-1)) = 0.73
    0.7
    """
    top = max(scores)
    tape, bits = Tape(OperatingSystem() if entropy is None else entropy), _BITS
    while True:
        try:
            with working_precision(bits):
                return _chosen([score - top for score in scores], rate, weights or [1] * len(scores), tape)
        except Undecided:
            bits *= 2
            tape.rewind()


def choose_among_many(all_of_them: int, scored: Sequence[int], rate: Fraction, entropy: Entropy | None = None) -> tuple[int, int]:
    """Chooses one of very many things, with probabilities proportional to the exponentials of ``rate`` times their scores.

    ``scored[s - 1]`` of ``all_of_them`` have the score ``s``, the others 0. The answer is a score and a position: ``(0, k)``
    is the ``k``-th of all things, and ``(s, k)`` the ``k``-th of those with the score ``s``; both may be the same thing.

    >>> from geodp.arithmetic.entropy import NotPrivate
    >>> source = NotPrivate(1)
    >>> draws = [choose_among_many(10**30, [0, 0, 1], Fraction(24), source) for _ in range(1000)]
    >>> 0.92 < sum(score == 3 for score, _ in draws) / 1000 < 0.98  # exp(72) is 1.86e31: the chance is 0.949
    True
    """
    tape = Tape(OperatingSystem() if entropy is None else entropy)
    # the number of bits before the point in the largest possible weight, whether or not a thing has that weight
    bits = _BITS + all_of_them.bit_length() + math.ceil(rate * len(scored) * Fraction(3, 2))
    while True:
        try:
            with working_precision(bits):
                return _chosen_among_many(all_of_them, scored, rate, tape)
        except Undecided:
            bits *= 2
            tape.rewind()


def _chosen_among_many(all_of_them: int, scored: Sequence[int], rate: Fraction, tape: Tape) -> tuple[int, int]:
    # compute an exponential for every possible score, so that the time does not reveal which scores occur
    factor, one = interval(rate), enclosed(1.0, 0)
    each = [one, *((factor * score).exp() - one for score in range(1, len(scored) + 1))]
    weights = (weight * (arb(count) + enclosed(0.0, 0)) for weight, count in zip(each, (all_of_them, *scored), strict=True))
    sums = list(accumulate(weights, initial=arb(0)))
    point = tape.uniform() * sums[-1]
    score = _place(point, sums)
    position = ((point - sums[score]) / each[score]).floor().unique_fmpz()
    if position is None:
        raise Undecided
    return score, int(position)


def _chosen(scores: list[int], rate: Fraction, weights: Sequence[int], tape: Tape) -> int:
    # The time must not reveal the scores. So compute one exponential for each score, even for equal ones, and since exp(0) would
    # be faster, give all of them a common factor that cancels: exp(-1).
    factor, one = interval(rate), enclosed(1.0, 0)
    each = (arb(weight) * (factor * score - one).exp() for weight, score in zip(weights, scores, strict=True))
    sums = list(accumulate(each, initial=arb(0)))
    return _place(tape.uniform() * sums[-1], sums)


def _place(point: arb, sums: list[arb]) -> int:
    """The number of the interval between consecutive sums that contains the point."""
    low, high = 0, len(sums) - 1
    while high - low > 1:  # the number of steps depends only on the number of choices
        middle = (low + high) // 2
        low, high = (low, middle) if less(point, sums[middle]) else (middle, high)
    return low
