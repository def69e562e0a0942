"""Hermitian positive-definite matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots, differences

if TYPE_CHECKING:
    from flint import acb, acb_mat, arb

Complex = NDArray[np.complex128]


@register
@final
@dataclass(frozen=True, repr=False)
class HPD(Manifold):
    r"""Hermitian positive-definite ``k x k`` matrices with the affine-invariant metric: covariances of complex signals.

    A point is a ``(k, k, 2)`` array of real and imaginary parts, which is how NumPy stores a complex matrix:
    :meth:`from_complex` and :meth:`to_complex` go back and forth. Tangent vectors are Hermitian matrices;
    ``inner(p, u, v) = tr(p^-1 u p^-1 v)``, so that every change of basis ``x -> A x A*`` is an isometry, and the real matrices
    in it are ``SPD(k)`` with its metric. The curvature is non-positive and the origin is the identity matrix.

    >>> polarised = HPD.from_complex([[2.0, 1.0j], [-1.0j, 2.0]])  # eigenvalues 1 and 3
    >>> round(HPD(2).dist(HPD(2).origin, polarised), 12)
    1.098612288668
    """

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole_number(self.k, 1, "the size of the matrices of HPD"))

    @staticmethod
    def from_complex(z: ArrayLike) -> Array:
        """Points from complex matrices."""
        return _real(np.asarray(z, dtype=np.complex128))

    @staticmethod
    def to_complex(x: ArrayLike) -> Complex:
        """Complex matrices from points."""
        return _complex(np.asarray(x, dtype=np.float64))

    @cached_property
    def roots(self) -> Roots:
        forms = differences(self.k)
        return Roots.of(forms, [2] * len(forms), sign=-1, square=Fraction(1, 4))

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.k, self.k, 2)

    @property
    def origin(self) -> Array:
        return _real(np.eye(self.k, dtype=np.complex128))

    @property
    def scale_directions(self) -> Array:
        # the determinant: other units multiply all matrices by one number
        return self.raw_coordinates(self.origin, self.origin)[None] / math.sqrt(self.k)

    def raw_exp(self, p: Array, v: Array) -> Array:
        factor, inverse = _cholesky(_complex(p))
        values, vectors = np.linalg.eigh(_conjugate(inverse, _complex(v)))
        half = (factor @ vectors) * np.exp(0.5 * values)[..., None, :]
        return _real(_hermitian(half @ _adjoint(half)))

    def raw_log(self, p: Array, q: Array) -> Array:
        factor, inverse = _cholesky(_complex(p))
        logs, vectors = _log_of_whitened(inverse, _complex(p), _complex(q))
        turned = factor @ vectors
        return _real(_hermitian((turned * logs[..., None, :]) @ _adjoint(turned)))

    def raw_dist(self, p: Array, q: Array) -> Array:
        return np.linalg.vector_norm(_log_of_whitened(_cholesky(_complex(p))[1], _complex(p), _complex(q))[0], axis=-1)

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return np.vecdot(self.raw_coordinates(p, u), self.raw_coordinates(p, v))

    def raw_radial_part(self, p: Array, v: Array) -> Array:
        return np.asarray(np.linalg.eigvalsh(_conjugate(_cholesky(_complex(p))[1], _complex(v))), dtype=np.float64)

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        i, j = np.triu_indices(self.k, 1)
        matrix = np.zeros((*coordinates.shape[:-1], self.k, self.k), dtype=np.complex128)
        matrix[..., range(self.k), range(self.k)] = coordinates[..., : self.k]
        real, imaginary = np.split(coordinates[..., self.k :] * math.sqrt(0.5), 2, axis=-1)
        matrix[..., i, j], matrix[..., j, i] = real + 1j * imaginary, real - 1j * imaginary
        return _real(_conjugate(_cholesky(_complex(p))[0], matrix))

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        i, j = np.triu_indices(self.k, 1)
        white = _conjugate(_cholesky(_complex(p))[1], _complex(v))
        above = math.sqrt(2.0) * white[..., i, j]
        return np.concatenate([white[..., range(self.k), range(self.k)].real, above.real, above.imag], axis=-1)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return _real(_conjugate(_cholesky(_complex(p))[0], _complex(x)))

    def raw_project(self, x: Array) -> Array:
        return _real(_hermitian(_complex(x)))

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return self.raw_project(v) + np.zeros_like(p)

    def log_rounding(self, p: Array, reach: float) -> float:
        # as for real matrices, whose products are a fourth of the work and half of the error
        spread = math.exp(min(math.sqrt(2.0) * reach, 300.0))
        return 8.0 * (self.k + 4) * EPSILON * _condition(p) * (spread if spread < 1e4 else 1e4 + 2.0 * spread)

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        growth, condition = math.exp(min(math.sqrt(2.0) * radius, 300.0)), _condition(center)
        return 8.0 * (self.k + 4) * EPSILON * condition * growth * (min(condition * growth, growth**2, 1e4) + 3.0)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        size = np.abs(x).max(axis=(-1, -2, -3))
        off = np.abs(x - _real(_adjoint(_complex(x)))).max(axis=(-1, -2, -3))
        yield Requirement(off <= TOLERANCE * size, off, "the matrix must be Hermitian but differs from its adjoint by {:.3g}")
        good = np.asarray(np.isfinite(_cholesky(_hermitian(_complex(x)))[1]).all(axis=(-1, -2)))
        scale = np.where(size > 0.0, size, 1.0)  # entries of size 1, so that no eigenvalue overflows
        smallest = scale * np.linalg.eigvalsh(_hermitian(_complex(x / scale[..., None, None, None])))[..., 0]
        yield Requirement(good, smallest, "the smallest eigenvalue must be positive but is {:.6g}")

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
            # Hermitian matrices are real symmetric ones of twice the size, of the same sign
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
                matrix = _real(_hermitian(factor @ _adjoint(factor)))
            if self.valid(matrix):
                return matrix
            below *= 0.5


def _complex(x: Array) -> Complex:
    return x[..., 0] + 1j * x[..., 1]


def _real(z: Complex) -> Array:
    return np.stack([z.real, z.imag], axis=-1)


def _adjoint(z: Complex) -> Complex:
    return np.conj(np.swapaxes(z, -1, -2))


def _hermitian(z: Complex) -> Complex:
    half = 0.5 * z  # halved first, so that the sum of large entries stays finite
    return half + _adjoint(half)


def _conjugate(factor: Complex, middle: Complex) -> Complex:
    return _hermitian(factor @ middle @ _adjoint(factor))


def _cholesky(p: Complex) -> tuple[Complex, Complex]:
    """The Cholesky factors of positive-definite matrices, and their inverses; not a number where there is none."""
    factor, inverse = np.zeros_like(p), np.zeros_like(p)
    for j in range(p.shape[-1]):
        row = factor[..., j, :j]
        square = p[..., j, j].real - np.vecdot(row, row).real
        pivot = np.sqrt(np.where(square > 0.0, square, np.nan))
        rest = p[..., j + 1 :, j] - np.einsum("...im,...m->...i", factor[..., j + 1 :, :j], np.conj(row))
        factor[..., j, j], factor[..., j + 1 :, j] = pivot, rest / pivot[..., None]
        inverse[..., j, :j] = -(row[..., None, :] @ inverse[..., :j, :j])[..., 0, :] / pivot[..., None]
        inverse[..., j, j] = 1.0 / pivot
    return factor, inverse


def _log_of_whitened(inverse: Complex, p: Complex, q: Complex) -> tuple[Array, Complex]:
    """Spectrum of ``log(L^-1 q L^-*)``, ``L`` the Cholesky factor of ``p``; digits are kept as for real matrices."""
    difference = _conjugate(inverse, q - p)
    near = np.asarray(np.linalg.matrix_norm(difference) < 0.5)
    values, vectors = np.linalg.eigh(np.where(near[..., None, None], difference, _conjugate(inverse, q)))
    with np.errstate(all="ignore"):
        logs: Array = np.where(near[..., None], np.log1p(values), np.log(values))
    spread = ~near & (values[..., 0] < 1e-4 * values[..., -1])
    if spread.any():
        left, singular, _ = np.linalg.svd((np.broadcast_to(inverse, vectors.shape) @ _cholesky(q)[0])[spread])
        with np.errstate(divide="ignore"):
            logs[spread], vectors[spread] = 2.0 * np.log(singular), left
    return logs, vectors


def _condition(p: Array) -> float:
    """The condition number; infinite where eigenvalues are next to the smallest floats, which have few digits."""
    values = np.linalg.eigvalsh(_hermitian(_complex(p)))
    return float(values[-1] / values[0]) if values[0] > 1e-305 else math.inf


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
