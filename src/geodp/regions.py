r"""Inference about the population from private means: confidence regions, and comparisons of two groups.

Everything here is computed from releases, so it costs no privacy. A release differs from the mean of the population for two
reasons: the records are a sample, and noise was added.

*Sampling.* By the central limit theorem the Fréchet mean of ``n`` independent records of a population is nearly normal about
that of the population, with covariance ``H^-1 C H^-1/n``: ``C`` is the covariance of logarithms at the mean, ``H`` the
Hessian of half the mean squared distance. On spaces without positive curvature ``H >= 1``; where the curvature is at most
``kappa`` it is at least some ``h > 0``. So the *length* of the sampling error is at most that of a normal vector with
covariance ``C/n``, over ``h``. Its shape is not bounded by that of ``C`` (an ellipsoid of ``C/n`` may cover far too little),
so regions are balls.

*The spread.* The sum of the eigenvalues of ``C`` is the mean squared distance to the mean, and no other point has a smaller one.
The released variance or covariance bounds it: about the centre directly, about the tangent mean after multiplication by the
square of the largest factor by which ``exp`` stretches lengths in the ball. The amount that noise may have subtracted from the
release is added. The proportions of the eigenvalues are the released ones; without them (from a variance, or from the ball alone)
all of the spread is assumed to be in one direction, which gives the largest errors.

*The Hessian.* ``h = sqrt(kappa) r cot(sqrt(kappa) r)`` holds for all records in a ball of radius ``r``. If these are on
average closer to the mean, ``h`` is larger: ``g(y) = sqrt(y) cot sqrt(y)`` is concave, so ``h >= 1 - (1 - g(Y)) kappa v/Y``
for records at squared distances up to ``Y/kappa`` and on average at most ``v``.

*Noise* has a uniform direction, and its length has a known law. The two errors are added by the law of cosines of
the lowest curvature, which on any space bounds the third side from above (Toponogov). Lengths and angles are drawn with a
fixed seed.

*What is approximate.* The sampling error is drawn from a normal law whose covariance is the released one at its upper bound, as
if that were the covariance of the population: this takes the central limit theorem, neglects how far the spread of ``n`` records
is from that of the population (a share of about ``sqrt(2/n)`` of it), and takes the proportions of the released eigenvalues for
those of ``C``. The direction of the noise is exactly uniform in the tangent space at the centre and on spheres and hyperbolic
spaces, and nearly so elsewhere. Coverage was measured from 200 records on, and is in the documentation; nothing is known about
fewer. The population is that of clipped records.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import Array, real_number
from geodp.manifolds import Manifold
from geodp.manifolds.ball import Ball
from geodp.manifolds.notation import in_layout
from geodp.noise.mechanism import Mechanism
from geodp.noise.tangent import stretch_of_exp
from geodp.receipt import SIMULATION, Release, about_point
from geodp.showing import Row, Shown
from geodp.solver.mean import flatness
from geodp.statistics.covariance import CovarianceRelease
from geodp.statistics.mean import Mean
from geodp.statistics.variance import VarianceRelease
from geodp.verdict import against_spread

Spread = VarianceRelease | CovarianceRelease

#: Draws for a region and for a p-value.
_DRAWS, _MANY_DRAWS = 40_000, 100_000
#: The part of the error probability that is reserved for a spread that noise made too small.
_FOR_SPREAD = 0.1
#: That probability in a p-value.
_LEAST_P = 1e-4


@final
@dataclass(frozen=True, eq=False)
class ConfidenceRegion(Shown):
    """A geodesic ball about a private mean that contains the mean of the population with probability nearly ``level``.

    ``sampling`` and ``noise`` are the radii that each error alone would need.
    """

    mean: Release
    spread: Spread
    level: float
    radius: float
    sampling: float
    noise: float

    @property
    def manifold(self) -> Manifold:
        return self.mean.manifold

    @property
    def center(self) -> Array:
        """The private mean."""
        return self.mean.value

    @property
    def private(self) -> bool:
        """Whether it was computed from releases, and not from simulations."""
        return self.mean.private and self.spread.private

    @property
    def says_nothing(self) -> bool:
        """Whether it is as large as the public ball, and so says no more than the ball."""
        return self.radius >= _ball(self.mean).radius

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Which points could be the mean of the population, at this level."""
        return np.asarray(self.manifold.dist(self.center, points)) <= self.radius

    def boundary(self, directions: ArrayLike) -> Array:
        """The points on the boundary in these directions: coordinates at the centre, ``(..., dim)``, of any length."""
        steps = np.asarray(directions, dtype=np.float64)
        steps = steps / np.linalg.vector_norm(steps, axis=-1, keepdims=True)
        return self.manifold.exp(self.center, self.manifold.tangent(self.center, self.radius * steps))

    def to_json(self) -> str:
        """The region as JSON text."""
        numbers = {name: getattr(self, name) for name in ("level", "radius", "sampling", "noise", "private", "says_nothing")}
        about = {"manifold": repr(self.manifold), "n": self.mean.n, "center": self.center.tolist(), "verdict": self.verdict()}
        lengths = {name: getattr(self, name) for name in ("radius", "sampling", "noise")}
        about |= in_layout(self.mean.notation, {"center": self.center}, lengths)
        return json.dumps({"geodp": self.mean.version, "summary": "confidence region", **numbers, **about}, indent=2)

    def verdict(self) -> str:
        """One line on what the region says: its main source of error, and its size compared with the spread."""
        if self.says_nothing:
            return "this region says nothing: it is as large as the public ball"
        larger = "noise" if self.noise > self.sampling else "sampling"
        compared = against_spread(self.mean.expected_error(), self.spread.deviation, _count(self.mean), self.mean.unit)
        return f"mostly {larger}; {compared}"

    def head(self) -> str:
        return "CONFIDENCE REGION" if self.private else SIMULATION

    def rows(self) -> list[Row]:
        length = self.mean.notation.length
        return [
            *about_point("center", self.center, self.mean.notation),
            ("radius", f"{length(self.radius)} about the private mean, geodesic distance"),
            ("", f"sampling alone would need {length(self.sampling)}, noise alone {length(self.noise)}"),
            ("verdict", self.verdict()),
            ("level", f"{self.level:g}, for the mean of the population of clipped records; normal approximation, for large n"),
            ("manifold", repr(self.manifold)),
            ("records", f"{self.mean.n}"),
        ]


