"""The Laplace and the Gaussian law of a homogeneous manifold."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array, real_number
from geodp.manifolds import Manifold
from geodp.noise.comparison import Comparison
from geodp.noise.flat import unit_rule
from geodp.noise.radial import LogConcave, Piecewise
from geodp.noise.volume import MeanVolume, mean_volume

#: Computations with the radius stop where the envelope's density has fallen by ``exp(-_TAIL)``.
_TAIL = 60.0

#: From this scale on, squares do not underflow.
LEAST_SCALE = 1e-140
#: Up to this scale, squares of radii some hundred times as large do not overflow.
GREATEST_SCALE = 1e140

#: Beyond a few times this distance, coordinates on negatively curved spaces overflow.
_FARTHEST = 300.0

#: Within this distance of a well-conditioned centre, every exponential is a valid point in float64.
_SAFE = 20.0

#: Below this acceptance rate the law is concentrated in the tail of its envelope, too far for the sampler and the quadrature.
_LEAST_ACCEPTANCE = 1e-10


@dataclass(frozen=True)
class Law(ABC):
    """A law whose density at ``x`` depends only on ``dist(center, x)``, in the same way for every centre.

    Draws are exact (:mod:`geodp.noise.comparison`). The normaliser and the distribution of the radius come from
    one-dimensional quadrature, whose error is :attr:`log_normalizer_error`.
    """

    manifold: Manifold
    sigma: float

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, Manifold):
            raise TypeError(f"a law needs a manifold, but {self.manifold!r} is not one")
        object.__setattr__(self, "sigma", real_number(self.sigma, "sigma"))
        if not 0.0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite but is {self.sigma}")
        if not LEAST_SCALE <= self.sigma <= GREATEST_SCALE:
            raise ValueError(f"sigma must be between {LEAST_SCALE:g} and {GREATEST_SCALE:g} but is {self.sigma:.6g}")

    @abstractmethod
    def log_kernel(self, radius: Array) -> Array:
        """The logarithm of the density at this distance from the centre, up to the normaliser."""

    # ------------------------------------------------------------------ the law on the manifold

    def log_prob(self, center: ArrayLike, x: ArrayLike) -> Array | float:
        """The logarithm of the density at ``x`` with respect to Riemannian volume. Broadcasts over leading axes."""
        log_density = self.log_kernel(np.asarray(self.manifold.dist(center, x))) - self.log_normalizer
        return log_density if log_density.ndim else float(log_density)

    def sample(self, center: ArrayLike, size: int | tuple[int, ...], rng: np.random.Generator) -> Array:
        """Independent draws around one point, as an array of shape ``size + point_shape``.

        The law is exact, but the arithmetic is float64, whose rounding depends on the centre. Use this for simulation only: a
        private release needs :mod:`geodp.noise.exact`.
        """
        shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
        point = self.manifold.read_points(center, "center")
        if point.shape != self.manifold.point_shape:
            raise ValueError(f"center must be one point of shape {self.manifold.point_shape} but has shape {point.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            flat = self._comparison.sample(point, math.prod(shape), rng)
        # close to the centre every draw is a valid point, so a million of them need no check
        if not (np.isfinite(flat).all() and (self._breaks.max() < _SAFE or self.manifold.valid(flat).all())):
            raise ValueError(f"sigma = {self.sigma:.6g} is too large to simulate on {self.manifold}: a draw overflows")
        return flat.reshape(shape + self.manifold.point_shape)

    @property
    def acceptance_rate(self) -> float:
        """The fraction of trials that :meth:`sample` accepts: the mass of the law divided by that of its envelope."""
        return 1.0 if self.manifold.roots.isotropic else self._profile.integral() / self._envelope_mass

    @property
    def log_normalizer(self) -> float:
        """The logarithm of the integral of ``exp(log_kernel)`` over the manifold."""
        half = 0.5 * self.manifold.dim
        log_sphere = math.log(2.0) + half * math.log(math.pi) - math.lgamma(half)
        return log_sphere + self._envelope.peak + math.log(self._profile.integral())

    @property
    def log_normalizer_error(self) -> float:
        """An estimate of the absolute error of :attr:`log_normalizer`.

        It includes rounding and quadrature along the radius, and the error of the mean volume density: 0 for isotropic
        manifolds, else the difference of two quadrature rules or a standard error (:func:`~geodp.noise.volume.mean_volume`).
        """
        rounding = 1e-15 * (abs(self._envelope.peak) + self.manifold.dim)
        return rounding + self._profile.error / self._profile.integral() + self._volume_error

    # ------------------------------------------------------------------ the law of the radius

    def radius_cdf(self, t: ArrayLike) -> Array | float:
        """The probability that a draw is within ``t`` of the centre."""
        t = _reals(t, "t")
        probability = np.clip(self._profile.integral_to(t) / self._profile.integral(), 0.0, 1.0)
        probability = np.where(t <= 0.0, 0.0, np.where(t >= self._profile.edges[-1], 1.0, probability))
        return probability if probability.ndim else float(probability)

    def radius_quantile(self, q: ArrayLike) -> Array | float:
        """The radius that contains a draw with probability ``q``."""
        q = _reals(q, "q")
        if not ((q >= 0.0) & (q <= 1.0)).all():
            raise ValueError("q must be between 0 and 1")
        radius = self._profile.solve_integral(q * self._profile.integral())
        radius = np.where(q == 0.0, 0.0, np.where(q == 1.0, self.manifold.diameter, radius))
        return radius if radius.ndim else float(radius)

    def mean_radius(self, most: float = math.inf) -> float:
        """The mean distance from the centre; distances above ``most`` count as ``most``."""
        mean = self._profile.integral(lambda radius: radius) / self._profile.integral()
        if most >= self._profile.edges[-1]:
            return mean
        # integrate the tail probability up to ``most``: it is smooth, while the minimum itself has a kink
        edges = np.array(sorted({0.0, *self._profile.edges[self._profile.edges < most].tolist(), most}))
        nodes, weights = unit_rule(12)
        widths = np.diff(edges)[:, None]
        beyond = 1.0 - np.asarray(self.radius_cdf(edges[:-1, None] + widths * nodes))
        return min(mean, float((widths * weights * beyond).sum()))

    # ------------------------------------------------------------------ computed once, when first needed

    @cached_property
    def _comparison(self) -> Comparison:
        return Comparison(self.manifold, self.log_kernel)

    @property
    def _envelope(self) -> LogConcave:
        return self._comparison.radius

    @cached_property
    def _breaks(self) -> Array:
        low, high = self._envelope.span(_TAIL)
        # start at the smallest scale: near the limit of existence the tail is longer than the bulk by orders of magnitude
        return np.array([low, self._envelope.mode, *(low + (high - low) * 0.5 ** np.arange(24.0))])

    @cached_property
    def _volume(self) -> MeanVolume:
        return mean_volume(self.manifold, float(self._breaks.max()))

    @cached_property
    def _profile(self) -> Piecewise:
        """The density of the radius, divided by the peak of the envelope's."""

        def density(radius: Array) -> Array:
            log_density = self._envelope(radius) - self._envelope.peak
            if not self.manifold.roots.isotropic:
                log_density = log_density + self._volume.log_mean(radius) - self.manifold.volume_bound.log_value(radius)
            return np.exp(log_density)

        profile = Piecewise.fit(density, self._breaks, tolerance=1e-14)
        if not profile.integral() > _LEAST_ACCEPTANCE * self._envelope_mass:
            raise ValueError(
                f"sigma = {self.sigma:.6g} is too large to compute with on {self.manifold}: the law is less than "
                f"{_LEAST_ACCEPTANCE} of the envelope it is compared with"
            )
        return profile

    @cached_property
    def _envelope_mass(self) -> float:
        return Piecewise.fit(lambda radius: np.exp(self._envelope(radius) - self._envelope.peak), self._breaks, 1e-14).integral()

    @cached_property
    def _volume_error(self) -> float:
        # the relative error of the normaliser is the mean of the relative error at a radius, over the law of the radius
        middles = (np.arange(8) + 0.5) / 8.0
        return float(self._volume.relative_error(np.asarray(self.radius_quantile(middles))).mean())


