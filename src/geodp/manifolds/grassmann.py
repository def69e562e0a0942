"""Linear subspaces of a Euclidean space."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.embedding import Embedding, turn_across_gap
from geodp.manifolds.functions import (
    angle_over_sine,
    coarse,
    frobenius,
    subtract_product,
    symmetric_from_vector,
    transpose,
    vector_from_symmetric,
)
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots, differences, sums
from geodp.manifolds.units import LengthUnit, degrees

if TYPE_CHECKING:
    from flint import arb


@register
@final
@dataclass(frozen=True, repr=False)
class Grassmann(Manifold):
    r"""The ``p``-dimensional linear subspaces of ``R^m``, for ``p <= m/2``.

    A point is an ``(m, p)`` array with orthonormal columns; every such basis of a subspace represents the same point.
    Tangent vectors at ``U`` are ``(m, p)`` arrays ``v`` with ``U'v = 0`` and the metric is ``tr(u'v)``: the distance between
    two subspaces is the Euclidean norm of their principal angles. The origin is the span of the first ``p`` axes.

    >>> round(Grassmann(1, 3).dist([[1.0], [0.0], [0.0]], [[-0.6], [0.0], [0.8]]), 12)
    0.927295218002
    """

    p: int
    m: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", whole_number(self.p, 1, "the dimension of the subspaces of Grassmann"))
        object.__setattr__(self, "m", whole_number(self.m, 2, "the dimension of the space of Grassmann"))
        if 2 * self.p > self.m:
            raise ValueError(
                f"Grassmann({self.p}, {self.m}) has subspaces of more than half the dimension: "
                f"use their orthogonal complements, Grassmann({max(self.m - self.p, 1)}, {self.m})"
            )

    @cached_property
    def roots(self) -> Roots:
        pairs = self.p * (self.p - 1)
        forms = np.concatenate([differences(self.p), sums(self.p), np.eye(self.p, dtype=np.int64)])
        return Roots.of(forms, [1] * pairs + [self.m - 2 * self.p] * self.p, sign=1, cut=Fraction(1, 4))

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.m, self.p)

    @property
    def origin(self) -> Array:
        return np.eye(self.m, self.p)

    @property
    def embedding(self) -> Embedding:
        """The projectors onto the subspaces."""

        def turn(vector: Array, q: float) -> float:
            values = np.linalg.eigvalsh(symmetric_from_vector(vector, self.m))
            return turn_across_gap(float(values[-self.p] - values[-self.p - 1]), q, 0.5)

        return Embedding(
            self.m * (self.m + 1) // 2,
            math.sqrt(2.0 * self.p),
            lambda points: vector_from_symmetric(points @ transpose(points)),
            lambda vector: self._basis(symmetric_from_vector(vector, self.m)),
            turn,
        )

    @property
    def layouts(self) -> tuple[Layout, ...]:
        size, meaning = self.m * self.p, f"a {self.m} x {self.p} matrix with orthonormal columns, row by row"
        return (
            Layout("orthonormal", size, meaning, size="m*p",
                   details="a basis with orthonormal columns, as an m x p matrix row by row"),
            Layout("basis", size, "any basis", lambda x: _orthonormal(x.reshape(-1, self.m, self.p)), False, size="m*p",
                   details="any basis, written the same way"),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        # the root of the sum of the squares of the principal angles
        return (degrees(),)

    @property
    def plane_of_largest_curvature(self) -> Array:
        if self.p == 1:
            return np.eye(self.dim)[:2]
        plane = np.zeros((2, self.m - self.p, self.p))
        plane[:, :2, :2] = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, -1.0], [1.0, 0.0]]]) / math.sqrt(2.0)
        return plane.reshape(2, self.dim)

    def raw_exp(self, p: Array, v: Array) -> Array:
        left, angles, right = np.linalg.svd(v, full_matrices=False)
        turned = (p @ transpose(right)) * np.cos(angles)[..., None, :] + left * np.sin(angles)[..., None, :]
        return turned @ right

    def raw_log(self, p: Array, q: Array) -> Array:
        across, cosines, left, right = _cosine_decomposition(p, q)
        out = (across @ transpose(right) * angle_over_sine(cosines)[..., None, :]) @ transpose(left)
        # at the cut locus the pairing of the two bases is arbitrary, and so is the direction
        return np.where((cosines[..., -1] > 4e-16)[..., None, None], out, np.nan)

    def raw_dist(self, p: Array, q: Array) -> Array:
        across, cosines, _, right = _cosine_decomposition(p, q)
        return frobenius(across @ transpose(right) * angle_over_sine(cosines)[..., None, :])

    def raw_radial_part(self, p: Array, v: Array) -> Array:
        """The principal angles."""
        return np.asarray(np.linalg.svd(v, compute_uv=False), dtype=np.float64) + np.zeros((*p.shape[:-2], self.p))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        blocks = coordinates.reshape(*coordinates.shape[:-1], self.m - self.p, self.p)
        return self._completed(p)[..., self.p :] @ blocks

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        blocks = transpose(self._completed(p)[..., self.p :]) @ v
        return blocks.reshape(*blocks.shape[:-2], self.dim)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return self._completed(p) @ x

    def _completed(self, p: Array) -> Array:
        """An orthogonal matrix whose first columns are the basis ``p``."""
        q, _ = np.linalg.qr(p, mode="complete")
        return np.concatenate([p, q[..., self.p :]], axis=-1)

    def raw_project(self, x: Array) -> Array:
        left, _, right = np.linalg.svd(x, full_matrices=False)
        return left @ right

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return v - p @ (transpose(p) @ v)

    def log_rounding(self, p: Array, reach: float) -> float:
        # beyond the injectivity radius the bases of two subspaces may be paired arbitrarily: nothing bounds the direction
        if reach >= self.injectivity_radius:
            return math.inf
        return 8.0 * (self.m + 8) * EPSILON / math.cos(reach)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        off = np.abs(transpose(x) @ x - np.eye(self.p)).max(axis=(-1, -2))
        yield Requirement(off <= TOLERANCE, off, "the columns must be orthonormal but x'x differs from the identity by {:.3g}")

    # ------------------------------------------------------------------ chart: the upper triangle of the projector
    # *The isometry.* Let P be the projector onto the centre and g_1, ..., g_p public orthonormal vectors. Let Gram-Schmidt turn
    # P g_1, ..., P g_p into q_1, ..., q_p. The product of g_i and q_i is positive, and that of g_i and the later q's is 0. So the
    # reflection with axis q_i + g_i takes g_i to -q_i, its axis is longer than sqrt(2), and it fixes the earlier g's and the
    # later q's: the product of the reflections, the first one outermost, takes every g_i to -q_i. It depends only on the
    # subspace, not on its basis. The g's are chosen such that the P g_i are independent for all floats. Pivots would work too,
    # but the time of looking for them depends on the centre.

    def exact_radial_part(self, v: list[arb]) -> list[arb]:
        from flint import arb_mat

        from geodp.arithmetic.intervals import eigenvalues, norm

        block = arb_mat(self.m - self.p, self.p, v)
        return [norm(v)] if self.p == 1 else [real.sqrt() for real, _ in eigenvalues(block.transpose() * block)]

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from flint import arb_mat, ctx

        from geodp.arithmetic.intervals import dot, enclosed_vector, orthonormal, public_frame, reflect

        p, m = self.p, self.m
        # exp(v) is the span of cos(sqrt W) on the base axes and B sinc(sqrt W) on the others, W = B'B, and
        # exp [[0, -W], [I, 0]] = [[cos sqrt W, *], [sinc sqrt W, *]]
        block = arb_mat(m - p, p, v)
        square = block.transpose() * block
        generator = arb_mat(2 * p, 2 * p)
        for i in range(p):
            generator[p + i, i] = 1
            for j in range(p):
                generator[i, p + j] = -square[i, j]
        turned = generator.exp()
        cosine = [[turned[i, j] for j in range(p)] for i in range(p)]
        across = (block * arb_mat([[turned[p + i, j] for j in range(p)] for i in range(p)])).tolist()
        frame = public_frame(m, p, ctx.prec)
        basis = orthonormal([enclosed_vector(column) for column in center.T])
        projected = []
        for vector in frame.vectors:
            shares = [dot(q, vector) for q in basis]
            projected.append([dot(shares, [q[i] for q in basis]) for i in range(m)])
        columns = [frame.place([row[j] for row in [*cosine, *across]]) for j in range(p)]
        for start, end in reversed(list(zip(frame.vectors, orthonormal(projected), strict=True))):
            axis = [x + y for x, y in zip(start, end, strict=True)]
            columns = [reflect(axis, column) for column in columns]
        moved = arb_mat(columns)
        projector = (moved.transpose() * moved).tolist()
        return [entry for i, row in enumerate(projector) for entry in row[i:]]

    def from_chart(self, x: Array) -> Array:
        projector = np.zeros((self.m, self.m))
        projector[np.triu_indices(self.m)] = x
        return self._basis(projector)

    def raw_representatives(self, points: Array) -> Array:
        return self._basis(coarse(points @ transpose(points)))

    def _basis(self, projectors: Array) -> Array:
        """Orthonormal bases of the spans, from the upper triangles of the projectors ``(..., m, m)``."""
        vectors = np.linalg.eigh(projectors, UPLO="U")[1][..., self.m - self.p :]
        longest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=-2)[..., None, :], axis=-2)
        return np.ascontiguousarray(vectors * np.sign(longest))


def _cosine_decomposition(p: Array, q: Array) -> tuple[Array, Array, Array, Array]:
    """``(I - pp')q`` and the singular value decomposition of ``p'q``: residual, cosines, left and right factors."""
    inner = transpose(p) @ q
    across = q - p @ inner
    near = np.abs(across).max(axis=(-1, -2)) < 0.01
    if near.any():
        base = np.broadcast_to(p, across.shape)[near]
        across[near] = subtract_product(np.broadcast_to(q, across.shape)[near], base, inner[near])
    across = across - p @ (transpose(p) @ across)
    left, cosines, right = np.linalg.svd(inner)
    several = (cosines < 0.01).sum(axis=-1)
    for index in map(tuple, np.argwhere(several > 1)):
        start, end = np.broadcast_to(p, across.shape)[index], np.broadcast_to(q, across.shape)[index]
        _resolve_small_cosines(start, end, cosines[index], left[index], right[index], int(several[index]))
    return across, cosines, left, right


def _resolve_small_cosines(p: Array, q: Array, cosines: Array, left: Array, right: Array, count: int) -> None:
    """Improves, in place, the last ``count`` singular triples of ``p'q``, whose values are all small.

    One vanishing cosine is harmless. With two, the pairing of the bases depends on their ratio, so they need relative
    accuracy: their block of ``p'q`` is computed in twice the precision.
    """
    small = transpose(right)[:, -count:]
    high = -subtract_product(np.zeros((len(q), count)), q, small)
    low = -subtract_product(high, q, small)  # the rounding error of the product
    block = -subtract_product(-(transpose(p) @ low), transpose(p), high)
    turn_left, cosines[-count:], turn_right = np.linalg.svd(transpose(left[:, -count:]) @ block)
    left[:, -count:] = left[:, -count:] @ turn_left
    right[-count:] = turn_right @ right[-count:]


def _orthonormal(bases: Array) -> Array:
    size = np.abs(bases).max(axis=-2, keepdims=True)
    scaled = bases / np.where(size > 0.0, size, 1.0)
    basis, triangle = np.linalg.qr(scaled)
    # the diagonal of the triangular factor: the distance of each column from the span of those before it
    apart = np.abs(np.diagonal(triangle, axis1=-2, axis2=-1))
    rounding = 4.0 * bases.shape[-2] * EPSILON * np.linalg.vector_norm(scaled, axis=-2)
    return np.where((apart > rounding).all(axis=-1)[:, None, None], basis, np.nan)
