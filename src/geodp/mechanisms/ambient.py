r"""The ambient baselines of Reimherr, Bharath and Soto (2021): Euclidean noise on the coordinates of the mean.

*Public*, *private* and *neighbours* are as in :mod:`geodp.mechanisms.laplace`. The mean is written as a vector of the ambient
space (a matrix by its upper triangle, a direction by its Cartesian coordinates) and noise with density proportional to
``exp(-|y - mean|/sigma)`` is added. The records lie in a Euclidean ball of radius ``r_E`` about the centre: ``e^r - 1`` for
positive-definite matrices about the identity, ``2 R sin(r/(2 R))`` for a sphere of radius ``R``. The paper takes the
sensitivity of the arithmetic mean of such records, ``2 r_E/n``, and so do we, to compare with; the noise leaves the manifold.
"""

from __future__ import annotations

import math

import numpy as np

from geodp.ball import Ball
from geodp.manifolds import SPD, Sphere


def ambient_dimension(ball: Ball) -> int | None:
    """The number of coordinates that noise is added to; None where the paper has no baseline."""
    manifold = ball.manifold
    if isinstance(manifold, Sphere):
        return manifold.d + 1
    about_identity = np.array_equal(ball.center, manifold.origin)
    return manifold.dim if isinstance(manifold, SPD) and about_identity else None


def ambient_scale(ball: Ball, n: int, epsilon: float) -> float | None:
    """The scale ``2 r_E/(n epsilon)`` of the Euclidean noise; None where the paper has no baseline."""
    if ambient_dimension(ball) is None:
        return None
    if isinstance(ball.manifold, Sphere):
        radius = 2.0 * ball.manifold.radius * math.sin(ball.radius / (2.0 * ball.manifold.radius))
    else:
        radius = math.expm1(ball.radius)
    return 2.0 * radius / (n * epsilon)


def ambient_expected_error(ball: Ball, n: int, epsilon: float) -> float | None:
    """The mean Euclidean length of the ambient noise: its length has a Gamma law, of mean ``sigma`` times the dimension.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere
    >>> round(ambient_expected_error(Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8), n=100, epsilon=1.0), 5)
    0.02341
    """
    dimension, scale = ambient_dimension(ball), ambient_scale(ball, n, epsilon)
    return None if dimension is None or scale is None else dimension * scale