def confidence_region(mean: Release, spread: Spread, level: float = 0.95) -> ConfidenceRegion:
    r"""A geodesic ball that contains the Fréchet mean of the population with probability nearly ``level``.

    It allows for sampling error and for noise. Sampling is by the normal approximation, with the released spread for that of the
    population; from 200 records on, 95% regions were seen to cover 93% or more. The theory, and what else is approximate, is in
    :mod:`geodp.regions`. It costs no privacy beyond that of the two releases.

    Parameters
    ----------
    mean
        A release of :func:`geodp.private_mean`.
    spread
        Of the same records in the same ball: a release of :func:`geodp.private_covariance`, or of
        :func:`geodp.private_variance`, with which the region is larger.
    level
        The probability, at least 0.5 and below 1.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere, private_covariance, private_mean
    >>> sphere = Sphere(2)
    >>> steps = np.random.default_rng(0).normal(size=(2000, 2)) * [0.3, 0.1]
    >>> x, ball = sphere.exp(sphere.origin, sphere.tangent(sphere.origin, steps)), Ball(sphere, sphere.origin, 1.0)
    >>> region = confidence_region(private_mean(x, ball, epsilon=1.0), private_covariance(x, ball, epsilon=1.0))
    >>> bool(region.contains(sphere.origin)), 0.01 < region.radius < 0.05
    (True, True)
    """
    ball = _checked_mean(mean, "the mean")
    _checked_spread(spread, mean, "the spread")
    level = real_number(level, "the level")
    if not 0.5 <= level < 1.0:
        raise ValueError(f"the level must be at least 0.5 and below 1 but is {level:g}")
    for_spread = _FOR_SPREAD * (1.0 - level)
    rng = np.random.default_rng(22)
    noise = _drawn_noise(mean, _DRAWS, rng)
    angles = _cosines(mean.manifold.dim, _DRAWS, rng)
    normal = rng.standard_normal((_DRAWS, mean.manifold.dim))
    eigenvalues = _eigenvalues(mean, spread, 1.0 - for_spread)
    bend = math.sqrt(-mean.manifold.lowest_curvature)

    def radius_for(least_hessian: float) -> tuple[float, float]:
        sampling = _lengths(normal, eigenvalues / _count(mean), spread) / least_hessian
        both = _third_side(sampling, noise, angles, bend)
        q = level + for_spread
        return float(np.quantile(both, q)), float(np.quantile(sampling, level))

    radius, sampling = radius_for(flatness(ball))
    radius, sampling = radius_for(_least_hessian(mean, float(eigenvalues.sum()), radius))
    # the mean of the population is in the ball, but the release may be outside
    farthest = float(ball.manifold.raw_dist(ball.center, mean.value)) + ball.reach
    radius = min(radius + mean.tolerance, mean.manifold.diameter, farthest)
    return ConfidenceRegion(mean, spread, level, radius, sampling, mean.error_quantile(level))


