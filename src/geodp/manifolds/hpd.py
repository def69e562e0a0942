"""Hermitian positive-definite matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array
from geodp.manifolds.functions import (
    Complex,
    adjoint,
    complex_of_pairs,
    hermitian_from_vector,
    pairs_of_complex,
    symmetric,
    vector_from_hermitian,
)
from geodp.manifolds.manifold import Manifold
from geodp.manifolds.registry import register
from geodp.manifolds.spd import AffineInvariant

if TYPE_CHECKING:
    from flint import acb, acb_mat, arb


@register
@final
@dataclass(frozen=True, repr=False)
class HPD(AffineInvariant):
    r"""Hermitian positive-definite ``k x k`` matrices with the affine-invariant metric: covariances of complex signals.

    A point is a ``(k, k, 2)`` array of real and imaginary parts, which is how NumPy stores a complex matrix:
    :meth:`from_complex` and :meth:`to_complex` convert. Tangent vectors are Hermitian matrices;
    ``inner(p, u, v) = tr(p^-1 u p^-1 v)``, so that every change of basis ``x -> A x A*`` is an isometry, and the real matrices
    in it are ``SPD(k)`` with its metric. The curvature is non-positive and the origin is the identity matrix.

    >>> polarised = HPD.from_complex([[2.0, 1.0j], [-1.0j, 2.0]])  # eigenvalues 1 and 3
    >>> round(HPD(2).dist(HPD(2).origin, polarised), 12)
    1.098612288668
    """

    multiplicity: ClassVar[int] = 2

    @staticmethod
    def from_complex(z: ArrayLike) -> Array:
        """Points from complex matrices."""
        return pairs_of_complex(np.asarray(z, dtype=np.complex128))

    @staticmethod
    def to_complex(x: ArrayLike) -> Complex:
        """Complex matrices from points."""
        return complex_of_pairs(np.asarray(x, dtype=np.float64))

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.k, self.k, 2)

    layouts = Manifold.layouts

    def matrices(self, x: Array) -> Complex:
        return complex_of_pairs(x)

    def points(self, matrices: Complex) -> Array:
        return pairs_of_complex(matrices)

    def from_vector(self, vector: Array) -> Complex:
        return hermitian_from_vector(vector, self.k)

    def to_vector(self, matrices: Complex) -> Array:
        return vector_from_hermitian(matrices)

    # ------------------------------------------------------------------ chart: the Cholesky factor, as for real matrices

    def exact_radial_part(self, v: list[arb]) -> list[arb]:
        from geodp.arithmetic.intervals import eigenvalues

        return v if self.k == 1 else [real for real, _ in eigenvalues(self._exact_hermitian(v))]

    def _exact_hermitian(self, v: list[arb]) -> acb_mat:
        from flint import acb, acb_mat, arb

        matrix, half, pairs = acb_mat(self.k, self.k), arb((1, -1)).sqrt(), self.k * (self.k - 1) // 2
        for i in range(self.k):
            matrix[i, i] = v[i]
        for n, (i, j) in enumerate(np.transpose(np.triu_indices(self.k, 1)).tolist(), start=self.k):
            matrix[i, j], matrix[j, i] = half * acb(v[n], v[n + pairs]), half * acb(v[n], -v[n + pairs])
        return matrix

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from flint import acb

        from geodp.arithmetic.intervals import Undecided, refuse_indefinite

        step = _exact_cholesky(self._exact_hermitian(v).exp().tolist())
        try:
            near = _exact_cholesky(_exact_center(center))
        except Undecided:
            real, imaginary = center[..., 0], center[..., 1]
            # a Hermitian matrix is a real symmetric one of twice the size, with the same signature
            refuse_indefinite(np.block([[real, -imaginary], [imaginary, real]]))
            raise
        chart: list[arb] = []
        for i in range(self.k):
            row = [sum((near[i][m] * step[m][j] for m in range(j, i + 1)), acb(0)) for j in range(i + 1)]
            scaled = [entry / row[i].real for entry in row[:i]]
            chart += [*(part for entry in scaled for part in (entry.real, entry.imag)), row[i].real.log()]
        return chart

    def from_chart(self, x: Array) -> Array:
        scales, below, start = np.empty(self.k), np.zeros((self.k, self.k), dtype=np.complex128), 0
        for i in range(self.k):
            row = x[start : start + 2 * i + 1]
            below[i, :i], scales[i] = row[:-1:2] + 1j * row[1::2], math.exp(min(max(row[-1], -340.0), 340.0))
            start += 2 * i + 1
        while True:
            with np.errstate(all="ignore"):
                factor = scales[:, None] * (np.eye(self.k) + below)
                matrix = self.points(symmetric(factor @ adjoint(factor)))
            if self.valid(matrix):
                return matrix
            below *= 0.5


def _exact_center(center: Array) -> list[list[acb]]:
    """The Hermitian part of the floats."""
    from flint import acb

    from geodp.arithmetic.intervals import enclosed

    size = range(len(center))
    exponents = [math.frexp(float(center[i, i, 0]))[1] for i in size]
    parts = [[acb(*(enclosed(x, (exponents[i] + exponents[j]) // 2) for x in center[i, j])) for j in size] for i in size]
    return [[(parts[i][j] + parts[j][i].conjugate()) / 2 for j in size] for i in size]


def _exact_cholesky(matrix: list[list[acb]]) -> list[list[acb]]:
    """The lower triangular factor with a positive diagonal."""
    from flint import acb

    from geodp.arithmetic.intervals import Undecided

    factor: list[list[acb]] = []
    for i, entries in enumerate(matrix):
        row: list[acb] = []
        for j in range(i):
            inner = sum((a * b.conjugate() for a, b in zip(row, factor[j], strict=False)), acb(0))
            row.append((entries[j] - inner) / factor[j][j])
        pivot = entries[i].real - sum((a.real * a.real + a.imag * a.imag for a in row), entries[i].real * 0)
        if not pivot > 0:
            raise Undecided
        factor.append([*row, acb(pivot.sqrt())])
    return factor
