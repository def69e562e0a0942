"""How far one record can move the Fréchet mean."""

from __future__ import annotations

import math
from typing import Literal, get_args

from geodp.inputs import EPSILON, describe, whole_number
from geodp.manifolds.ball import Ball, checked_ball

Bound = Literal["sharp", "reimherr2021"]


def sensitivity(ball: Ball, n: int, bound: Bound = "sharp") -> float:
    r"""An upper bound on the distance between the Fréchet means of neighbouring data sets.

    Neighbours are data sets of the same public size ``n`` in the ball that differ by replacing one record. The value is a
    function of public numbers alone.

    ``bound="sharp"``. Let the sectional curvatures be at most ``kappa`` and the radius ``r`` be below
    ``1/2 min(injectivity radius, pi/sqrt(kappa))``. Then the means are at most

    .. math:: \Delta = \frac{2 \tan(\sqrt\kappa\, r)}{\sqrt\kappa\, n}  \quad(\kappa > 0), \qquad
              \Delta = \frac{2 r}{n}  \quad(\kappa \le 0)

    apart, and never more than ``2 r``. Idea of the proof: move the weight of the old record to the new one continuously.
    The mean then moves with velocity ``H^{-1}(log x' - log x)/n``, where ``H`` is the Hessian of half the mean squared
    distance. Because the mean is a critical point, the comparison of triangles with those on the sphere bounds ``H`` from
    below and the range of ``log`` from above, and the product of the two bounds is ``2 tan(sqrt(kappa) r)/sqrt(kappa)``.
    No smaller constant holds on a space that has an immersed totally geodesic surface of constant curvature ``kappa``. The
    full proof is in ``docs/sensitivity.md``.

    ``bound="reimherr2021"``. Theorem 2 of Reimherr, Bharath and Soto (2021): ``2 r (2 - h)/(n h)`` with
    ``h = 2 r sqrt(kappa) cot(2 r sqrt(kappa))``, or 1 if ``kappa <= 0``. It needs the smaller radius
    ``r < 1/2 min(injectivity radius, pi/(2 sqrt(kappa)))``.

    The radius that enters is :attr:`Ball.reach`, the radius and the rounding error of clipping, and the result is rounded
    up.

    >>> import numpy as np
    >>> from geodp import SPD, Sphere
    >>> round(sensitivity(Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8), n=100), 9)
    0.008284271
    >>> round(sensitivity(Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8), n=100, bound="reimherr2021"), 9)
    0.012146018
    >>> round(sensitivity(Ball(SPD(3), np.eye(3), 1.5), n=100), 9)
    0.03
    """
    checked_ball(ball)
    n = whole_number(n, 1, "the number of records n")
    if bound not in get_args(Bound):
        raise ValueError(f"the bound must be one of {', '.join(get_args(Bound))} but is {describe(bound)}")
    root = math.sqrt(ball.manifold.curvature)
    value = _sharp(ball.reach, root) if bound == "sharp" else _reimherr(ball, root)
    return min(2.0 * ball.reach, value / n) * (1.0 + 8.0 * EPSILON)


def _sharp(radius: float, root: float) -> float:
    return 2.0 * math.tan(root * radius) / root if root > 0.0 else 2.0 * radius


def _reimherr(ball: Ball, root: float) -> float:
    radius = ball.reach
    limit = 0.5 * min(ball.manifold.injectivity_radius, math.pi / (2.0 * root) if root > 0.0 else math.inf)
    if radius >= limit:
        raise ValueError(
            f"the radius is {ball.radius} but Theorem 2 of Reimherr, Bharath and Soto (2021) needs one below {limit} on "
            f"{ball.manifold}; bound='sharp' holds up to {ball.max_radius}"
        )
    angle = 2.0 * radius * root
    h = angle / math.tan(angle) if root > 0.0 else 1.0
    return 2.0 * radius * (2.0 - h) / h