def _reals(x: ArrayLike, name: str) -> Array:
    try:
        with np.errstate(over="ignore"):
            return np.asarray(x, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float") from None


@final
@dataclass(frozen=True)
class Laplace(Law):
    r"""Density proportional to ``exp(-dist(center, x)/sigma)``.

    On a homogeneous manifold the normaliser does not depend on the centre, so for two centres ``Delta`` apart the
    densities differ by at most the factor ``exp(Delta/sigma)``: this is the noise of the epsilon-private Laplace mechanism with
    ``sigma = Delta/epsilon``. Volume may grow exponentially with the radius; the law exists exactly if
    ``sigma < 1/volume_entropy``.

    >>> from geodp import Sphere
    >>> round(Laplace(Sphere(2), 0.1).mean_radius(), 6)
    0.19802
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        entropy = self.manifold.volume_entropy
        if entropy * self.sigma >= 1.0:
            raise ValueError(
                f"the Laplace law on {self.manifold} does not exist for sigma = {self.sigma:.6g}, only for sigma below "
                f"{1.0 / entropy:.6g}: with sigma = Delta/epsilon and Delta proportional to 1/n, make n * epsilon more than "
                f"{self.sigma * entropy:.6g} times as large, or the ball of the data that much smaller"
            )

    def log_kernel(self, radius: Array) -> Array:
        return -radius / self.sigma


@final
@dataclass(frozen=True)
class Gaussian(Law):
    r"""The Riemannian Gaussian law: density proportional to ``exp(-dist(center, x)^2/(2 sigma^2))``; it exists for every sigma.

    >>> from geodp import Euclidean
    >>> round(Gaussian(Euclidean(2), 1.0).radius_cdf(1.0), 12)
    0.393469340287
    """

    @cached_property
    def _comparison(self) -> Comparison:
        # volume grows like exp(entropy * radius), which moves the law away from its centre
        distance = self.manifold.volume_entropy * self.sigma**2
        if distance > _FARTHEST:
            raise ValueError(
                f"the Gaussian law of sigma = {self.sigma:.6g} on {self.manifold} is concentrated near distance {distance:.6g} "
                f"from its centre, where floats overflow: sigma must be at most "
                f"{math.sqrt(_FARTHEST / self.manifold.volume_entropy):.6g}"
            )
        return super()._comparison

    def log_kernel(self, radius: Array) -> Array:
        return -0.5 * (radius / self.sigma) ** 2
