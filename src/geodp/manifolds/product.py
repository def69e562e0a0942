"""Products of manifolds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geodp.inputs import Array
from geodp.manifolds.manifold import Manifold, Requirement, VolumeBound


@final
@dataclass(frozen=True, repr=False, init=False)
class Product(Manifold):
    r"""The product of manifolds: one point of each, with squared distances added up.

    A point is one flat array, the factors' points laid end to end: :meth:`join` makes it and :meth:`split` takes it
    apart. The metric is the sum of the factors' metrics.

    >>> from geodp import Euclidean, Sphere
    >>> pose = Product(Sphere(2), Euclidean(3))
    >>> start, end = pose.join([0.0, 0.0, 1.0], [0.0, 0.0, 0.0]), pose.join([0.0, 0.0, 1.0], [0.0, 3.0, 4.0])
    >>> pose.dist(start, end)
    5.0
    """

    factors: tuple[Manifold, ...]

    def __init__(self, *factors: Manifold) -> None:
        for factor in factors:
            if not isinstance(factor, Manifold):
                raise TypeError(f"the factors of a Product must be manifolds but one is {factor!r}")
        if not factors:
            raise ValueError("a Product must have at least one factor")
        object.__setattr__(self, "factors", factors)

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.factors))})"

    def join(self, *points: ArrayLike) -> Array:
        """One array from a point of each factor; leading axes broadcast."""
        if len(points) != len(self.factors):
            raise ValueError(f"{self} has {len(self.factors)} factors but was given {len(points)} points")
        return self._join(
            [factor.read_points(point, f"point {i}") for i, (factor, point) in enumerate(zip(self.factors, points, strict=True))]
        )

    def split(self, x: ArrayLike) -> tuple[Array, ...]:
        """The factors' points."""
        return tuple(self.raw_split(self.read_points(x, "x")))

    def _join(self, parts: list[Array]) -> Array:
        leading = [part.shape[: part.ndim - len(factor.point_shape)] for factor, part in zip(self.factors, parts, strict=True)]
        shape = np.broadcast_shapes(*leading)
        flat = []
        for factor, part in zip(self.factors, parts, strict=True):
            flat.append(np.broadcast_to(part, shape + factor.point_shape).reshape(*shape, math.prod(factor.point_shape)))
        return np.concatenate(flat, axis=-1)

    def raw_split(self, x: Array) -> list[Array]:
        sizes = [math.prod(factor.point_shape) for factor in self.factors]
        parts = np.split(x, np.cumsum(sizes)[:-1], axis=-1)
        return [part.reshape(*x.shape[:-1], *factor.point_shape) for factor, part in zip(self.factors, parts, strict=True)]

    @property
    def dim(self) -> int:
        return sum(factor.dim for factor in self.factors)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (sum(math.prod(factor.point_shape) for factor in self.factors),)

    @property
    def origin(self) -> Array:
        return self._join([factor.origin for factor in self.factors])

    @property
    def curvature(self) -> float:
        return max(factor.curvature for factor in self.factors)

    @property
    def lowest_curvature(self) -> float:
        return min(factor.lowest_curvature for factor in self.factors)

    @property
    def injectivity_radius(self) -> float:
        return min(factor.injectivity_radius for factor in self.factors)

    @property
    def diameter(self) -> float:
        return math.hypot(*(factor.diameter for factor in self.factors))

    @property
    def rank(self) -> int:
        return sum(factor.rank for factor in self.factors)

    @property
    def volume_bound(self) -> VolumeBound:
        """Jensen's inequality over all roots at once.

        With a non-compact factor the compact ones are bounded by 1 and the largest Einstein constant serves for all;
        otherwise the smallest one does, which is 0 if a factor is flat.
        """
        bounds = [factor.volume_bound for factor in self.factors]
        growing = [bound for bound in bounds if bound.sign < 0]
        einstein = [bound.power * bound.rate**2 for bound in (growing or bounds)]
        power = sum(bound.power for bound in (growing or bounds))
        return VolumeBound.from_roots(power, max(einstein), -1) if growing else VolumeBound.from_roots(power, min(einstein), 1)

    @property
    def volume_entropy(self) -> float:
        return math.hypot(*(factor.volume_entropy for factor in self.factors))

    @property
    def scale_directions(self) -> Array:
        ends = np.cumsum([factor.dim for factor in self.factors])
        rows = [
            np.pad(factor.scale_directions, ((0, 0), (end - factor.dim, self.dim - end)))
            for factor, end in zip(self.factors, ends, strict=True)
        ]
        return np.concatenate(rows)

    @property
    def cut_locus(self) -> str:
        parts = [f"{factor}: {factor.cut_locus}" for factor in self.factors if math.isfinite(factor.injectivity_radius)]
        return "; ".join(parts) or "empty"

    def _each(self, name: str, *arrays: Array) -> list[Array]:
        """The factors' own ``name``, applied to their parts of points and tangent vectors."""
        parts = zip(*map(self.raw_split, arrays), strict=True)
        return [getattr(factor, name)(*args) for factor, args in zip(self.factors, parts, strict=True)]

    def raw_exp(self, p: Array, v: Array) -> Array:
        return self._join(self._each("raw_exp", p, v))

    def raw_log(self, p: Array, q: Array) -> Array:
        return self._join(self._each("raw_log", p, q))

    def raw_dist(self, p: Array, q: Array) -> Array:
        return np.linalg.vector_norm(np.stack(self._each("raw_dist", p, q)), axis=0)

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return np.sum(self._each("raw_inner", p, u, v), axis=0)

    def raw_norm(self, p: Array, v: Array) -> Array:
        return np.linalg.vector_norm(np.stack(self._each("raw_norm", p, v)), axis=0)

    def raw_log_volume_density(self, p: Array, v: Array) -> Array:
        return np.sum(self._each("raw_log_volume_density", p, v), axis=0)

    def raw_inside_cut_locus(self, p: Array, v: Array) -> NDArray[np.bool_]:
        return np.logical_and.reduce(self._each("raw_inside_cut_locus", p, v))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        ends = np.cumsum([factor.dim for factor in self.factors])[:-1]
        parts = zip(self.factors, self.raw_split(p), np.split(coordinates, ends, axis=-1), strict=True)
        return self._join([factor.raw_tangent(*args) for factor, *args in parts])

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return np.concatenate(self._each("raw_coordinates", p, v), axis=-1)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return self._join(self._each("raw_move_origin", p, x))

    def raw_project(self, x: Array) -> Array:
        return self._join(self._each("raw_project", x))

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return self._join(self._each("raw_project_tangent", p, v))

    def log_rounding(self, p: Array, reach: float) -> float:
        return math.hypot(*(f.log_rounding(part, reach) for f, part in zip(self.factors, self.raw_split(p), strict=True)))

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        parts = zip(self.factors, self.raw_split(center), strict=True)
        return math.hypot(*(factor.log_rounding_in_ball(part, radius) for factor, part in parts))

    def requirements(self, x: Array) -> Iterator[Requirement]:
        for i, (factor, part) in enumerate(zip(self.factors, self.raw_split(x), strict=True)):
            for met, found, sentence in factor.requirements(part):
                yield Requirement(met, found, f"factor {i}, {factor}: {sentence}")
