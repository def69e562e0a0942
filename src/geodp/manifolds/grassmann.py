"""Linear subspaces of a Euclidean space."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.functions import angle_over_sine, frobenius, log_sinc, subtract_product, transpose
from geodp.manifolds.manifold import TOLERANCE, CompactManifold, Requirement, VolumeBound


@final
@dataclass(frozen=True, repr=False)
class Grassmann(CompactManifold):
    r"""The ``p``-dimensional linear subspaces of ``R^m``, for ``p <= m/2``.

    A point is an ``(m, p)`` array with orthonormal columns; every such basis of a subspace stands for the same point.
    Tangent vectors at ``U`` are ``(m, p)`` arrays ``v`` with ``U'v = 0`` and the metric is ``tr(u'v)``: the distance of
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

    @property
    def dim(self) -> int:
        return self.p * (self.m - self.p)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.m, self.p)

    @property
    def origin(self) -> Array:
        return np.eye(self.m, self.p)

    @property
    def curvature(self) -> float:
        return 2.0 if self.p > 1 else (1.0 if self.m > 2 else 0.0)

    @property
    def injectivity_radius(self) -> float:
        return math.pi / 2.0

    @property
    def diameter(self) -> float:
        return math.pi / 2.0 * math.sqrt(self.p)

    @property
    def rank(self) -> int:
        return self.p

    @property
    def volume_bound(self) -> VolumeBound:
        return VolumeBound.from_roots(self.dim - self.p, self.m - 2.0, 1)

    @property
    def cut_locus(self) -> str:
        return "a principal angle of pi/2"

    def raw_exp(self, p: Array, v: Array) -> Array:
        left, angles, right = np.linalg.svd(v, full_matrices=False)
        turned = (p @ transpose(right)) * np.cos(angles)[..., None, :] + left * np.sin(angles)[..., None, :]
        return turned @ right

    def raw_log(self, p: Array, q: Array) -> Array:
        across, cosines, left, right = _cosine_decomposition(p, q)
        out = (across @ transpose(right) * angle_over_sine(cosines)[..., None, :]) @ transpose(left)
        # at the cut locus the pairing of the two bases, and with it the direction, is arbitrary
        return np.where((cosines[..., -1] > 4e-16)[..., None, None], out, np.nan)

    def raw_dist(self, p: Array, q: Array) -> Array:
        across, cosines, _, right = _cosine_decomposition(p, q)
        return frobenius(across @ transpose(right) * angle_over_sine(cosines)[..., None, :])

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return np.einsum("...ij,...ij->...", u, v) + np.zeros(p.shape[:-2])

    def raw_log_volume_density(self, p: Array, v: Array) -> Array:
        angles = np.asarray(np.linalg.svd(v, compute_uv=False), dtype=np.float64)
        i, j = np.triu_indices(self.p, 1)
        pairs = log_sinc(angles[..., i] - angles[..., j]) + log_sinc(angles[..., i] + angles[..., j])
        total: Array = pairs.sum(axis=-1) + np.zeros(p.shape[:-2])
        return total + (self.m - 2 * self.p) * log_sinc(angles).sum(axis=-1) if self.m > 2 * self.p else total

    def raw_inside_cut_locus(self, p: Array, v: Array) -> NDArray[np.bool_]:
        largest = np.linalg.svd(v, compute_uv=False)[..., 0] + np.zeros(p.shape[:-2])
        return np.asarray(largest < math.pi / 2.0)

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
        # past the injectivity radius the bases of two subspaces may be paired arbitrarily: nothing bounds the direction
        if reach >= self.injectivity_radius:
            return math.inf
        return 8.0 * (self.m + 8) * EPSILON / math.cos(reach)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        off = np.abs(transpose(x) @ x - np.eye(self.p)).max(axis=(-1, -2))
        yield Requirement(off <= TOLERANCE, off, "the columns must be orthonormal but x'x differs from the identity by {:.3g}")


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
    """Improve, in place, the last ``count`` singular triples of ``p'q``, whose values are all small.

    One vanishing cosine is harmless. Between two of them the pairing of the bases rests on their ratio, so they need
    digits relative to themselves: the block of ``p'q`` that holds them is formed in twice the precision.
    """
    small = transpose(right)[:, -count:]
    high = -subtract_product(np.zeros((len(q), count)), q, small)
    low = -subtract_product(high, q, small)  # what rounding took from the product
    block = -subtract_product(-(transpose(p) @ low), transpose(p), high)
    turn_left, cosines[-count:], turn_right = np.linalg.svd(transpose(left[:, -count:]) @ block)
    left[:, -count:] = left[:, -count:] @ turn_left
    right[-count:] = turn_right @ right[-count:]
