"""The Gamma law at single points. SciPy knows it too, but takes longer to import than a release to make."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from geodp.arithmetic.intervals import working_precision

#: Bits of working precision: mostly enough that results are right to a few units in the last place of a float.
_BITS = 96
#: More bits than this are not tried: the smaller probability is then below all floats.
_MOST_BITS = 1 << 14


@lru_cache(maxsize=1024)
def gamma_probabilities(shape: float, x: float) -> tuple[float, float]:
    """The probabilities of at most ``x``, and of more, under the Gamma law of this shape.

    >>> gamma_probabilities(1.0, math.log(4.0))
    (0.75, 0.25)
    """
    from flint import arb

    if not 0.0 < x < math.inf:
        return (0.0, 1.0) if x <= 0.0 else (1.0, 0.0)
    bits = _BITS
    while True:
        with working_precision(bits):
            both = arb(x).gamma_lower(arb(shape), 1), arb(x).gamma_upper(arb(shape), 1)
        if min(part.rel_accuracy_bits() for part in both) > 55 or bits > _MOST_BITS:
            return float(both[0]), float(both[1])
        bits *= 2


@lru_cache(maxsize=1024)
def gamma_quantile(shape: float, q: float) -> float:
    """The number that a Gamma variable of this shape does not exceed with probability ``q``.

    Newton's iteration for the logarithm of the number. The density of the logarithm of a Gamma variable is log-concave, so
    the logarithms of both probabilities are concave, and after its first step the iteration comes from one side.

    >>> round(gamma_quantile(1.0, 0.75) / math.log(4.0), 12)
    1.0
    """
    if not 0.0 < q < 1.0:
        return 0.0 if q <= 0.0 else math.inf
    # P(x) <= x^shape/Gamma(shape + 1) gives the least it can be; Wilson and Hilferty's formula is close elsewhere
    least = (math.log(q) + math.lgamma(shape + 1.0)) / shape
    cube = 1.0 - 1.0 / (9.0 * shape) + NormalDist().inv_cdf(q) / (3.0 * math.sqrt(shape))
    log = max(least, math.log(shape) + 3.0 * math.log(cube)) if cube > 0.0 else least
    for _ in range(60):
        x = math.exp(log)
        below, above = gamma_probabilities(shape, x)
        slope = math.exp(shape * log - x - math.lgamma(shape))
        up, low = (math.log(q / below), below) if q <= 0.5 else (math.log(above / (1.0 - q)), above)
        step = up * low / slope
        log += min(max(step, -1.0), 1.0)
        if abs(step) < 1e-15 * max(1.0, abs(log)):
            break
    return math.exp(log)