@final
@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """Two private means, how far apart they are, and how far apart equal populations would put them."""

    first: Release
    second: Release
    distance: float
    p_value: float
    #: Quantiles of the distance that sampling and noise alone cause: half of all cases exceed the first, one in twenty the
    #: second.
    by_chance: tuple[float, float]
    spread_known: tuple[bool, bool]
    #: Whether all spreads are real releases.
    private_spreads: bool = True

    @property
    def private(self) -> bool:
        """Whether it was computed from releases, and not from simulations."""
        return self.first.private and self.second.private and self.private_spreads

    def to_json(self) -> str:
        """The comparison as JSON text."""
        return json.dumps(
            {
                "geodp": self.first.version,
                "summary": "comparison",
                "private": self.private,
                "manifold": repr(self.first.manifold),
                "n": [self.first.n, self.second.n],
                "distance": self.distance,
                "p_value": self.p_value,
                "by_chance": {"0.5": self.by_chance[0], "0.95": self.by_chance[1]},
                "spread_known": list(self.spread_known),
                "verdict": self.verdict(),
                **in_layout(self.first.notation, {}, {"distance": self.distance, "by_chance_95": self.by_chance[1]}),
            },
            indent=2,
        )

    def verdict(self) -> str:
        """One line on what the comparison says."""
        if self.p_value < 0.05:
            return (
                f"the means differ: chance alone would put them this far apart in less than {_above(self.p_value)} of all cases"
            )
        return "no difference shows: sampling and noise alone put means this far apart often enough"

    def head(self) -> str:
        return "COMPARISON OF TWO PRIVATE MEANS" if self.private else SIMULATION

    def rows(self) -> list[Row]:
        length = self.first.notation.length
        rows = [
            ("distance", f"{length(self.distance)} between the two private means (geodesic distance)"),
            (
                "by chance",
                f"sampling and noise alone would put them up to {length(self.by_chance[1])} apart in 95% of all cases,",
            ),
            ("", f"and {length(self.by_chance[0])} in half of them"),
            ("verdict", self.verdict()),
            ("p-value", f"{self.p_value:.3g}, for equal means of the two populations; normal approximation, for large n"),
        ]
        if not all(self.spread_known):
            rows.append(("", "without a variance or a covariance the spread is taken to be as large as the ball allows"))
        return [*rows, ("manifold", repr(self.first.manifold)), ("records", f"{self.first.n} and {self.second.n}")]


def _above(p: float) -> str:
    """The smallest of the usual levels that a p-value is below."""
    return next(f"{100.0 * level:g}%" for level in (0.001, 0.01, 0.05) if p < level)


