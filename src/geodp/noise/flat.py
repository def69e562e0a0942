"""Laplace and Gaussian noise in a Euclidean space, such as a tangent space."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, final

import numpy as np
from numpy.polynomial import legendre

from geodp.arithmetic.gamma import gamma_probabilities, gamma_quantile
from geodp.inputs import Array

Family = Literal["laplace", "gaussian"]


@final
@dataclass(frozen=True)
class FlatNoise:
    """Vectors of ``R^dim`` with density proportional to ``exp(-|z|/scale)`` or ``exp(-|z|^2/(2 scale^2))``.

    The direction is uniform. The length has a Gamma law of shape ``dim`` under the first (``laplace``), and its square over
    ``2 scale^2`` one of shape ``dim/2`` under the second (``gaussian``).

    >>> round(FlatNoise(6, 0.5, "laplace").length_quantile(0.5), 4)
    2.8351
    """

    dim: int
    scale: float
    family: Family

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """``size`` independent vectors in floats, for simulations."""
        draws = rng.standard_normal((size, self.dim))
        if self.family == "gaussian":
            return self.scale * draws
        return draws * (rng.gamma(self.dim, self.scale, size) / np.linalg.vector_norm(draws, axis=-1))[:, None]

    def length_quantile(self, q: float) -> float:
        """The length that is not exceeded with probability ``q``."""
        found = gamma_quantile(self._shape, q)
        return self.scale * (math.sqrt(2.0 * found) if self.family == "gaussian" else found)

    def length_probability(self, length: Array) -> Array:
        """The probability of a length of at most this: the inverse of :meth:`length_quantile`."""
        from scipy.special import gammainc  # which takes long to import

        x = length / self.scale
        return np.asarray(gammainc(self._shape, 0.5 * x * x if self.family == "gaussian" else x))

    def mean_length(self, most: float = math.inf) -> float:
        """The mean length; lengths above ``most`` count as ``most``.

        >>> FlatNoise(6, 0.5, "laplace").mean_length()
        3.0
        """
        shape, x, mean = self._shape, most / self.scale, float(self.dim)
        if self.family == "gaussian":
            x, mean = 0.5 * x * x, math.sqrt(2.0) * math.exp(math.lgamma(shape + 0.5) - math.lgamma(shape))
        more = 0.5 if self.family == "gaussian" else 1.0
        short = self.scale * mean * gamma_probabilities(shape + more, x)[0]
        return short + (most * gamma_probabilities(shape, x)[1] if math.isfinite(most) else 0.0)

    @property
    def _shape(self) -> float:
        return 0.5 * self.dim if self.family == "gaussian" else float(self.dim)

    def expected(self, function: Callable[[Array], Array]) -> float:
        """The mean of a function of the length that grows at most linearly, by quadrature between far quantiles.

        A kink in the function costs accuracy: about five digits are then correct.
        """
        ends = [self.length_quantile(q) for q in (1e-18, 1e-6, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999)]
        # beyond the last quantile that floats distinguish from 1 the tails fall exponentially
        ends += [ends[-1] + step * (ends[-1] - ends[5]) for step in (0.5, 1.0, 2.0, 4.0, 8.0)]
        nodes, weights = unit_rule(64)
        low, width = np.array(ends[:-1])[:, None], np.diff(ends)[:, None]
        length = low + width * nodes
        density = np.exp(self._log_density(length))
        return float((width * weights * density * function(length)).sum())

    def _log_density(self, length: Array) -> Array:
        x = length / self.scale
        if self.family == "gaussian":
            half = 0.5 * self.dim
            constant = (1.0 - half) * math.log(2.0) - math.lgamma(half)
            return constant + (self.dim - 1.0) * np.log(x) - 0.5 * x**2 - math.log(self.scale)
        return (self.dim - 1.0) * np.log(x) - x - math.lgamma(self.dim) - math.log(self.scale)

    def privacy_loss(self, first: Array, second: Array, y: Array) -> Array:
        """``log(p/q)`` at ``y`` of the noise about the centres ``first`` and ``second``."""
        near, far = (np.linalg.vector_norm(y - center, axis=-1) for center in (first, second))
        return log_ratio(near, far, self.scale, self.family)


def log_ratio(near: Array, far: Array, scale: float, family: Family) -> Array:
    """The log ratio of the kernels at these distances. It subtracts first, because that is often exact in floats."""
    loss = (far - near) / scale
    return loss if family == "laplace" else 0.5 * loss * ((far + near) / scale)


@cache
def unit_rule(order: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Legendre quadrature on the interval from 0 to 1."""
    nodes, weights = legendre.leggauss(order)
    return 0.5 * (nodes + 1.0), 0.5 * weights
