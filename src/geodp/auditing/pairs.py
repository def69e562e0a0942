"""Neighbouring data sets whose means are about as far apart as one record can move them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array, whole_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball


def worst_case_pair(ball: Ball, n: int) -> tuple[Array, Array]:
    r"""Two data sets of ``n`` records in the ball that differ in the last one and, for large ``n``, attain the sharp sensitivity.

    Without positive curvature all records but the last are at the centre, and the last moves from one end of a diameter of the
    ball to the other. All records lie on one geodesic, where the mean is the mean of numbers, so the means are exactly ``2 r/n``
    apart. With curvature ``kappa > 0`` half of the other records are at each end of a diameter, and the last moves along a second
    diameter, orthogonal to it in a plane of sectional curvature ``kappa``. In that plane the far records hold the mean only
    weakly: it moves by ``2 tan(sqrt(kappa) r)/(sqrt(kappa) n)`` as ``n`` grows. (With few records and a radius close to the
    largest it moves less, down to half of the bound.)

    >>> import numpy as np
    >>> from geodp import SPD, Sphere, frechet_mean, sensitivity
    >>> for ball in Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8), Ball(SPD(2), np.eye(2), 1.5):
    ...     means = [frechet_mean(x, ball).point for x in worst_case_pair(ball, 101)]
    ...     print(round(ball.manifold.dist(*means) / sensitivity(ball, 101), 4))
    0.9995
    1.0
    """
    n = whole_number(n, 1, "the number of records n")
    manifold, center = ball.manifold, ball.center
    first = np.empty((n, *manifold.point_shape))
    first[:] = center
    axes = ball.radius * manifold.plane_of_largest_curvature
    if manifold.curvature > 0.0:
        half = (n - 1) // 2
        first[:half] = _point_at(ball, axes[0])
        first[half:] = _point_at(ball, -axes[0])
    second = first.copy()
    first[-1], second[-1] = _point_at(ball, axes[-1]), _point_at(ball, -axes[-1])
    return first, second


def _point_at(ball: Ball, coordinates: Array) -> Array:
    return ball.manifold.raw_exp(ball.center, ball.manifold.raw_tangent(ball.center, coordinates))


def checked_pair(pair: tuple[ArrayLike, ArrayLike], manifold: Manifold) -> tuple[Array, Array]:
    """Two data sets as arrays; raises if they are not neighbours."""
    if len(pair) != 2:
        raise ValueError(f"a pair of neighbouring data sets has two members but {len(pair)} were given")
    first, second = (manifold.read(x, name) for x, name in zip(pair, ("the first data set", "the second data set"), strict=True))
    leading = len(manifold.point_shape) + 1
    if first.shape != second.shape or first.ndim != leading or len(first) == 0:
        raise ValueError(
            f"the two data sets have shapes {first.shape} and {second.shape}, but must both have the shape "
            f"({', '.join(['n', *map(str, manifold.point_shape)])})"
        )
    rows = (len(first), -1)
    differ = int((~np.isclose(first, second, rtol=0.0, atol=0.0, equal_nan=True)).reshape(rows).any(axis=1).sum())
    if differ > 1:
        raise ValueError(
            f"the two data sets differ in {differ} of {len(first)} rows, but neighbours differ by replacing one record: "
            "keep the others the same and in the same order"
        )
    return first, second
