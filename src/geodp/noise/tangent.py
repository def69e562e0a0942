r"""Noise in the tangent space at a public point: Laplace or Gaussian, on every manifold.

*Public*: the ball (its centre ``m0`` is the point, its radius ``r`` bounds where the value is), the scale, the law. *Private*:
the value ``x`` in the ball. *Neighbours*: data sets whose values have normal coordinates ``u = log_m0(x)`` at most ``Delta``
apart.

The release is ``exp_m0(u + z)`` with ``z`` in ``R^d`` of density proportional to ``exp(-|z|/sigma)`` or
``exp(-|z|^2/(2 sigma^2))``. Here ``u + z`` is a Euclidean mechanism and ``exp_m0`` is post-processing. So the cost is the exact
curve of Laplace or Gaussian noise in ``R^d`` between centres ``Delta/sigma`` scales apart (:mod:`geodp.privacy.curves`, where the
worst pair is shown to be the farthest). There is no condition on the scale.

*From geodesic to tangent distance.* ``log_m0`` is 1-Lipschitz if the curvature is at most 0, and on a ball of radius ``r`` has
the Lipschitz constant ``L = sqrt(kappa) r/sin(sqrt(kappa) r)`` if it is at most ``kappa > 0`` (Rauch; the ball is convex, so
the geodesic between two values stays in it): :func:`stretch_of_log`.

*Into the ball.* By default ``u + z`` is shortened to length ``r`` if it is longer. That is post-processing, and 1-Lipschitz in
``R^d``.

*Error.* On a symmetric space ``exp_m0`` stretches by at most 1 if the curvature is non-negative, and at radius ``s`` by at
most ``sinh(k s)/(k s)``, ``-k^2`` the lowest curvature, in general. So the distance of a draw from its value is at most
``min(|z| sinhc(k r), 2 r)`` if moved into the ball, and ``min(|z| sinhc(k (r + |z|)), 2 r + |z|)`` otherwise.

Once ``u + z`` is drawn, more is known: the segment from it (shortened to the ball, which moves it no farther from ``u``) to ``u``
is no longer than ``|z|``, so it stays within its own length plus ``|z|`` of the centre. So with probability ``q`` the error is at
most ``z_q sinhc(k min(r, |u + z| + z_q))``, where ``z_q`` is the ``q``-quantile of ``|z|``: where the mean is near the centre,
much less.

*Where values usually are.* At a third of the radius ``exp`` stretches a step in a random direction by
:meth:`geodp.Manifold.typical_stretch`, in the mean square.

*Exact arithmetic.* ``u`` is computed in floats, to a public tolerance that ``Delta`` includes. ``u + z`` is drawn by the
program over exact reals of :mod:`geodp.noise.exact` on ``R^d`` and rounded to a public grid. Everything after that is a function
of the rounded vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from geodp.arithmetic.entropy import Entropy
from geodp.inputs import Array
from geodp.manifolds import Euclidean, Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import sinhc
from geodp.noise import exact
from geodp.noise.flat import Family, FlatNoise
from geodp.noise.mechanism import Kind, Mechanism, is_multiple
from geodp.privacy.cost import Cost, GaussianCost, LaplaceCost


@final
@dataclass(frozen=True, eq=False)
class TangentMechanism(Mechanism):
    """Noise on the normal coordinates of the value at the centre of the ball."""

    ball: Ball
    into_ball: bool = True

    kind: ClassVar[Kind] = "tangent"
    adjective: ClassVar[str] = "tangent"

    @property
    def manifold(self) -> Manifold:
        return self.ball.manifold

    @property
    def projected(self) -> bool:
        return self.into_ball

    @cached_property
    def noise(self) -> FlatNoise:
        return FlatNoise(self.manifold.dim, self.scale, self.family)

    def coordinates(self, points: Array) -> Array:
        """Normal coordinates at the centre of the ball."""
        return self.manifold.raw_coordinates(self.ball.center, self.manifold.raw_log(self.ball.center, points))

    @cached_property
    def _reference_points(self) -> Array:
        """Two public points: the centre and one at the edge of the ball."""
        return self._points_at(np.eye(self.manifold.dim)[[0, 0]] * [[0.0], [self.ball.radius]])

    @property
    def grid(self) -> float:
        return math.ldexp(1.0, exact.default_grid_exponent(Euclidean(self.manifold.dim), self.scale))

    def draws(self, values: Sequence[Array], entropy: Entropy | None = None) -> list[Array]:
        """Noisy normal coordinates, not shortened to the ball."""
        flat = Euclidean(self.manifold.dim)
        # the code for logarithms branches by distance from the centre: with a near and a far point in the array, it takes all
        # branches for every value
        coordinates = self.coordinates(np.concatenate([np.stack(values), self._reference_points]))[: len(values)]
        return [exact.sample(flat, self.scale, each, family=self.family, entropy=entropy).value for each in coordinates]

    def floats(self, value: Array, size: int, rng: np.random.Generator) -> Array:
        return self.coordinates(value) + self.noise.sample(size, rng)

    def possible(self, drawn: Array) -> bool:
        return drawn.shape == (self.manifold.dim,) and is_multiple(drawn, self.grid)

    def finish(self, drawn: Array) -> Array:
        return self._points_at(np.atleast_2d(drawn)).reshape(*drawn.shape[:-1], *self.manifold.point_shape)

    def _points_at(self, coordinates: Array) -> Array:
        """The points with these normal coordinates, one a row. Depends on nothing else."""
        center, manifold = self.ball.center, self.manifold
        if self.into_ball:
            length = np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
            coordinates = coordinates * np.minimum(1.0, self.ball.radius / np.maximum(length, self.ball.radius))
        while True:
            with np.errstate(all="ignore"):
                points = manifold.raw_exp(center, manifold.raw_tangent(center, coordinates))
            wrong = ~manifold.valid(points)
            if not wrong.any():
                return points
            # if the point is too far away for floats, take the farthest one that fits, in the same direction
            coordinates = np.where(wrong[:, None], 0.75 * coordinates, coordinates)

    def expected_error(self) -> float:
        if self.into_ball:
            stretch = stretch_of_exp(self.ball)
            return stretch * self.noise.mean_length(2.0 * self.ball.reach / stretch)
        return self.noise.expected(self._bound) * (1.0 + 1e-4)  # more than the error of the quadrature

    def likely_error(self) -> float:
        away = self.ball.radius / 3.0
        likely = self.noise.mean_length() * self.manifold.typical_stretch(away)
        return min(likely, self.expected_error(), 4.0 * away if self.into_ball else self.manifold.diameter)

    def quantile_at(self, drawn: Array, q: float) -> float:
        return min(self.error_quantile(q), float(self._bound_at(drawn, np.array(self.noise.length_quantile(q)))))

    def expected_at(self, drawn: Array) -> float:
        return min(self.expected_error(), self.noise.expected(lambda length: self._bound_at(drawn, length)) * (1.0 + 1e-4))

    def _bound_at(self, drawn: Array, length: Array) -> Array:
        """A bound on the distance of this draw from its value if the noise has this length."""
        reach, bend = self.ball.reach, math.sqrt(-self.manifold.lowest_curvature)
        away = float(np.linalg.vector_norm(drawn))
        far = np.minimum(reach, min(away, reach) + length) if self.into_ball else away + length
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(length * sinhc(bend * far), 2.0 * reach if self.into_ball else np.inf))

    def quick_error(self) -> float:
        return self.expected_error()

    def error_quantile(self, q: float) -> float:
        return float(self._bound(np.array(self.noise.length_quantile(q))))

    def _bound(self, length: Array) -> Array:
        """A bound on the distance of a draw from its value if the noise has this length."""
        radius, bend = self.ball.reach, math.sqrt(-self.manifold.lowest_curvature)
        if self.into_ball:
            return np.minimum(length * stretch_of_exp(self.ball), 2.0 * radius)
        with np.errstate(over="ignore"):
            far = np.minimum(length * sinhc(bend * (radius + length)), 2.0 * radius + length)
        return np.minimum(far, self.manifold.diameter)

    def privacy_loss(self, first: Array, second: Array, y: Array) -> Array:
        return self.noise.privacy_loss(self.coordinates(first), self.coordinates(second), self.coordinates(y))


def tangent_cost(dim: int, family: Family, ratio: float) -> Cost:
    """The cost of a draw if normal coordinates of values are at most ``ratio`` scales apart."""
    return LaplaceCost(ratio, dim) if family == "laplace" else GaussianCost(ratio)


def stretch_of_exp(ball: Ball) -> float:
    """The largest factor by which ``exp`` at the centre stretches lengths in the ball."""
    return float(sinhc(np.array(math.sqrt(-ball.manifold.lowest_curvature) * ball.reach)))


def stretch_of_log(ball: Ball) -> float:
    """The Lipschitz constant of ``log`` at the centre on the ball, rounded up.

    >>> from geodp import Sphere
    >>> round(stretch_of_log(Ball(Sphere(2), [0.0, 0.0, 1.0], math.pi / 8)), 4)
    1.0262
    """
    angle = math.sqrt(ball.manifold.curvature) * ball.reach
    return angle / math.sin(angle) * (1.0 + 1e-14) if angle > 0.0 else 1.0
