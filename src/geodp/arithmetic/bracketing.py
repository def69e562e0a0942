"""Finds a zero of a function of one variable in an interval."""

from __future__ import annotations

import math
from collections.abc import Callable

from geodp.inputs import EPSILON


def zero_between(
    function: Callable[[float], float], low: float, high: float, *, absolute: float, relative: float = EPSILON
) -> float:
    """A number within ``absolute + relative * |x|`` of a zero ``x`` of a continuous function that changes its sign.

    Brent's method (*Algorithms for Minimization without Derivatives*, 1973, chapter 4): inverse quadratic interpolation while
    it converges fast, else bisection. SciPy has it too, but importing SciPy takes longer than most searches.

    >>> round(zero_between(lambda x: x * x - 2.0, 0.0, 2.0, absolute=1e-12), 9)
    1.414213562
    """
    a, b, at_a, at_b = low, high, function(low), function(high)
    if at_a * at_b > 0.0:
        raise ValueError(f"the function has the same sign at {low:g} and {high:g}")
    c, at_c = a, at_a
    step = earlier = b - a
    while at_b != 0.0:
        if (at_b > 0.0) == (at_c > 0.0):  # keep the zero between b and c ...
            c, at_c = a, at_a
            step = earlier = b - a
        if abs(at_c) < abs(at_b):  # ... and b the better estimate
            a, b, c, at_a, at_b, at_c = b, c, b, at_b, at_c, at_b
        allowed, half = 0.5 * (absolute + relative * abs(b)), 0.5 * (c - b)
        if abs(half) <= allowed:
            break
        interpolated = None
        if abs(earlier) >= allowed and abs(at_a) > abs(at_b):
            interpolated = _interpolated((a, b, c), (at_a, at_b, at_c), min(3.0 * abs(half) - allowed, abs(earlier)))
        step, earlier = (half, half) if interpolated is None else (interpolated, step)
        a, at_a = b, at_b
        b += step if abs(step) > allowed else math.copysign(allowed, half)
        at_b = function(b)
    return b


def _interpolated(at: tuple[float, float, float], values: tuple[float, float, float], most: float) -> float | None:
    """The step from ``b`` by linear or quadratic interpolation, if it goes towards ``c`` and half of it is at most ``most``."""
    (a, b, c), (at_a, at_b, at_c) = at, values
    ratio, way = at_b / at_a, c - b
    if a == c:
        p, q = way * ratio, 1.0 - ratio
    else:
        s, r = at_a / at_c, at_b / at_c
        p, q = ratio * (way * s * (s - r) - (b - a) * (r - 1.0)), (s - 1.0) * (r - 1.0) * (ratio - 1.0)
    step = -p / q if q != 0.0 else math.inf
    return step if 2.0 * abs(step) < most and step * way > 0.0 else None
