r"""Random choices among finitely many things, with exact probabilities.

**Claim.** :func:`choose` returns ``i`` with probability exactly proportional to ``w_i exp(rate s_i)`` for whole numbers ``s_i``
and ``w_i > 0`` and a rational ``rate``, if the bits are independent and fair.

*Proof.* The ideal algorithm draws one uniform real number ``u`` and returns the ``i`` with ``S_{i-1} <= u S_n < S_i``, where
``S_i`` is the sum of ``w_j exp(rate s_j)`` up to ``i``. The program evaluates both sides in intervals that enclose them, from the
bits of ``u`` revealed so far. It answers only if every comparison has one answer throughout the intervals, and otherwise
starts again with twice the precision and the same bits followed by new ones. So every answer is that of the ideal algorithm.
A tie has probability zero, and an undecided comparison at the starting precision about ``2^-128``.
"""

from __future__ import annotations

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
