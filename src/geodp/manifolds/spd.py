"""Symmetric positive-definite matrices, with their two usual metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.functions import (
    Matrix,
    adjoint,
    conjugate,
    frobenius,
    spectral,
    symmetric,
    symmetric_from_vector,
    vector_from_symmetric,
)
from geodp.manifolds.layout import Layout, entry_names, symmetric_layout
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots, differences
from geodp.manifolds.small_eigen import eigh, eigvalsh
from geodp.manifolds.units import LengthUnit, factor, short

if TYPE_CHECKING:
    from flint import arb, arb_mat


@dataclass(frozen=True, repr=False)
class PositiveDefinite(Manifold):
    """The set and its tangent space, for any metric: points that are read as matrices, here real ones."""

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole_number(self.k, 1, f"the size of the matrices of {type(self).__name__}"))

    def matrices(self, x: Array) -> Any:
        """Points or tangent vectors as matrices."""
        return x

    def points(self, matrices: Any) -> Array:
        """The inverse."""
        return cast(Array, matrices)

    def from_vector(self, vector: Array) -> Any:
        """The symmetric or Hermitian matrix with these coordinates in an orthonormal basis."""
        return symmetric_from_vector(vector, self.k)

    def to_vector(self, matrices: Any) -> Array:
        """The inverse."""
        return vector_from_symmetric(matrices)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.k, self.k)

    @property
    def origin(self) -> Array:
        return self.points(np.eye(self.k))

    @property
    def scale_directions(self) -> Array:
        # the determinant: a change of units multiplies all matrices by one number
        return self.to_vector(np.eye(self.k))[None] / math.sqrt(self.k)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        every = list(np.ndindex(self.k, self.k))
        upper, lower = [(i, j) for i, j in every if i <= j], [(i, j) for i, j in every if i >= j]
        diagonal = sorted(upper, key=lambda entry: entry[0] != entry[1])
        size = "k*(k+1)/2"
        return (
            Layout("full", len(every), "the matrix, row by row", names=entry_names(every), size="k*k"),
            self._triangle(upper, Layout("upper", len(upper), "its upper triangle, row by row", size=size,
                           details="its upper triangle, row by row: xx, xy, xz, yy, yz, zz")),
            self._triangle(lower, Layout("lower", len(upper), "its lower triangle, row by row", automatic=False, size=size,
                           details="its lower triangle, row by row: xx, yx, yy, zx, zy, zz, as DIPY and ANTs have it")),
            self._triangle(diagonal, Layout("diagonal", len(upper), "its diagonal, then the rest", automatic=False, size=size,
                           details="its diagonal, then the rest of the upper triangle, as MRtrix has it")),
        )  # fmt: skip

    def _triangle(self, entries: Sequence[tuple[int, ...]], layout: Layout) -> Layout:
        """A layout of half of the matrix: these entries, which a header may name."""
        return symmetric_layout(replace(layout, names=entry_names(entries, symmetric=True)), self.k, entries)

    def in_words(self, point: Array) -> str:
        deviations = np.sqrt(eigvalsh(self.matrices(point)))[::-1]
        shown = ", ".join(map(short, deviations[:6].tolist()))
        return f"standard deviations along its axes: {shown}{', ...' if self.k > 6 else ''}"

    def raw_project(self, x: Array) -> Array:
        return self.points(symmetric(self.matrices(x)))

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return self.raw_project(v) + np.zeros_like(p)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        return _requirements(self.matrices(x))


@dataclass(frozen=True, repr=False)
class AffineInvariant(PositiveDefinite):
    """Positive-definite matrices with the metric ``tr(p^-1 u p^-1 v)``, which every change of basis ``x -> A x A*`` preserves.

    The matrices are over a field of ``multiplicity`` real dimensions.
    """

    multiplicity: ClassVar[int] = 1

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        # v'qv/v'pv is between exp(-d) and exp(d) for every v
        return (factor("standard deviations"),)

    @cached_property
    def roots(self) -> Roots:
        forms = differences(self.k)
        return Roots.of(forms, [self.multiplicity] * len(forms), sign=-1, square=Fraction(1, 4))

    def raw_exp(self, p: Array, v: Array) -> Array:
        factor, inverse = cholesky(self.matrices(p))
        values, vectors = eigh(conjugate(inverse, self.matrices(v)))
        # exp(p, v) = F F*, with F = L V exp(values/2): symmetric and positive in spite of rounding
        half = (factor @ vectors) * np.exp(0.5 * values)[..., None, :]
        return self.points(symmetric(half @ adjoint(half)))

    def raw_log(self, p: Array, q: Array) -> Array:
        factor, inverse = cholesky(self.matrices(p))
        logs, vectors = log_of_whitened(inverse, self.matrices(p), self.matrices(q))
        return self.points(conjugate(factor, spectral(vectors, logs)))

    def raw_dist(self, p: Array, q: Array) -> Array:
        base = self.matrices(p)
        return np.linalg.vector_norm(log_of_whitened(cholesky(base)[1], base, self.matrices(q))[0], axis=-1)

    def _whitened(self, p: Array, v: Array) -> Any:
        return conjugate(cholesky(self.matrices(p))[1], self.matrices(v))

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return np.asarray(np.einsum("...ij,...ij->...", self._whitened(p, u).conj(), self._whitened(p, v)).real)

    def raw_norm(self, p: Array, v: Array) -> Array:
        return frobenius(self._whitened(p, v))

    def raw_radial_part(self, p: Array, v: Array) -> Array:
        return eigvalsh(self._whitened(p, v))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        return self.points(conjugate(cholesky(self.matrices(p))[0], self.from_vector(coordinates)))

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return self.to_vector(self._whitened(p, v))

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return self.points(conjugate(cholesky(self.matrices(p))[0], self.matrices(x)))

    def log_rounding(self, p: Array, reach: float) -> float:
        condition, growth = condition_number(self.matrices(p)), growth_of_condition(reach)
        return self.multiplicity * float(whitening_rounding(self.k, condition, condition * growth, growth))

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        most = condition_number(self.matrices(center)) * growth_of_condition(radius)
        return self.multiplicity * float(whitening_rounding(self.k, most, most, growth_of_condition(2.0 * radius)))

    def rounding_reach(self, p: Array, v: Array) -> Array:
        r"""From the ratio of the extreme eigenvalues of ``L^-1 q L^-*``, all that :func:`whitening_rounding` needs.

        A factor that all eigenvalues have in common, such as another unit, costs no digits but those of a long logarithm, hence
        ``1 + |v|``. The ratio is a computed one. Errors add to the whitened matrix, so if the bound says that its smallest
        eigenvalue is off by at most half, the true ratio is at most 3 times as large. Else the length counts.
        """
        logs = self.raw_radial_part(p, v)
        length = np.linalg.vector_norm(logs, axis=-1)
        ratio = np.maximum(logs.max(axis=-1) - logs.min(axis=-1), np.log1p(length)) + math.log(3.0)
        spread, condition = np.exp(np.minimum(ratio, 300.0)), condition_number(self.matrices(p))
        known = self.multiplicity * whitening_rounding(self.k, condition, condition * spread, spread) < 0.5
        return np.where(known, np.minimum(ratio / math.sqrt(2.0), length), length)


@register
@final
@dataclass(frozen=True, repr=False)
class SPD(AffineInvariant):
    r"""Symmetric positive-definite ``k x k`` matrices with the affine-invariant metric.

    Tangent vectors are symmetric matrices; ``inner(p, u, v) = tr(p^-1 u p^-1 v)``, so that every change of basis
    ``x -> A x A'`` is an isometry and multiplying a matrix by ``e`` moves it by ``sqrt(k)``.
    The curvature is non-positive and the origin is the identity matrix.

    A matrix counts as positive definite if its Cholesky factorisation succeeds in float64, that is up to condition
    numbers near ``1e15``.

    >>> import numpy as np
    >>> round(SPD(2).dist(np.eye(2), np.diag([np.exp(3.0), np.exp(-4.0)])), 12)
    5.0
    """

    # ------------------------------------------------------------------ chart: the Cholesky factor
    # The chart holds log C_ii and C_ij / C_ii of the factor C, row by row. These coordinates may take any values and hardly
    # depend on units: scaling the variables moves the first by constants and does not change the second. Every rounded list is a
    # positive-definite matrix. In floats its condition number may be too large for a Cholesky factorisation, for instance after a
    # draw at distance 40; then the second kind are halved until it is not.

    def exact_radial_part(self, v: list[arb]) -> list[arb]:
        from flint import ctx

        from geodp.arithmetic.intervals import COARSE, eigenvalues, symmetric_eigenvalues

        if self.k == 1:
            return v
        matrix = _exact_symmetric(v, self.k)
        return symmetric_eigenvalues(matrix) if ctx.prec <= COARSE else [real for real, _ in eigenvalues(matrix)]

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from geodp.arithmetic.intervals import Undecided, cholesky, enclosed_matrix, lower_triangle, refuse_indefinite

        try:
            near = cholesky(enclosed_matrix(center))
        except Undecided:
            refuse_indefinite(center)
            raise
        step = cholesky(_exact_symmetric(v, self.k).exp())
        factor = (lower_triangle(near) * lower_triangle(step)).tolist()
        return [x for i, row in enumerate(factor) for x in (*(entry / row[i] for entry in row[:i]), row[i].log())]

    def from_chart(self, x: Array) -> Array:
        one, rows, columns = _lower(self.k)
        below = np.zeros((self.k, self.k))
        below[rows, columns] = x
        scales = np.exp(np.minimum(np.maximum(below.diagonal(), -340.0), 340.0))
        np.fill_diagonal(below, 0.0)
        while True:
            with np.errstate(all="ignore"):
                factor = scales[:, None] * (one + below)
                matrix = symmetric(factor @ factor.T)
                if has_factor(matrix):
                    return matrix
            below *= 0.5


@cache
def _lower(k: int) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """The identity, and rows and columns of the entries up to the diagonal."""
    return np.eye(k), *np.tril_indices(k)


def _exact_symmetric(v: list[arb], size: int) -> arb_mat:
    """:func:`symmetric_from_vector` over real numbers in intervals."""
    from flint import arb, arb_mat

    half = arb(0.5).sqrt()
    matrix = arb_mat(size, size)
    entries = iter(v)
    for i in range(size):
        for j in range(i, size):
            entry = next(entries)
            matrix[i, j] = matrix[j, i] = entry if i == j else half * entry
    return matrix


def cholesky(p: Matrix) -> tuple[Matrix, Matrix]:
    """The Cholesky factors of positive-definite matrices, and their inverses; NaN for other matrices."""
    k = p.shape[-1]
    if k > 3:
        whole = np.linalg.cholesky(symmetric(p))
        return cast(Matrix, whole), cast(Matrix, np.tril(np.linalg.inv(whole)))
    if p.ndim == 2 and p.dtype == np.float64:
        one, its_inverse = _factors_of_one(p.tolist())
        return cast(Matrix, np.array(one)), cast(Matrix, np.array(its_inverse))
    factor, inverse = np.zeros_like(p), np.zeros_like(p)
    for j in range(k):
        for i in range(j, k):
            rest = 0.5 * p[..., i, j] + 0.5 * p[..., j, i].conj()
            for m in range(j):
                rest = rest - factor[..., i, m] * factor[..., j, m].conj()
            factor[..., i, j] = np.sqrt(rest.real) if i == j else rest / factor[..., j, j]
        inverse[..., j, j] = 1.0 / factor[..., j, j]
    for j in range(k):
        for i in range(j + 1, k):
            rest = factor[..., i, j] * inverse[..., j, j]
            for m in range(j + 1, i):
                rest = rest + factor[..., i, m] * inverse[..., m, j]
            inverse[..., i, j] = -rest * inverse[..., i, i]
    return factor, inverse


def _factors_of_one(p: list[list[float]]) -> tuple[list[list[float]], list[list[float]]]:
    """:func:`cholesky` of one small matrix, with the same bits. Python numbers are faster than arrays of one number."""
    k = len(p)
    factor, inverse = [[0.0] * k for _ in p], [[0.0] * k for _ in p]
    for j in range(k):
        for i in range(j, k):
            rest = 0.5 * p[i][j] + 0.5 * p[j][i]
            for m in range(j):
                rest -= factor[i][m] * factor[j][m]
            if i > j:
                factor[i][j] = rest / factor[j][j]
            elif 0.0 < rest < math.inf:
                factor[j][j] = math.sqrt(rest)
            else:
                nothing = [[math.nan] * k for _ in p]
                return nothing, nothing
        inverse[j][j] = 1.0 / factor[j][j]
    for j in range(k):
        for i in range(j + 1, k):
            inverse[i][j] = -sum(factor[i][m] * inverse[m][j] for m in range(j, i)) * inverse[i][i]
    return factor, inverse


def log_of_whitened(inverse: Matrix, p: Matrix, q: Matrix) -> tuple[Array, Matrix]:
    """Spectrum of ``log(L^-1 q L^-*)``, ``L`` the Cholesky factor of ``p``: logarithms and eigenvectors.

    Near ``p`` the difference ``q - p`` is whitened instead of ``q``, which keeps the relative error of the distance small. If the
    ratio of the eigenvalues exceeds :func:`most_spread`, the singular values of ``L^-1 L_q`` are used, with twice as many digits.
    """
    difference = conjugate(inverse, q - p)
    near = frobenius(difference) < 0.5
    chosen: Matrix = np.where(near[..., None, None], difference, conjugate(inverse, q))
    values, vectors = eigh(chosen)
    with np.errstate(all="ignore"):
        logs = np.where(near[..., None], np.log1p(values), np.log(values))
    spread = ~near & ~(most_spread(p, inverse) * values[..., 0] >= values[..., -1])
    if spread.any():
        with np.errstate(all="ignore"):
            factors = cholesky_factor(np.broadcast_to(q, vectors.shape)[spread])
            root = np.broadcast_to(inverse, vectors.shape)[spread] @ factors
            finite = np.asarray(np.isfinite(root).all(axis=(-1, -2)))
            left, singular, _ = np.linalg.svd(np.where(finite[:, None, None], root, 0.0))
            logs[spread], vectors[spread] = np.where(finite[:, None], 2.0 * np.log(singular), np.nan), left
    return logs, vectors


#: Beyond this ratio of its eigenvalues a whitened matrix is factorised, or earlier if the condition of ``p`` costs digits too:
#: the product of the two stays below the second number, except for ratios below the third.
MOST_SPREAD, MOST_LOST, LEAST_SPREAD = 1e4, 1e6, 4.0


def most_spread(p: Matrix, inverse: Matrix) -> Array:
    """The largest ratio of eigenvalues at which whitening at ``p`` is accurate enough, from ``p`` and its inverse factor."""
    condition = np.trace(p, axis1=-2, axis2=-1).real * frobenius(inverse) ** 2  # at least the condition number
    return np.clip(MOST_LOST / condition, LEAST_SPREAD, MOST_SPREAD)


def whitening_rounding(k: int, p: float, q: ArrayLike, spread: ArrayLike) -> Array:
    r"""A bound on the rounding error of the logarithm of ``q`` at ``p``: from their conditions, and that of ``L^-1 q L^-T``.

    Whitening ``q`` leaves an error of about ``k`` epsilons times the largest eigenvalue of ``q`` over the smallest of ``p``, and
    taking the logarithm divides it by the smallest of the whitened matrix: in all the condition of ``p`` times the spread, or
    that of ``q``. This is used up to :func:`most_spread`. Beyond it the error of every step is a map close to the identity
    that moves ``q``, or ``p``: by the condition of ``p`` or ``q`` for the Cholesky factors, and by the root of their product
    for ``L^-1``, its product with ``L_q``, and the singular values of that. The error of a logarithm is at most the distance that
    its end points have moved, because curvature is not positive.

    In a wide ball this is within a constant of the error of storing a mean in floats, epsilon times its condition.
    """
    q, spread, most = np.asarray(q), np.asarray(spread), min(p * MOST_SPREAD, max(MOST_LOST, LEAST_SPREAD * p))
    with np.errstate(over="ignore"):  # infinite is right past the floats
        whitened = p * np.minimum(spread, q)
        factorised = np.minimum(whitened, most) + 0.5 * (p**0.5 + q**0.5) ** 2
        few = (spread <= MOST_SPREAD) & (k**2 * p * spread <= MOST_LOST)  # then nothing is factorised
        return 4.0 * (k + 4) * EPSILON * np.where(few, whitened, factorised)


def cholesky_factor(x: Matrix) -> Matrix:
    """Cholesky factors, column by column for all matrices at once; NaN or infinite if a matrix is not positive definite.

    LAPACK would raise for the whole batch because of one matrix, which would then take more time than the others.
    """
    k, batch = x.shape[-1], x.shape[:-2]
    flat, out = x.reshape(-1, k, k), np.empty((math.prod(batch), k, k), dtype=x.dtype)
    for start in range(0, len(flat), 2048):  # few enough columns to stay in the cache
        rest = np.moveaxis(symmetric(flat[start : start + 2048]), 0, -1).copy()
        factor = np.zeros_like(rest)
        for j in range(k):
            factor[j:, j] = rest[j:, j] / np.sqrt(rest[j, j].real)
            rest[j + 1 :, j + 1 :] -= factor[j + 1 :, None, j] * factor[None, j + 1 :, j].conj()
        out[start : start + 2048] = np.moveaxis(factor, -1, 0)
    return cast(Matrix, out.reshape(x.shape))


#: For eigenvalues above this, the spacing of the smallest floats, 5e-324, is well below their rounding error.
_TINY = 1e-305


def condition_number(p: Matrix) -> float:
    """The condition number; infinite if eigenvalues are near the smallest floats, which have few digits."""
    values = np.linalg.eigvalsh(symmetric(p))
    return float(values[-1] / values[0]) if values[0] > _TINY else math.inf


def growth_of_condition(reach: float) -> float:
    """The largest factor by which the condition number of a matrix may change within this distance."""
    return math.exp(min(math.sqrt(2.0) * reach, 300.0))


def _requirements(x: Matrix) -> Iterator[Requirement]:
    size = np.abs(x).max(axis=(-1, -2))
    off = np.abs(x - adjoint(x)).max(axis=(-1, -2))
    kind = ("Hermitian", "adjoint") if x.dtype == np.complex128 else ("symmetric", "transpose")
    sentence = f"the matrix must be {kind[0]} but differs from its {kind[1]} by {{:.3g}}"
    yield Requirement(off <= TOLERANCE * size, off, sentence)
    good = has_factor(symmetric(x))

    def smallest() -> Array:
        scale = np.where(size > 0.0, size, 1.0)  # entries of size 1, so that no eigenvalue overflows
        return np.asarray(scale * eigvalsh(symmetric(x / scale[..., None, None]))[..., 0])

    yield Requirement(good, smallest, "the smallest eigenvalue must be positive but is {:.6g}")


def has_factor(x: Matrix) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        if x.shape[-1] <= 3:
            return np.asarray(np.isfinite(cholesky(x)[1]).all(axis=(-1, -2)))
        factor = cholesky_factor(x)
        pivots = np.diagonal(factor, axis1=-2, axis2=-1).real
        return np.asarray((pivots > 0.0).all(axis=-1) & np.isfinite(factor).all(axis=(-1, -2)))
