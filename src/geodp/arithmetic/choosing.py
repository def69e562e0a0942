r"""Choices among finitely many things with exactly known chances.

**Claim.** :func:`choose` returns ``i`` with probability exactly proportional to ``exp(w_i)`` for rational ``w_i``, if the bits
are independent and fair.

*Proof.* The ideal algorithm draws one uniform real number ``u`` and returns the ``i`` with
``sum_{j<i} exp(w_j) <= u sum_j exp(w_j) < sum_{j<=i} exp(w_j)``. The program evaluates both sides in intervals that enclose them,
from the bits of ``u`` revealed so far. It answers only if every comparison has one answer throughout the intervals, and otherwise
starts again with twice the precision and the same bits followed by new ones. So every answer is that of the ideal algorithm. A
tie has probability zero, and an undecided comparison at the starting precision about ``2^-128``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from flint import arb

from geodp.arithmetic.entropy import Entropy, OperatingSystem, Tape
from geodp.arithmetic.intervals import Undecided, interval, less, working_precision

_BITS = 192


def choose(log_weights: Sequence[Fraction], entropy: Entropy | None = None) -> int:
    """An index, with chances proportional to the exponentials of the weights.

    >>> from geodp.arithmetic.entropy import NotPrivate
    >>> source = NotPrivate(1)
    >>> draws = [choose([Fraction(0), Fraction(-1)], source) for _ in range(1000)]
    >>> round(draws.count(0) / 1000, 1)  # 1/(1 + exp(-1)) = 0.73
    0.7
    """
    top = max(log_weights)
    tape, bits = Tape(OperatingSystem() if entropy is None else entropy), _BITS
    while True:
        try:
            with working_precision(bits):
                return _chosen([weight - top for weight in log_weights], tape)
        except Undecided:
            bits *= 2
            tape.rewind()


def _chosen(log_weights: list[Fraction], tape: Tape) -> int:
    # equal weights are common and exponentials are not cheap
    distinct = {weight: interval(weight).exp() for weight in set(log_weights)}
    sums = list(accumulate((distinct[weight] for weight in log_weights), initial=arb(0)))
    point = tape.uniform() * sums[-1]
    low, high = 0, len(log_weights)
    while high - low > 1:  # the number of steps depends on the number of choices alone
        middle = (low + high) // 2
        low, high = (low, middle) if less(point, sums[middle]) else (middle, high)
    return low
