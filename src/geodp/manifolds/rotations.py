"""Rotation matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.embedding import Embedding, turn_across_gap
from geodp.manifolds.functions import angle_over_sine, frobenius, sinc, subtract_product, symmetric, transpose
from geodp.manifolds.layout import Layout, entry_names
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots, differences, sums
from geodp.manifolds.small_eigen import eigh
from geodp.manifolds.units import LengthUnit, degrees, short

if TYPE_CHECKING:
    from flint import arb, arb_mat


@register
@final
@dataclass(frozen=True, repr=False)
class Rotations(Manifold):
    r"""The group ``SO(n)`` of ``n x n`` rotation matrices with its bi-invariant metric.

    Tangent vectors at ``R`` are ``R A`` with ``A`` skew-symmetric; ``inner(R, RA, RB) = tr(A'B)/2``, so that turning one
    plane by the angle ``t`` has length ``t``, and the distance between two rotations is the Euclidean norm of the angles of
    the rotation between them. The origin is the identity matrix.

    >>> import numpy as np
    >>> Rotations(3).dist(np.eye(3), [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    1.5707963267948966
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", whole_number(self.n, 2, "the size of the matrices of Rotations"))

    @cached_property
    def roots(self) -> Roots:
        rank = self.n // 2
        forms = np.concatenate([differences(rank), sums(rank), np.eye(rank, dtype=np.int64)])
        multiplicities = [2] * (rank * (rank - 1)) + [2 * (self.n % 2)] * rank
        return Roots.of(forms, multiplicities, sign=1, square=Fraction(1, 4), cut=Fraction(1))

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.n, self.n)

    @property
    def origin(self) -> Array:
        return np.eye(self.n)

    @property
    def embedding(self) -> Embedding:
        def turn(vector: Array, q: float) -> float:
            matrix = vector.reshape(self.point_shape)
            *_, second, least = np.linalg.svd(matrix, compute_uv=False)
            return turn_across_gap(float(second + least * np.sign(np.linalg.det(matrix))), q, 1.0)

        diameter = 2.0 * math.sqrt(self.n - self.n % 2)
        return Embedding(self.n**2, diameter, lambda points: points.reshape(*points.shape[:-2], -1), self.from_chart, turn)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        names = entry_names(list(np.ndindex(self.point_shape)))
        matrix = Layout("matrix", self.n**2, "the matrix, row by row", names=names, of="Rotations(n)", size="n*n")
        if self.n != 3:
            return (matrix,)
        scalar_last = (tuple((axis, f"q{axis}") for axis in "xyzw"),)
        return (
            matrix,
            Layout("quaternion", 4, "x, y, z, w with the scalar last", _from_quaternion, names=scalar_last, of="Rotations(3)",
                   size="4", details="x, y, z, w, the scalar last unless the header says w, x, y, z", write=_quaternion),
            Layout("rotvec", 3, "the axis times the angle in radians", _from_rotation_vector, of="Rotations(3)", size="3",
                   write=_rotation_vector),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        # the root of the sum of the squares of the angles of the planes: no plane is turned by more
        return (degrees(),)

    def in_words(self, point: Array) -> str:
        if self.n != 3:
            return ""
        vector = _rotation_vector(point[None])[0]
        angle = float(np.linalg.vector_norm(vector))
        axis = ", ".join(f"{x:.4f}" for x in (vector / angle).tolist()) if angle > 0.0 else "any"
        return f"turn by {short(math.degrees(angle))} degrees about the axis ({axis})"

    @property
    def plane_of_largest_curvature(self) -> Array:
        if self.n < 4:
            return np.eye(self.dim)[:2]
        # coordinates are the entries 10, 20, 21, 30, 31, 32, ...: two vectors of a factor so(3) of so(4) = so(3) + so(3)
        plane = np.zeros((2, self.dim))
        plane[0, [0, 5]], plane[1, [1, 4]] = (1.0, 1.0), (1.0, -1.0)
        return plane / math.sqrt(2.0)

    def raw_exp(self, p: Array, v: Array) -> Array:
        a = _skew(transpose(p) @ v)
        if self.n == 3:
            angle = (frobenius(a) * math.sqrt(0.5))[..., None, None]
            return p @ (np.eye(3) + sinc(angle) * a + 0.5 * sinc(0.5 * angle) ** 2 * (a @ a))
        angles, vectors = np.linalg.eigh(-1j * a)
        turned = (vectors * np.exp(1j * angles)[..., None, :]) @ np.conj(transpose(vectors))
        return p @ turned.real

    def raw_log(self, p: Array, q: Array) -> Array:
        sine, cosine = _relative(p, q)
        return p @ (_log3(sine, cosine) if self.n == 3 else _Planes.of(sine, cosine, p, q).log())

    def raw_dist(self, p: Array, q: Array) -> Array:
        sine, cosine = _relative(p, q)
        return _angle3(sine, cosine) if self.n == 3 else _Planes.of(sine, cosine, p, q).norm()

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return 0.5 * np.einsum("...ij,...ij->...", u, v) + np.zeros(p.shape[:-2])

    def raw_radial_part(self, p: Array, v: Array) -> Array:
        """The rotation angles of ``exp(p, v)`` relative to ``p``, unwrapped and descending: ``n//2`` of them."""
        a = _skew(transpose(p) @ v)
        if self.n == 3:
            return (frobenius(a) * math.sqrt(0.5))[..., None]
        return np.asarray(np.linalg.eigvalsh(-1j * a), dtype=np.float64)[..., : -self.rank - 1 : -1]

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        i, j = np.tril_indices(self.n, -1)
        a = np.zeros((*coordinates.shape[:-1], self.n, self.n))
        a[..., i, j] = coordinates
        a[..., j, i] = -coordinates
        return p @ a

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        i, j = np.tril_indices(self.n, -1)
        entries: Array = _skew(transpose(p) @ v)[..., i, j]
        return entries

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return p @ x

    def raw_project(self, x: Array) -> Array:
        left, _, right = np.linalg.svd(x)
        # the nearest orthogonal matrix; if that is a reflection, the nearest rotation flips its weakest axis
        left[..., -1] *= np.where(np.linalg.det(left @ right) < 0.0, -1.0, 1.0)[..., None]
        return left @ right

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return p @ _skew(transpose(p) @ v)

    def log_rounding(self, p: Array, reach: float) -> float:
        if reach >= self.injectivity_radius:
            return math.inf
        return 8.0 * (self.n + 8) * EPSILON / math.cos(0.5 * reach)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        off = np.abs(transpose(x) @ x - np.eye(self.n)).max(axis=(-1, -2))
        yield Requirement(off <= TOLERANCE, off, "the matrix must be orthogonal but x'x differs from the identity by {:.3g}")
        determinant = np.linalg.det(x)
        yield Requirement(determinant > 0.0, determinant, "the determinant must be 1 but is {:.3g}")

    # ------------------------------------------------------------------ chart: the entries of the matrix
    # The centre is the Gram-Schmidt orthonormalisation of the columns of its floats. (The polar factor would work too; both are
    # within the distance of the floats from the group, up to a factor.)

    def exact_radial_part(self, v: list[arb]) -> list[arb]:
        from geodp.arithmetic.intervals import Undecided, eigenvalues, norm

        if self.rank == 1:
            return [norm(v)]
        angles = [imaginary for _, imaginary in eigenvalues(self._exact_skew(v)) if imaginary > 0]
        if len(angles) != self.rank:
            raise Undecided
        return angles

    def _exact_skew(self, v: list[arb]) -> arb_mat:
        from flint import arb_mat

        matrix = arb_mat(self.n, self.n)
        entries = iter(v)
        for i in range(self.n):
            for j in range(i):
                entry = next(entries)
                matrix[i, j], matrix[j, i] = entry, -entry
        return matrix

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from flint import arb_mat

        from geodp.arithmetic.intervals import enclosed_vector, orthonormal

        columns = orthonormal([enclosed_vector(column) for column in center.T])
        return (arb_mat(columns).transpose() * self._exact_skew(v).exp()).entries()

    def from_chart(self, x: Array) -> Array:
        return self.raw_project(x.reshape(self.point_shape))


def _skew(matrix: Array) -> Array:
    return 0.5 * (matrix - transpose(matrix))


def _relative(p: Array, q: Array) -> tuple[Array, Array]:
    """The skew and the symmetric part of ``p'q``: its sines and cosines."""
    # p'p is symmetric, so q - p has the same skew part as q, and keeps its digits when the two are close
    return _skew(transpose(p) @ (q - p)), symmetric(transpose(p) @ q)


def _angle3(sine: Array, cosine: Array) -> Array:
    twice_cosine = np.trace(cosine, axis1=-2, axis2=-1) - 1.0
    return np.arctan2(math.sqrt(2.0) * frobenius(sine), twice_cosine)


def _log3(sine: Array, cosine: Array) -> Array:
    angle = _angle3(sine, cosine)
    length = frobenius(sine) * math.sqrt(0.5)
    safe = np.where(length > 0.0, length, 1.0)
    log = np.where(length > 0.0, angle / safe, 1.0)[..., None, None] * sine
    far = angle > 2.5
    if far.any():
        # near a half turn the skew part vanishes, but the symmetric part, cos t I + (1 - cos t) a a', still determines the axis a
        outer = cosine[far] - np.cos(angle[far])[..., None, None] * np.eye(3)
        longest = np.diagonal(outer, axis1=-2, axis2=-1).argmax(axis=-1)
        axis = np.take_along_axis(outer, longest[:, None, None], axis=-1)[..., 0]
        axis = axis / np.linalg.vector_norm(axis, axis=-1, keepdims=True)
        unsigned = np.cross(np.eye(3), axis[:, None, :])  # the skew matrix of the axis, up to sign
        sense = np.einsum("...ij,...ij->...", unsigned, sine[far])
        signed = np.where(np.abs(sense) > 4e-16, np.sign(sense), np.nan)
        log[far] = (signed * angle[far])[..., None, None] * unsigned
    return log


class _Planes(NamedTuple):
    """A rotation split into its planes of small and of large angle.

    In the eigenvectors of the symmetric part the first ``2 m`` coordinates are the planes turned by more than about a
    right angle, the others those turned by less. On the latter the logarithm is the skew part times the smooth function
    ``t/sin t`` of ``cos t``; on the former it is ``pi J - (pi - t) J``, with ``J`` the orthogonal polar factor of the
    skew part, which stays well determined up to the cut locus.
    """

    vectors: Array
    small: Array
    large: Array
    quarter_turn: Array
    sines: Array
    in_large: NDArray[np.bool_]

    @classmethod
    def of(cls, sine: Array, cosine: Array, p: Array, q: Array) -> _Planes:
        n = sine.shape[-1]
        cosines, vectors = eigh(cosine)
        # split at the widest gap between pairs of cosines within this window, so that no plane is split
        low, high = -0.9, -0.3
        padded = np.concatenate([np.full_like(cosines[..., :1], low), cosines, np.full_like(cosines[..., :1], high)], axis=-1)
        below, above = padded[..., 0 : n + 1 : 2], padded[..., 1 : n + 2 : 2]
        large_planes = (np.minimum(above, high) - np.maximum(below, low)).argmax(axis=-1)
        in_large = np.arange(n) < 2 * large_planes[..., None]
        turned = transpose(vectors) @ sine @ vectors
        several = large_planes > 1
        if several.any():
            # If two planes are turned by nearly pi, the polar factor depends on the ratio of their sines, so these need
            # relative accuracy. p'p is symmetric: q + p, which is small there, has the same skew part as q.
            base, end = np.broadcast_to(p, sine.shape)[several], np.broadcast_to(q, sine.shape)[several]
            frame = vectors[several]
            opposite = -subtract_product(
                np.zeros_like(frame), np.concatenate([end, base], axis=-1), np.concatenate([frame, frame], axis=-2)
            )
            turned[several] = _skew(transpose(base @ frame) @ opposite)
        both_large = in_large[..., :, None] & in_large[..., None, :]
        both_small = ~in_large[..., :, None] & ~in_large[..., None, :]
        root = np.sqrt(angle_over_sine(np.where(in_large, -cosines, cosines)))
        scaled = root[..., :, None] * turned * root[..., None, :]
        # the identity on the small planes keeps them out of the polar factor of the large ones
        left, sines, right = np.linalg.svd(np.where(both_large, turned, np.eye(n) * ~in_large[..., None, :]))
        quarter_turn = np.where(both_large, left @ right, 0.0)
        return cls(vectors, np.where(both_small, scaled, 0.0), np.where(both_large, scaled, 0.0), quarter_turn, sines, in_large)

    def log(self) -> Array:
        inner = self.small + math.pi * self.quarter_turn - self.large
        defined = self.sines[..., -1] > 4e-16
        return np.where(defined[..., None, None], _skew(self.vectors @ inner @ transpose(self.vectors)), np.nan)

    def norm(self) -> Array:
        # the singular values of the identity on the small planes are 1, the largest possible, and come first
        count = np.arange(self.sines.shape[-1]) >= (~self.in_large).sum(axis=-1)[..., None]
        angles = np.where(count, math.pi - np.arcsin(np.minimum(self.sines, 1.0)), 0.0)
        return np.sqrt(0.5 * (frobenius(self.small) ** 2 + np.vecdot(angles, angles)))


def _from_quaternion(cells: Array) -> Array:
    cells = cells / np.abs(cells).max(axis=-1, keepdims=True)
    x, y, z, w = (cells / np.linalg.vector_norm(cells, axis=-1, keepdims=True)).T
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def _from_rotation_vector(cells: Array) -> Array:
    half = 0.5 * np.linalg.vector_norm(cells, axis=-1, keepdims=True)
    return _from_quaternion(np.concatenate([0.5 * sinc(half) * cells, np.cos(half)], axis=-1))


def _rotation_vector(rotations: Array) -> Array:
    log = Rotations(3).raw_log(np.eye(3), rotations)
    # half a turn has two logarithms: the axis is then the longest column of rotation + 1
    across = rotations + np.eye(3)
    longest = np.linalg.vector_norm(across, axis=-2).argmax(axis=-1)
    axis = np.take_along_axis(across, longest[:, None, None], axis=-1)[..., 0]
    half_turn = np.pi * axis / np.linalg.vector_norm(axis, axis=-1, keepdims=True)
    vector = np.stack([log[:, 2, 1], log[:, 0, 2], log[:, 1, 0]], axis=-1)
    return np.where(np.isfinite(vector), vector, half_turn)


def _quaternion(rotations: Array) -> Array:
    """The one of the two quaternions whose scalar part is not negative."""
    vector = _rotation_vector(rotations)
    half = 0.5 * np.linalg.vector_norm(vector, axis=-1, keepdims=True)
    return np.concatenate([0.5 * sinc(half) * vector, np.cos(half)], axis=-1)
