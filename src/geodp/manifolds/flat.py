"""Manifolds that one chart maps onto a Euclidean space without changing distances."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import EPSILON, Array
from geodp.manifolds.manifold import Manifold, Requirement

if TYPE_CHECKING:
    from flint import arb

#: The last entry of an array that holds coordinates in place of a point. No point has entries of this size.
_KEPT = 2.0**1000
#: Logarithms of floats are far below this.
_FARTHEST = 1e6


class FlatChart(Manifold):
    """A manifold with a chart: an isometry onto ``R^dim``. It inherits everything else from Euclidean space.

    Write ``roots`` (``Roots.flat(dim)``), ``point_shape``, ``requirements``, :meth:`raw_chart` and :meth:`raw_inverse`.

    *Rounding.* A record stands for the point with the coordinates that floats compute for it. These are a function of the record
    alone, so clipping, sensitivity and noise do not depend on how accurate they are; :meth:`reading_rounding` bounds their error.
    Only a private mean must survive being stored. Where an array of floats determines its coordinates up to :meth:`log_rounding`,
    nothing needs to be done. Where it does not (the logarithm of a nearly singular matrix), set :attr:`keeps_coordinates`: then
    an array holds the coordinates themselves until noise is added.

    *Exact noise* is that of ``R^dim`` about the computed coordinates of the centre; :meth:`raw_inverse` is applied afterwards.
    """

    @abstractmethod
    def raw_chart(self, x: Array) -> Array:
        """The coordinates of points, ``(..., dim)``; the origin has coordinates 0. May be anything for other arrays."""

    @abstractmethod
    def raw_inverse(self, coordinates: Array) -> Array:
        """The points with these coordinates, for coordinates of moderate size."""

    def reading_rounding(self, x: Array) -> float:
        """Override it if :meth:`raw_chart` may lose more than the last digits."""
        return 4.0 * EPSILON * (math.sqrt(self.dim) + float(np.linalg.vector_norm(self.raw_position(x))))

    @property
    def keeps_coordinates(self) -> bool:
        """Whether private values are kept as coordinates. Needs more entries in a point than dimensions."""
        return False

    def exact_coordinates(self, x: Array) -> list[arb]:
        """The chart of the point that floats define, in intervals; only checks use it.

        By default it is :meth:`raw_chart` applied to real numbers, which works if that consists of arithmetic and functions like
        ``np.log``. Override it if that uses linear algebra.
        """
        from flint import arb

        numbers = np.array([arb(float(entry)) for entry in x.ravel()], dtype=object).reshape(x.shape)
        return list(self.raw_chart(numbers))

    # ------------------------------------------------------------------ what follows

    @property
    def origin(self) -> Array:
        return self.raw_inverse(np.zeros(self.dim))

    def raw_position(self, x: Array) -> Array:
        """The coordinates of points, also of those that are kept as coordinates."""
        kept = self.is_kept(x)
        if not kept.any():
            return self.raw_chart(x)
        coordinates = self._flat(x)[..., : self.dim]
        if kept.all():
            return coordinates
        return np.where(kept[..., None], coordinates, self.raw_chart(self._where(kept, self.origin, x)))

    def raw_reading(self, x: Array) -> Array:
        """The coordinates of records of any values, not finite for those that are not points."""
        valid = self.valid(x)
        return np.where(valid[..., None], self.raw_position(self._where(valid, x, self.origin)), np.nan)

    def raw_keep(self, coordinates: Array) -> Array:
        """The points with these coordinates, as private values are kept."""
        if not self.keeps_coordinates:
            return self.raw_inverse(coordinates)
        kept = self._filled(coordinates)
        self._flat(kept)[..., -1] = _KEPT
        return kept

    def is_kept(self, x: Array) -> NDArray[np.bool_]:
        """Which arrays hold coordinates in place of a point."""
        return np.asarray((self._flat(x)[..., -1] == _KEPT) & self.keeps_coordinates)

    def raw_readable(self, points: Array) -> Array:
        kept = self.is_kept(points)
        return self._where(kept, self.raw_inverse(self.raw_position(points)), points) if kept.any() else points

    def raw_difference(self, p: Array, q: Array) -> Array:
        """The coordinates of ``q`` minus those of ``p``."""
        return self.raw_position(q) - self.raw_position(p)

    def raw_exp(self, p: Array, v: Array) -> Array:
        return self.raw_inverse(self.raw_position(p) + self.raw_coordinates(p, v))

    def raw_kept_exp(self, p: Array, v: Array) -> Array:
        return self.raw_keep(self.raw_position(p) + self.raw_coordinates(p, v))

    def raw_log(self, p: Array, q: Array) -> Array:
        return self.raw_tangent(p, self.raw_difference(p, q))

    def raw_dist(self, p: Array, q: Array) -> Array:
        return np.linalg.vector_norm(self.raw_difference(p, q), axis=-1)

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return np.vecdot(self.raw_coordinates(p, u), self.raw_coordinates(p, v))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        """By default a tangent vector is an array of its coordinates, filled up with zeros."""
        return self._filled(coordinates) + np.zeros_like(p)

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return self._flat(v)[..., : self.dim] + np.zeros((*self.batch_shape(p, v), 1))

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return self.raw_inverse(self.raw_position(p) + self.raw_position(x))

    def raw_project(self, x: Array) -> Array:
        return x

    def log_rounding(self, p: Array, reach: float) -> float:
        """Right if coordinates are kept, or if the chart of a point in floats is as accurate as its coordinates."""
        return 8.0 * EPSILON * (math.sqrt(self.dim) + float(np.linalg.vector_norm(self.raw_position(p))) + reach)

    def all_requirements(self, x: Array) -> Iterator[Requirement]:
        kept = self.is_kept(x)
        return super().all_requirements(self._where(kept, self.origin, x))

    def _flat(self, x: Array) -> Array:
        """Points with their entries in one axis."""
        return x.reshape(*x.shape[: x.ndim - len(self.point_shape)], math.prod(self.point_shape))

    def _filled(self, coordinates: Array) -> Array:
        """Arrays of the shape of points whose first entries are these, and the others 0."""
        spare = math.prod(self.point_shape) - self.dim
        flat = np.concatenate([coordinates, np.zeros((*coordinates.shape[:-1], spare))], axis=-1)
        return flat.reshape(*coordinates.shape[:-1], *self.point_shape)

    def _where(self, flags: NDArray[np.bool_], x: Array, y: Array) -> Array:
        """The points ``x`` where the flag is set, else ``y``."""
        return np.where(flags.reshape(*flags.shape, *(1,) * len(self.point_shape)), x, y)

    @property
    def chart_units(self) -> tuple[int | None, ...]:
        return (None,)

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from geodp.arithmetic.intervals import enclosed_vector

        with np.errstate(all="ignore"):
            # eigen-decompositions branch where eigenvalues coincide: with the origin in the array, they take all branches
            coordinates = self.raw_position(np.stack([center, self.origin]))[0]
        # a draw must not fail because of its centre, even if that has no finite coordinates in floats
        finite = np.nan_to_num(coordinates, posinf=_FARTHEST, neginf=-_FARTHEST)
        return [c + x for c, x in zip(enclosed_vector(finite), v, strict=True)]

    def from_chart(self, x: Array) -> Array:
        coordinates = x
        while True:
            with np.errstate(all="ignore"):
                point = self.raw_inverse(coordinates)
            if self.valid(point):
                return point
            # so far out that floats cannot hold the point
            coordinates = 0.75 * np.clip(coordinates, -_FARTHEST, _FARTHEST)