def compare(
    first: Release, second: Release, first_spread: Spread | None = None, second_spread: Spread | None = None
) -> Comparison:
    r"""Tests whether two groups have the same mean, from the distance between two private means.

    The null hypothesis is that the two populations, clipped into the ball, have the same Fréchet mean; the two samples are
    independent and no person is in both. Sampling is by the normal approximation. The p-value takes the spread at its upper
    bound, so it is rather too large than too small; it is never below 0.0001. The theory, and what else is approximate, is in
    :mod:`geodp.regions`.

    Parameters
    ----------
    first, second
        Releases of :func:`geodp.private_mean` in the same ball.
    first_spread, second_spread
        A variance or a covariance of the records of each group, in the same ball. Without one the largest spread that the ball
        allows is assumed, and only large differences are detected.

    >>> import numpy as np
    >>> from geodp import Ball, Sphere, private_covariance, private_mean
    >>> rng, ball = np.random.default_rng(0), Ball(Sphere(1), [0.0, 1.0], 1.2)
    >>> groups = [rng.normal(mean, 0.3, 3000) for mean in (0.0, 0.1)]
    >>> x = [np.stack([np.sin(angles), np.cos(angles)], axis=-1) for angles in groups]
    >>> means = [private_mean(group, ball, epsilon=1.0) for group in x]
    >>> spreads = [private_covariance(group, ball, epsilon=1.0) for group in x]
    >>> compare(*means, *spreads).p_value < 0.01
    True
    """
    ball = _checked_mean(first, "the first release")
    if _checked_mean(second, "the second release") != ball:
        raise ValueError(
            "the two means are of records in different balls, and the ball itself moves a mean: use one ball for both"
        )
    rng = np.random.default_rng(23)
    dim, bend = ball.manifold.dim, math.sqrt(-ball.manifold.lowest_curvature)
    total = np.zeros(dim)
    for mean, spread, name in ((first, first_spread, "first"), (second, second_spread, "second")):
        if spread is not None:
            _checked_spread(spread, mean, f"the {name} spread")
        eigenvalues = _eigenvalues(mean, spread, 1.0 - 0.5 * _LEAST_P)
        variance = float(eigenvalues.sum())
        away = mean.error_quantile(0.999) + 4.0 * math.sqrt(variance / _count(mean)) / flatness(ball)
        least = _least_hessian(mean, variance, away)
        # errors are largest if the largest eigenvalues of both are along the same direction
        total += np.sort(eigenvalues)[::-1] / (_count(mean) * least**2)
    by_chance = _lengths(rng.standard_normal((_MANY_DRAWS, dim)), total, first_spread, second_spread)
    for mean in (first, second):
        noise = _drawn_noise(mean, _MANY_DRAWS, rng) + mean.tolerance
        by_chance = _third_side(by_chance, noise, _cosines(dim, _MANY_DRAWS, rng), bend)
    distance = float(ball.manifold.dist(first.value, second.value))
    as_far = (1.0 + float((by_chance >= distance).sum())) / (1.0 + _MANY_DRAWS)
    quantiles = np.quantile(by_chance, [0.5, 0.95])
    return Comparison(
        first,
        second,
        distance,
        min(1.0, as_far + _LEAST_P),
        (float(quantiles[0]), float(quantiles[1])),
        (first_spread is not None, second_spread is not None),
        all(spread.private for spread in (first_spread, second_spread) if spread is not None),
    )


# ---------------------------------------------------------------------- what is given


def _ball(release: Release) -> Ball:
    assert release.ball is not None
    return release.ball


def _count(release: Release) -> int:
    assert release.n is not None
    return release.n


def _checked_mean(mean: Any, name: str) -> Ball:
    if not isinstance(mean, Release) or not isinstance(mean.statistic, Mean):
        what = f"of a {mean.statistic.kind}" if isinstance(mean, Release) else f"of type {type(mean).__name__}"
        raise TypeError(f"{name} must be a release of private_mean but is {what}")
    if mean.n == 0:
        raise ValueError(f"{name} is of a group without records, which says nothing about a population")
    return _ball(mean)


def _checked_spread(spread: Any, mean: Release, name: str) -> None:
    if not isinstance(spread, VarianceRelease | CovarianceRelease):
        kind = f"of a {spread.statistic.kind}" if isinstance(spread, Release) else f"of type {type(spread).__name__}"
        raise TypeError(f"{name} must be a release of private_covariance or private_variance but is {kind}")
    if spread.ball != mean.ball:
        raise ValueError(f"{name} is about records in another ball than the mean: release both in the same ball")
    # if the numbers are private, each release has drawn its own
    if spread.unit != mean.unit or (spread.n != mean.n and spread.count is None and mean.count is None):
        raise ValueError(
            f"{name} is about {spread.n} {spread.unit}s but the mean about {mean.n} {mean.unit}s: give releases of the same data"
        )


