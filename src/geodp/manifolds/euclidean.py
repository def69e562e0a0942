"""Flat space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.manifold import HadamardManifold, Requirement, VolumeBound


class FlatManifold(HadamardManifold):
    """What every manifold isometric to a Euclidean space has in common."""

    @property
    def lowest_curvature(self) -> float:
        return 0.0

    @property
    def rank(self) -> int:
        return self.dim

    @property
    def volume_bound(self) -> VolumeBound:
        return VolumeBound(0, 0.0, 0)

    @property
    def volume_entropy(self) -> float:
        return 0.0

    def raw_log_volume_density(self, p: Array, v: Array) -> Array:
        return np.zeros_like(self.raw_norm(p, v))


@final
@dataclass(frozen=True, repr=False)
class Euclidean(FlatManifold):
    """The vector space ``R^d`` with the ordinary inner product.

    Points and tangent vectors are arrays of shape ``(d,)``; lengths are Euclidean lengths.

    >>> Euclidean(2).dist([0.0, 0.0], [3.0, 4.0])
    5.0
    """

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", whole_number(self.d, 1, "the dimension of Euclidean"))

    @property
    def dim(self) -> int:
        return self.d

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d,)

    @property
    def origin(self) -> Array:
        return np.zeros(self.d)

    def raw_exp(self, p: Array, v: Array) -> Array:
        return p + v

    def raw_log(self, p: Array, q: Array) -> Array:
        return q - p

    def raw_dist(self, p: Array, q: Array) -> Array:
        return np.linalg.vector_norm(q - p, axis=-1)

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return np.vecdot(u, v) + np.zeros(p.shape[:-1])

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        return coordinates + np.zeros_like(p)

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return v + np.zeros_like(p)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return p + x

    def raw_project(self, x: Array) -> Array:
        return x

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return v + np.zeros_like(p)

    def log_rounding(self, p: Array, reach: float) -> float:
        return 4.0 * EPSILON * (float(np.linalg.vector_norm(p)) + reach)

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        return self.log_rounding(center, 3.0 * radius)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        return iter(())
