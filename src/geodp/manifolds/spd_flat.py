"""Positive-definite matrices in flat charts: the matrix logarithm, and the logarithm of the Cholesky factor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from geodp.inputs import EPSILON, Array
from geodp.manifolds.flat import FlatChart
from geodp.manifolds.functions import (
    conjugate,
    frobenius,
    log_difference_quotient,
    spectral,
    symmetric,
    symmetric_from_vector,
    transpose,
    vector_from_symmetric,
)
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.small_eigen import eigh
from geodp.manifolds.spd import PositiveDefinite, cholesky_factor, condition_number, growth_of_condition
from geodp.manifolds.units import LengthUnit, factor

if TYPE_CHECKING:
    from flint import arb


@register
@final
@dataclass(frozen=True, repr=False)
class SPDLogEuclidean(FlatChart, PositiveDefinite):
    r"""Symmetric positive-definite ``k x k`` matrices, flat: the matrix logarithm is an isometry onto symmetric matrices.

    ``dist(p, q) = |log p - log q|`` in the Frobenius norm. Tangent vectors at ``p`` are symmetric matrices, and their
    length is that of their image under the derivative of the matrix logarithm at ``p``; the origin is the identity.

    >>> import numpy as np
    >>> round(SPDLogEuclidean(2).dist(np.eye(2), np.diag([np.exp(3.0), np.exp(-4.0)])), 12)
    5.0
    """

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        # Weyl's inequality for the logarithms: it holds for eigenvalues in order, the largest against the largest, not for every
        # axis
        return (factor("principal standard deviations"),)

    @cached_property
    def roots(self) -> Roots:
        return Roots.flat(self.k * (self.k + 1) // 2)

    def raw_chart(self, x: Array) -> Array:
        return vector_from_symmetric(matrix_log(x))

    def raw_inverse(self, coordinates: Array) -> Array:
        return matrix_exp(symmetric_from_vector(coordinates, self.k))

    def raw_difference(self, p: Array, q: Array) -> Array:
        return vector_from_symmetric(_log_difference(p, q))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        return _exp_derivative(p, symmetric_from_vector(coordinates, self.k))

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return vector_from_symmetric(_log_derivative(p, v))

    def raw_project(self, x: Array) -> Array:
        return symmetric(x)

    def log_rounding(self, p: Array, reach: float) -> float:
        # The error of a logarithm is that of the eigenvalues over the smallest of them, the condition number, which grows from p
        # to q by at most exp(sqrt(2) reach). In coordinates it is multiplied by the condition number of p and the length.
        return 4.0 * (self.k + 4) * EPSILON * condition_number(p) * growth_of_condition(reach) * (1.0 + reach)

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        # p is no worse conditioned than a q that far from the centre, and the two are at most twice that far apart
        return 2.0 * self.log_rounding(center, radius)

    def reading_rounding(self, x: Array) -> float:
        return 0.0  # part of log_rounding

    def exact_coordinates(self, x: Array) -> list[arb]:
        from geodp.arithmetic.intervals import log_of_positive_definite

        return weighted_triangle(log_of_positive_definite(x))


@register
@final
@dataclass(frozen=True, repr=False)
class SPDLogCholesky(FlatChart, PositiveDefinite):
    r"""Symmetric positive-definite ``k x k`` matrices, flat: the Cholesky factor with a logarithmic diagonal (Lin 2019).

    With ``p = L L'`` the chart holds the entries of ``L`` below the diagonal and the logarithms of the diagonal; ``dist`` is the
    Euclidean norm of their differences. Tangent vectors are changes of the chart, as lower triangular matrices. The metric
    depends on the order of the variables and on their units; the origin is the identity.

    >>> import numpy as np
    >>> round(SPDLogCholesky(2).dist(np.eye(2), [[1.0, 3.0], [3.0, 25.0]]), 6)  # the factor has 3 and log(4)
    3.304816
    """

    @cached_property
    def roots(self) -> Roots:
        return Roots.flat(self.k * (self.k + 1) // 2)

    @property
    def scale_directions(self) -> Array:
        return np.empty((0, self.dim))  # a change of units is no translation of the chart

    @property
    def keeps_coordinates(self) -> bool:
        return self.k > 1

    def raw_chart(self, x: Array) -> Array:
        factor = cholesky_factor(x)
        return self.raw_coordinates(x, np.where(np.eye(self.k, dtype=np.bool_), np.log(_diagonal(factor)), factor))

    def raw_inverse(self, coordinates: Array) -> Array:
        lower = self.raw_tangent(self.origin, coordinates)
        factor = np.where(np.eye(self.k, dtype=np.bool_), np.exp(_diagonal(lower)), lower)
        return symmetric(factor @ transpose(factor))

    @property
    def origin(self) -> Array:
        return np.eye(self.k)

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        lower = np.zeros((*np.broadcast_shapes(p.shape[:-2], coordinates.shape[:-1]), self.k, self.k))
        lower[(..., *np.tril_indices(self.k))] = coordinates
        return lower

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return v[(..., *np.tril_indices(self.k))] + np.zeros((*self.batch_shape(p, v), 1))

    def raw_project(self, x: Array) -> Array:
        return symmetric(x)

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return self.raw_tangent(p, self.raw_coordinates(p, v))

    def reading_rounding(self, x: Array) -> float:
        return 4.0 * (self.k + 4) * EPSILON * (1.0 + float(np.abs(x).max()) ** 0.5) * condition_number(x)

    def exact_coordinates(self, x: Array) -> list[arb]:
        from geodp.arithmetic.intervals import cholesky, enclosed_matrix

        rows = cholesky(enclosed_matrix(x))
        return [entry.log() if i == j else entry for i, row in enumerate(rows) for j, entry in enumerate(row)]


def _diagonal(matrix: Array) -> Array:
    return np.diagonal(matrix, axis1=-2, axis2=-1)[..., None]


def weighted_triangle(matrix: list[list[arb]], start: int = 0) -> list[arb]:
    """:func:`vector_from_symmetric` over real numbers in intervals; with ``start`` 1 without the diagonal."""
    from flint import arb

    size, root = len(matrix), arb(2).sqrt()
    return [matrix[i][j] if i == j else matrix[i][j] * root for i in range(size) for j in range(i + start, size)]


def matrix_log(p: Array) -> Array:
    values, vectors = eigh(symmetric(p))
    return spectral(vectors, np.log(values))


def matrix_exp(s: Array) -> Array:
    values, vectors = eigh(s)
    return spectral(vectors, np.exp(values))


def _log_derivative(p: Array, v: Array) -> Array:
    """Derivative of the matrix logarithm at ``p``, along ``v`` (Daleckii and Krein)."""
    values, vectors = eigh(symmetric(p))
    quotients = log_difference_quotient(values[..., :, None], values[..., None, :])
    return conjugate(vectors, quotients * conjugate(transpose(vectors), v))


def _exp_derivative(p: Array, s: Array) -> Array:
    """Derivative of the matrix exponential at ``log p``, along ``s``."""
    values, vectors = eigh(symmetric(p))
    quotients = 1.0 / log_difference_quotient(values[..., :, None], values[..., None, :])
    return conjugate(vectors, quotients * conjugate(transpose(vectors), s))


def _log_difference(p: Array, q: Array) -> Array:
    """``log q - log p``, with small relative error.

    With ``p = U a U'`` and ``q = V b V'`` both ``U'(q - p)V`` and ``U'(log q - log p)V`` are entrywise multiples of
    ``U'V``; their quotient is the difference quotient of the logarithm. If the two are far apart, subtracting their logarithms
    is more accurate.
    """
    p_values, p_vectors = eigh(symmetric(p))
    q_values, q_vectors = eigh(symmetric(q))
    far = spectral(q_vectors, np.log(q_values)) - spectral(p_vectors, np.log(p_values))
    quotients = log_difference_quotient(q_values[..., None, :], p_values[..., :, None])
    near = symmetric(p_vectors @ (quotients * (transpose(p_vectors) @ symmetric(q - p) @ q_vectors)) @ transpose(q_vectors))
    return np.where((frobenius(far) < 0.5)[..., None, None], near, far)