# ---------------------------------------------------------------------- sampling


def _eigenvalues(mean: Release, spread: Spread | None, q: float) -> Array:
    """Eigenvalues of the covariance of logarithms at the mean, filled up with zeros.

    With probability ``q`` their sum is an upper bound on the true sum.
    """
    ball = _ball(mean)
    found = np.zeros(ball.manifold.dim)
    if not isinstance(spread, CovarianceRelease):
        # all of it in one direction
        found[0] = ball.radius**2 if spread is None else spread.upper(q)
        return found
    about_center, about_mean = spread.upper_traces(q)
    most = min(about_center, stretch_of_exp(ball) ** 2 * about_mean)
    trace = spread.variance
    values = np.maximum(np.linalg.eigvalsh(spread.value), 0.0)
    if not trace > 0.0:
        found[0] = most
        return found
    return np.asarray(values * (most / trace))


def _least_hessian(mean: Release, variance: float, away: float) -> float:
    """The least Hessian at a point within ``away`` of the release, at mean squared distance ``variance`` from records."""
    ball = _ball(mean)
    kappa = ball.manifold.curvature
    if kappa == 0.0:
        return 1.0
    # the mean of records in a ball is in it
    farthest = ball.reach + min(ball.reach, float(ball.manifold.raw_dist(ball.center, mean.value)) + away)
    angle = math.sqrt(kappa) * farthest
    if angle >= math.pi:
        return flatness(ball)
    return max(flatness(ball), 1.0 - (1.0 - angle / math.tan(angle)) * min(1.0, variance / farthest**2))


def _lengths(normal: Array, variances: Array, *spreads: Spread | None) -> Array:
    """The lengths of normal vectors with these variances.

    If only a variance is known, putting all of it in one direction gives the largest errors, and spreading it evenly the largest
    typical ones: this takes the larger of the two.
    """
    lengths = np.sqrt(np.square(normal) @ variances)
    if all(isinstance(spread, CovarianceRelease) for spread in spreads):
        return lengths
    return np.maximum(lengths, np.sqrt(np.square(normal).mean(axis=-1) * variances.sum()))


# ---------------------------------------------------------------------- noise

#: Probabilities at which quantiles of the length of noise are computed; values between are interpolated.
_LEVELS = np.concatenate([np.linspace(0.0, 0.99, 100), 1.0 - np.geomspace(0.01, 1e-7, 51)[1:]])


@lru_cache(maxsize=64)
def _noise_quantiles(noise: Mechanism) -> Array:
    return np.array([0.0, *(noise.error_quantile(float(q)) for q in _LEVELS[1:])])


def _drawn_noise(mean: Release, size: int, rng: np.random.Generator) -> Array:
    """Lengths of the noise of a release."""
    return np.interp(rng.random(size), _LEVELS, _noise_quantiles(mean.noise))


def _cosines(dim: int, size: int, rng: np.random.Generator) -> Array:
    """Cosines of the angle between a fixed direction and a uniform one."""
    signs = rng.choice([-1.0, 1.0], size)
    return signs if dim == 1 else signs * np.sqrt(rng.beta(0.5, 0.5 * (dim - 1), size))


def _third_side(first: Array, second: Array, cosines: Array, bend: float) -> Array:
    """The distance between the ends of two sides of a triangle in the plane of curvature ``-bend^2``.

    The cosines are those of the exterior angle: with 1 the sides add up.
    """
    first, second = (np.minimum(side, 1e150) for side in (first, second))  # squares of longer sides overflow
    if bend == 0.0:
        return np.sqrt(np.maximum(first**2 + second**2 + 2.0 * first * second * cosines, 0.0))
    a, b = (np.minimum(bend * side, 300.0) for side in (first, second))
    halves = np.sinh(0.5 * (a - b)) ** 2 + np.sinh(a) * np.sinh(b) * 0.5 * (1.0 + cosines)
    return np.asarray(2.0 / bend * np.arcsinh(np.sqrt(halves)))
