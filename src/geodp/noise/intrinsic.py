r"""Noise on the manifold itself: the Laplace and the Gaussian law about a point.

*Public*: the manifold, the scale, the law, the ball if there is one. *Private*: the value. *Neighbours*: data sets whose
values are at most ``Delta`` apart in geodesic distance.

**Laplace** (Reimherr, Bharath and Soto 2021, Theorem 1). On a homogeneous manifold the law with density proportional to
``exp(-dist(eta, y)/sigma)``, where it exists, has a normaliser that does not depend on its centre ``eta``. If the centres of
neighbouring data sets are at most ``Delta`` apart, then by the triangle inequality the densities differ by a factor of at
most ``exp(Delta/sigma)`` at every ``y``: with ``sigma = Delta/epsilon`` the draw is epsilon-differentially private. All manifolds
of the library are homogeneous and the law is not truncated, so no factor of two is needed. Its cost is charged as pure, since the
worst pair of centres is not known on curved spaces; a flat simply connected space is isometric to ``R^d``, and there the cost is
the whole curve of Laplace noise in ``R^d``.

**Gaussian**, on spaces of non-negative curvature only. *Theorem.* Let the manifold be homogeneous with sectional curvatures
``>= 0``. The law with density proportional to ``exp(-dist(eta, y)^2/(2 sigma^2))`` has Rényi divergences
``D_a(eta || eta') <= a dist(eta, eta')^2/(2 sigma^2)`` for every ``a > 1``: it is ``Delta^2/(2 sigma^2)``-zero-concentrated
private. *Proof.* Along a unit-speed geodesic ``c``, minimal or not, ``h(s) = dist(y, c(s))^2/2 - s^2/2`` is concave: inside
the cut locus by comparison of Hessians, and at a cut point because ``dist(y, .)`` is touched there from above by smooth
functions ``e + dist(y_e, .)`` whose squares have second derivatives as close to 1 as one likes. Let ``eta' = c(0)``, ``eta =
c(D)``, ``z = c(a D)``. Concavity at ``D = (1 - 1/a) 0 + (1/a) a D`` gives ``a dist(eta, y)^2 - (a-1) dist(eta', y)^2 >=
dist(z, y)^2 - a (a-1) D^2``. Put this into the integral of ``p^a q^(1-a)``; the normaliser at ``z`` is the one at ``eta``.
QED. Where curvature is negative the inequality is reversed and the claim is *false*, so there it is refused.

*Conditions checked here*: the curvature (for the Gaussian), and that the scale is far enough below the inverse of the volume
entropy, at which the Laplace law ceases to exist, that it can be drawn.
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
from geodp.manifolds import Euclidean, Manifold, Sphere
from geodp.manifolds.ball import Ball
from geodp.noise import exact
from geodp.noise.families import Gaussian, Laplace, Law
from geodp.noise.flat import Family, FlatNoise, log_ratio
from geodp.noise.mechanism import Kind, Mechanism, is_multiple
from geodp.privacy.cost import ConcentratedCost, Cost, GaussianCost, LaplaceCost, PureCost


@final
@dataclass(frozen=True, eq=False)
class IntrinsicMechanism(Mechanism):
    """A draw from the manifold's own law about the value, moved into the ball afterwards if ``projected``."""

    space: Manifold
    ball: Ball | None = None
    into_ball: bool = False

    kind: ClassVar[Kind] = "intrinsic"
    adjective: ClassVar[str] = "Riemannian"

    @property
    def manifold(self) -> Manifold:
        return self.space

    @property
    def projected(self) -> bool:
        return self.into_ball

    @property
    def grid(self) -> float:
        return math.ldexp(1.0, exact.default_grid_exponent(self.space, self.scale))

    def draws(self, values: Sequence[Array], entropy: Entropy | None = None) -> list[Array]:
        return [exact.sample(self.space, self.scale, value, family=self.family, entropy=entropy).value for value in values]

    def floats(self, value: Array, size: int, rng: np.random.Generator) -> Array:
        return self.space.raw_representatives(self.law.sample(value, size, rng))

    def possible(self, drawn: Array) -> bool:
        """A point of the manifold; in a Euclidean space it must be on the grid."""
        if drawn.shape != self.space.point_shape or not self.space.valid(drawn):
            return False
        return not isinstance(self.space, Euclidean) or is_multiple(drawn, self.grid)

    def finish(self, drawn: Array) -> Array:
        return self.ball.clip(drawn) if self.into_ball and self.ball is not None else drawn

    @cached_property
    def law(self) -> Law:
        return Laplace(self.space, self.scale) if self.family == "laplace" else Gaussian(self.space, self.scale)

    @property
    def _slack(self) -> float:
        # moving into the ball at most doubles the distance to a point of it; where it is the default it never increases it
        return 1.0 if not self.into_ball or self.ball is None or projection_is_safe(self.ball) else 2.0

    @property
    def _farthest(self) -> float:
        return 2.0 * self.ball.radius if self.into_ball and self.ball is not None else self.space.diameter

    def expected_error(self) -> float:
        return self._slack * self.law.mean_radius(self._farthest / self._slack)

    def quick_error(self) -> float:
        # the volume density grows by at most exp(entropy * s), which turns a Gamma law of scale sigma into one of a larger scale
        shrunk = 1.0 - self.scale * self.space.volume_entropy
        if shrunk <= 0.0 or (self.family == "gaussian" and self.space.volume_entropy > 0.0):
            return math.inf
        flat = FlatNoise(self.space.dim, self.scale / shrunk, self.family)
        return self._slack * flat.mean_length()

    def error_quantile(self, q: float) -> float:
        return min(self._slack * float(self.law.radius_quantile(q)), self._farthest)

    def privacy_loss(self, first: Array, second: Array, y: Array) -> Array:
        near, far = (self.space.raw_dist(center, y) for center in (first, second))
        return log_ratio(near, far, self.scale, self.family)


