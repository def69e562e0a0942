"""Correlation matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from geodp.inputs import EPSILON, Array, real_number, whole_number
from geodp.manifolds.flat import FlatChart
from geodp.manifolds.functions import spectral, symmetric, transpose
from geodp.manifolds.layout import Layout, symmetric_layout
from geodp.manifolds.manifold import TOLERANCE, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.small_eigen import eigh, eigvalsh
from geodp.manifolds.spd import has_factor

if TYPE_CHECKING:
    from flint import arb


@register
@final
@dataclass(frozen=True, repr=False)
class Correlation(FlatChart):
    r"""Correlation matrices of ``k`` variables, flat: the matrix logarithm without its diagonal (Archakov and Hansen 2021).

    ``dist(p, q) = |off(log p) - off(log q)|`` in the Frobenius norm, where every pair of variables counts twice. The order of
    the variables does not matter. Tangent vectors are changes of the chart: symmetric matrices with a zero diagonal. The origin
    is the identity: no correlation.

    A singular matrix has no logarithm. With a public ``shrink`` ``s`` every matrix ``p`` counts as ``(1-s) p + s I``, released
    ones too. Then correlation matrices of any rank are points, and so are matrices with eigenvalues above ``-s/(1-s)``. A mean
    with noise may be such a matrix; :meth:`shrunk` makes it positive definite.

    >>> weak, strong = [[1.0, 0.1], [0.1, 1.0]], [[1.0, 0.9], [0.9, 1.0]]
    >>> round(Correlation(2).dist(weak, strong), 6)  # sqrt(2) times the difference of Fisher's z
    1.940137
    """

    k: int
    shrink: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole_number(self.k, 2, "the number of variables of Correlation"))
        shrink = real_number(self.shrink, "the shrinkage of Correlation")
        if not 0.0 <= shrink < 1.0:
            raise ValueError(f"the shrinkage of Correlation must be at least 0 and below 1 but is {self.shrink}")
        object.__setattr__(self, "shrink", shrink)

    @cached_property
    def roots(self) -> Roots:
        return Roots.flat(self.k * (self.k - 1) // 2)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.k, self.k)

    @property
    def origin(self) -> Array:
        return np.eye(self.k)

    @property
    def keeps_coordinates(self) -> bool:
        return True

    @property
    def layouts(self) -> tuple[Layout, ...]:
        upper = [(i, j) for i in range(self.k) for j in range(i, self.k)]
        pairs = [(i, j) for i, j in upper if i < j]
        named = tuple((f"r{i + 1}_{j + 1}", f"{i + 1}-{j + 1}") for i, j in pairs)
        return (
            Layout("full", self.k**2, "the matrix, row by row", size="k*k"),
            symmetric_layout(Layout("upper", len(upper), "its upper triangle with the diagonal, row by row", size="k*(k+1)/2"),
                             self.k, upper),
            symmetric_layout(Layout("pairs", len(pairs), "the correlations of pairs: 1 and 2, 1 and 3, ...", names=(named,),
                                    size="k*(k-1)/2", details="the upper triangle without the diagonal, row by row; also chosen "
                                    "by a header r1_2, r1_3, ..."), self.k, pairs),
        )  # fmt: skip

    def shrunk(self, x: Array) -> Array:
        """``(1-s) x + s I``, whose logarithm is taken.

        >>> Correlation(2, shrink=0.1).shrunk(np.ones((2, 2))).tolist()
        [[1.0, 0.9], [0.9, 1.0]]
        """
        projected = self.raw_project(x)
        return projected if self.shrink == 0.0 else (1.0 - self.shrink) * projected + self.shrink * np.eye(self.k)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        worst, off = self._defects(x)
        yield Requirement(np.abs(worst - 1.0) <= TOLERANCE, worst, "the diagonal must be 1 but an entry is {:.6g}")
        yield Requirement(off <= TOLERANCE, off, "the matrix must be symmetric but differs from its transpose by {:.3g}")
        safe = np.where(((np.abs(worst - 1.0) <= TOLERANCE) & (off <= TOLERANCE))[..., None, None], x, self.origin)
        shrunk = self.shrunk(safe)
        least = -self.shrink / (1.0 - self.shrink)
        sentence = f"the smallest eigenvalue must be above {least:.6g} but is {{:.6g}}"
        hint = "" if self.shrink else ": Correlation(k, shrink=0.01) takes singular matrices"
        yield Requirement(has_factor(shrunk), lambda: eigvalsh(self.raw_project(safe))[..., 0], sentence + hint)

    @staticmethod
    def _defects(x: Array) -> tuple[Array, Array]:
        """The entry of the diagonal that is farthest from 1, and the largest difference from the transpose."""
        diagonal = np.diagonal(x, axis1=-2, axis2=-1)
        worst = np.take_along_axis(diagonal, np.abs(diagonal - 1.0).argmax(axis=-1)[..., None], axis=-1)[..., 0]
        return worst, np.abs(x - transpose(x)).max(axis=(-1, -2))

    def raw_reading(self, x: Array) -> Array:
        # the chart itself finds matrices that are not positive definite, and without a second factorisation
        worst, off = self._defects(x)
        good = ((np.abs(worst - 1.0) <= TOLERANCE) & (off <= TOLERANCE)) | self.is_kept(x)
        return np.where(good[..., None], self.raw_position(np.where(good[..., None, None], x, self.origin)), np.nan)

    def raw_project(self, x: Array) -> Array:
        scale = np.diagonal(x, axis1=-2, axis2=-1) ** -0.5
        projected = symmetric(x * scale[..., :, None] * scale[..., None, :])
        projected[..., range(self.k), range(self.k)] = 1.0
        return projected

    def raw_chart(self, x: Array) -> Array:
        values, vectors = eigh(self.shrunk(x))
        return self.raw_coordinates(x, (vectors * np.log(values)[..., None, :]) @ transpose(vectors))

    def raw_inverse(self, coordinates: Array) -> Array:
        shrunk = with_logarithm_off_the_diagonal(self.raw_tangent(self.origin, coordinates))
        return self.raw_project((shrunk - self.shrink * np.eye(self.k)) / (1.0 - self.shrink))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        i, j = np.triu_indices(self.k, 1)
        matrix = np.zeros((*np.broadcast_shapes(p.shape[:-2], coordinates.shape[:-1]), self.k, self.k))
        matrix[..., i, j] = matrix[..., j, i] = math.sqrt(0.5) * coordinates
        return matrix

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        i, j = np.triu_indices(self.k, 1)
        return math.sqrt(0.5) * (v[..., i, j] + v[..., j, i]) + np.zeros((*self.batch_shape(p, v), 1))

    def reading_rounding(self, x: Array) -> float:
        # the error of the eigenvalues over the smallest of them; the largest is at most k
        least = float(eigvalsh(self.shrunk(self.raw_readable(x)))[..., 0].min())
        return 4.0 * (self.k + 4) * EPSILON * self.k / least if least > 0.0 else math.inf

    def exact_coordinates(self, x: Array) -> list[arb]:
        from geodp.arithmetic.intervals import log_of_positive_definite
        from geodp.manifolds.spd_flat import weighted_triangle

        return weighted_triangle(log_of_positive_definite(self.shrunk(x)), start=1)


#: Gauss and Legendre's rule for the mean over (0, 1/2): nodes less 1/4, and weights.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3) * np.array([[0.25], [0.5]])
#: Diagonals of 1 are found up to so many units of rounding, in a number of steps that no matrix which floats can hold needs.
_PRECISION, _MOST_STEPS = 4.0, 100
#: Minus the logarithm of an eigenvalue that floats cannot tell from 0 next to a diagonal of 1.
_LOWEST = 38.0


def with_logarithm_off_the_diagonal(matrix: Array) -> Array:
    r"""The correlation matrices whose logarithm has these entries off its diagonal; NaN if floats cannot hold one.

    For a symmetric ``A`` with zero diagonal there is exactly one diagonal ``D`` such that ``exp(A + D)`` has a unit diagonal
    (Archakov and Hansen 2021). It minimises ``tr exp(A + D) - tr D``, which is strictly convex. The step ``D - log diag
    exp(A + D)`` minimises an upper bound (Golden and Thompson), so it converges from everywhere. Where diagonals are between
    ``1/e`` and ``e`` Newton's step for ``log diag exp(A + D)`` is tried. Its derivative is the mean over ``s`` of the entrywise
    products of ``exp(s (A + D))`` and ``exp((1-s) (A + D))``, here by quadrature: an approximate derivative costs a step at most.
    The residual is known at every step; when it is down to rounding, the diagonal is scaled to exactly 1.

    Since ``D <= 0`` and ``exp(A + D) <= k``, eigenvalues of ``A`` below ``-m`` or above ``m + log k`` leave the matrix one below
    ``exp(-m)``: then there is nothing to look for.
    """
    eye, ends = np.eye(matrix.shape[-1]), eigvalsh(matrix)[..., [0, -1]]
    held = np.asarray((ends[..., :1] >= -_LOWEST) & (ends[..., 1:] <= _LOWEST + math.log(len(eye))))
    matrix = np.where(held[..., None], matrix, 0.0)
    diagonal = np.where(held, -0.5 * ends[..., 1:], 0.0) + np.zeros(matrix.shape[:-1])
    plain, before = diagonal, np.full(diagonal.shape, np.inf)
    for _ in range(_MOST_STEPS):
        values, vectors = eigh(matrix + diagonal[..., None] * eye)
        found = (np.square(vectors) @ np.exp(values)[..., None])[..., 0]
        defect = np.log(found)
        largest = np.abs(defect).max(axis=-1, keepdims=True)
        done = largest <= _PRECISION * EPSILON * (len(eye) + np.abs(values).max(axis=-1, keepdims=True))
        if done.all():
            break
        slopes = np.zeros(matrix.shape)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            halves = (spectral(vectors, np.exp(share * values)) for share in (0.25 + node, 0.75 - node))
            slopes += weight * next(halves) * next(halves)
        newton = diagonal - np.linalg.solve(slopes / found[..., None] + 1e-12 * eye, defect[..., None])[..., 0]
        # a step of Newton's that makes things worse is taken back
        worse = ~(largest < before)
        plain = np.where(worse, plain, diagonal - defect)
        diagonal = np.where(worse | (largest > 1.0), plain, newton)
        before = np.where(worse, np.inf, largest)
    exponential = spectral(vectors, np.exp(values))
    scale = np.diagonal(exponential, axis1=-2, axis2=-1) ** -0.5
    return np.where((held & done)[..., None], exponential * scale[..., :, None] * scale[..., None, :], np.nan)
