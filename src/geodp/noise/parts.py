"""Parts of noise in a flat space: some of its coordinates, and the largest eigenvalue of the symmetric matrix that they make."""

from __future__ import annotations

from functools import cache

import numpy as np

from geodp.inputs import Array
from geodp.manifolds.functions import symmetric_from_vector
from geodp.noise.flat import FlatNoise
from geodp.noise.mechanism import Mechanism

#: The number of random matrices for the law of the largest eigenvalue of noise, and the limit for the sum of their cubed sizes.
_SPECTRA, _MOST_WORK = 4000, 40_000_000


def flat_noise(noise: Mechanism) -> FlatNoise:
    """The law of noise in a flat space."""
    return FlatNoise(noise.manifold.dim, noise.scale, noise.family)


@cache
def _unit_norms(d: int) -> Array:
    """Largest absolute eigenvalues of random symmetric matrices of length 1 and uniform direction, drawn with a fixed seed."""
    dim = d * (d + 1) // 2
    rng = np.random.default_rng(20)
    size = int(min(_SPECTRA, max(50, _MOST_WORK // d**3)))  # the largest eigenvalues of larger matrices differ less
    found = []
    for start in range(0, size, 500):
        vectors = rng.standard_normal((min(500, size - start), dim))
        vectors /= np.linalg.vector_norm(vectors, axis=-1, keepdims=True)
        found.append(np.abs(np.linalg.eigvalsh(symmetric_from_vector(vectors, d))).max(axis=-1))
    return np.concatenate(found)


def _parts(dim: int, part: int, norms: Array) -> Array:
    """``norms`` times evenly spaced quantiles of the length of ``part`` coordinates of a uniform direction among ``dim``."""
    if part == dim:
        return norms
    from scipy.special import betaincinv  # which takes long to import

    levels = np.random.default_rng(21).permutation((np.arange(len(norms)) + 0.5) / len(norms))
    return norms * np.sqrt(betaincinv(0.5 * part, 0.5 * (dim - part), levels))


def _product_quantile(noise: FlatNoise, factors: Array, q: float) -> float:
    """The quantile of the noise's length times an independent factor, given by a sample; by bisection."""

    def below(x: float) -> float:
        return float(np.mean(noise.length_probability(x / factors)))

    low, high = 0.0, noise.length_quantile(0.5 * (1.0 + q)) * float(factors.max())
    while below(high) < q:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) < q else (low, middle)
    return high


@cache
def norm_quantile(noise: FlatNoise, d: int, q: float) -> float:
    """The ``q``-quantile of the largest absolute eigenvalue of the matrix in the first ``d (d + 1)/2`` coordinates of noise."""
    return _product_quantile(noise, _parts(noise.dim, d * (d + 1) // 2, _unit_norms(d)), q)


@cache
def part_quantile(noise: FlatNoise, part: int, q: float) -> float:
    """The ``q``-quantile of the length of ``part`` coordinates of noise."""
    return _product_quantile(noise, _parts(noise.dim, part, np.ones(_SPECTRA)), q)


@cache
def coordinate_quantile(noise: FlatNoise, q: float) -> float:
    """The ``q``-quantile, ``q`` at least a half, of one coordinate of noise, in any direction."""
    return part_quantile(noise, 1, 2.0 * q - 1.0)