def intrinsic_cost(manifold: Manifold, family: Family, ratio: float) -> Cost:
    """The cost of a draw if centres are at most ``ratio`` scales apart. The module has the theorems."""
    if is_flat_space(manifold):
        return LaplaceCost(ratio, manifold.dim) if family == "laplace" else GaussianCost(ratio)
    return PureCost(ratio) if family == "laplace" else ConcentratedCost(math.nextafter(0.5 * ratio**2, math.inf))


def is_flat_space(manifold: Manifold) -> bool:
    """Whether the manifold is isometric to a Euclidean space."""
    return math.isinf(manifold.injectivity_radius) and manifold.curvature == 0.0 == manifold.lowest_curvature


def why_no_gaussian(manifold: Manifold) -> str | None:
    """Why no privacy is known for the Gaussian law of the manifold, or None if it is known."""
    if manifold.lowest_curvature == 0.0:
        return None
    return (
        f"the Riemannian Gaussian on {manifold} has no known privacy: where curvature is negative, two of them differ by more "
        "than the formula for flat space says. Use mechanism='tangent', whose Gaussian noise is private"
    )


def widest_drawable(manifold: Manifold, family: Family) -> float:
    """Noise of this scale or more is refused: near the largest possible scale the sampler would never end."""
    return 0.9 * exact.largest_scale(manifold, family)


def why_not_drawable(manifold: Manifold, scale: float, family: Family) -> str | None:
    """Why noise of this scale cannot be drawn on the manifold, or None if it can."""
    limit = widest_drawable(manifold, family)
    if scale >= limit:
        return f"noise of scale {scale:.6g} is too wide to draw on {manifold}: the scale must be below {limit:.6g}"
    try:
        drawable = exact.is_drawable(manifold, scale, family)
    except ValueError as error:  # too far out for floats
        return str(error)
    if not drawable:
        return f"noise of scale {scale:.6g} on {manifold} takes thousands of trials a draw"
    return None


def projection_is_safe(ball: Ball) -> bool:
    """Whether moving a point into the ball never increases its distance to any point of the ball.

    True on Hadamard manifolds, where the map is 1-Lipschitz, and on spheres of curvature ``K`` for radii up to
    ``pi/(3 sqrt(K))``.
    """
    if math.isinf(ball.manifold.injectivity_radius):
        return True
    return isinstance(ball.manifold, Sphere) and ball.radius <= math.pi / 3.0 * ball.manifold.radius
