r"""The Laplace mechanism for the Fréchet mean.

*Public*: the manifold, the ball, the number of records ``n``, epsilon, the bound. *Private*: the records.
*Neighbours*: data sets of the same size that differ by replacing one record.

**Theorem** (Reimherr, Bharath and Soto 2021, Theorem 1). On a homogeneous manifold the law with density proportional to
``exp(-dist(eta, y)/sigma)``, where it exists, has a normaliser that does not depend on its centre ``eta``. If the centres of
neighbouring data sets are at most ``Delta`` apart, then by the triangle inequality the densities differ by a factor of at
most ``exp(Delta/sigma)`` at every ``y``: with ``sigma = Delta/epsilon`` the draw is epsilon-differentially private.

*What is done with it.* The centre is the computed mean of the clipped records, so

``Delta = sensitivity + 2 * tolerance``

where ``sensitivity`` bounds the distance of the exact means (:func:`geodp.sensitivity`) and ``tolerance`` that of a
computed mean from the exact one (:func:`geodp.statistics.mean.default_tolerance`, met for every data set, and the rounding of its
coordinates). All manifolds of the library are homogeneous and the law is not truncated, so no factor of two is needed.
``sigma`` is rounded up.

*Conditions checked here*: epsilon is positive and finite, the radius is admissible (by the ball), ``n >= 1``, and ``sigma`` is
far enough below the inverse of the volume entropy, at which the law ceases to exist, that it can be drawn; and float64 resolves
the ball: ``tolerance`` is small against the radius, which is not so close to the largest one that a mean could take very
many passes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from geodp.inputs import EPSILON, real_number
from geodp.laws import exact
from geodp.laws.families import GREATEST_SCALE, LEAST_SCALE, Laplace
from geodp.manifolds.ball import Ball
from geodp.statistics.mean import default_tolerance, flatness
from geodp.statistics.sensitivity import Bound, sensitivity


@dataclass(frozen=True)
class Calibration:
    """The scale of the noise and the public numbers it was derived from."""

    ball: Ball
    n: int
    epsilon: float
    bound: Bound
    sensitivity: float
    tolerance: float
    scale: float

    @cached_property
    def law(self) -> Laplace:
        return Laplace(self.ball.manifold, self.scale)


def calibrate(ball: Ball, n: int, epsilon: float, bound: Bound = "sharp") -> Calibration:
    """The noise that makes the mean of ``n`` records in the ball ``epsilon``-differentially private.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> round(calibrate(Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8), n=100, epsilon=2.0).scale, 9)
    0.004142136
    """
    epsilon = checked_epsilon(epsilon)
    delta = sensitivity(ball, n, bound)
    tolerance = numerical_tolerance(ball)
    if not tolerance < 0.1 * ball.radius:
        raise ValueError(
            f"float64 cannot resolve means in this ball of {ball.manifold}: rounding may move them by {tolerance:.2g}, more than "
            f"a tenth of the radius {ball.radius:g}. A smaller radius, or a centre with a smaller condition number, would work"
        )
    if flatness(ball) < 1e-3:
        raise ValueError(
            f"the radius {ball.radius:g} is too close to the largest one, {ball.max_radius:g}, for means to be computed in "
            f"bounded time, and one record could move them {2.0 / flatness(ball) / n:.3g} radii: choose a smaller one"
        )
    scale = (delta + 2.0 * tolerance) / epsilon * (1.0 + 8.0 * EPSILON)
    # past these floats cannot hold what a receipt says about the noise, and a receipt must never fail after the charge
    if not LEAST_SCALE <= scale <= GREATEST_SCALE:
        lowest, highest = ((delta + 2.0 * tolerance) / extreme for extreme in (GREATEST_SCALE, LEAST_SCALE))
        size, room = ("small", f"above {lowest:.3g}") if scale > 1.0 else ("large", f"below {highest:.3g}")
        raise ValueError(
            f"epsilon is {epsilon}, too {size} for this ball: the scale of the noise would be past what floats hold. "
            f"Right would be an epsilon {room}"
        )
    # close to its limit the sampler would take for ever, and noise that wide is of no use
    limit = 0.9 * exact.largest_scale(ball.manifold)
    if scale >= limit:
        enough = epsilon * (scale / limit)
        raise ValueError(
            f"noise of scale {scale:.6g} is too wide to draw on {ball.manifold}: the scale must be below {limit:.6g}. "
            f"Enough would be an epsilon above {enough:.6g} with n = {n}, or n * epsilon above {n * enough:.6g} with this ball"
        )
    if not exact.is_drawable(ball.manifold, scale):
        raise ValueError(
            f"noise of scale {scale:.6g} on {ball.manifold} takes thousands of trials a draw: n * epsilon is {n * epsilon:.6g}, "
            "make it larger or the ball smaller"
        )
    return Calibration(ball, int(n), epsilon, bound, delta, tolerance, scale)


def numerical_tolerance(ball: Ball) -> float:
    """How far the centre of the noise may be from the exact mean: a function of the ball alone.

    The solver's tolerance, and the difference between the computed point and the exact one that its floats define.
    """
    return default_tolerance(ball) + 4.0 * ball.manifold.log_rounding_in_ball(ball.center, ball.reach)


def checked_epsilon(epsilon: float) -> float:
    value = real_number(epsilon, "epsilon")
    if not 0.0 < value < math.inf:
        raise ValueError(f"epsilon must be positive and finite but is {epsilon}")
    return value
