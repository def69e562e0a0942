"""Products of manifolds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array
from geodp.manifolds.embedding import Embedding
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.units import LengthUnit

if TYPE_CHECKING:
    from flint import arb


@register
@dataclass(frozen=True, repr=False, init=False)
class Product(Manifold):
    r"""The product of manifolds: one point of each, with squared distances added up.

    A point is one flat array, the factors' points end to end: :meth:`join` makes it and :meth:`split` splits it.
    The metric is the sum of the factors' metrics.

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
        return self.raw_join(
            [factor.read_points(point, f"point {i}") for i, (factor, point) in enumerate(zip(self.factors, points, strict=True))]
        )

    def split(self, x: ArrayLike) -> tuple[Array, ...]:
        """The factors' points."""
        return tuple(self.raw_split(self.read_points(x, "x")))

    def raw_join(self, parts: list[Array]) -> Array:
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
    def components(self) -> tuple[Manifold, ...]:
        return self.factors

    @cached_property
    def roots(self) -> Roots:
        return Roots.direct_sum([factor.roots for factor in self.factors])

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (sum(math.prod(factor.point_shape) for factor in self.factors),)

    @property
    def origin(self) -> Array:
        return self.raw_join([factor.origin for factor in self.factors])

    @property
    def layouts(self) -> tuple[Layout, ...]:
        first = [factor.layouts[0] for factor in self.factors]
        ends = np.cumsum([layout.columns for layout in first]).tolist()

        def convert(cells: Array) -> Array:
            parts = zip(first, np.split(cells, ends[:-1], axis=-1), strict=True)
            points = [layout.convert(part) if layout.convert else part for layout, part in parts]
            return np.concatenate([point.reshape(len(cells), -1) for point in points], axis=-1)

        own = convert if any(layout.convert for layout in first) else None
        return (
            Layout("factors", ends[-1], "those of the factors, end to end", own, size="all theirs",
                   details="the first layout of each factor, end to end"),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        # the distance in a factor is at most that in the product
        return tuple(
            LengthUnit(f"factor_{i}_{unit.name}", unit.convert, partial(_of_factor, unit, i))
            for i, factor in enumerate(self.factors, start=1)
            for unit in factor.units
        )

    @property
    def embedding(self) -> Embedding | None:
        """The embeddings of the factors, end to end."""
        known = [part for part in (factor.embedding for factor in self.factors) if part is not None]
        if len(known) < len(self.factors):
            return None
        ends = np.cumsum([part.dim for part in known]).tolist()

        def parts(vector: Array) -> list[tuple[Embedding, Array]]:
            return list(zip(known, np.split(vector, ends[:-1]), strict=True))

        def write(points: Array) -> Array:
            return np.concatenate([e.write(x) for e, x in zip(known, self.raw_split(points), strict=True)], axis=-1)

        return Embedding(
            ends[-1],
            math.hypot(*(part.diameter for part in known)),
            write,
            lambda vector: self.raw_join([part.nearest(x) for part, x in parts(vector)]),
            # the squares of the turns are convex in the squares of the factors' shares of q, so in the worst case one takes all
            lambda vector, q: max(part.turn(x, q) for part, x in parts(vector)),
        )

    @property
    def plane_of_largest_curvature(self) -> Array:
        chosen = max(range(len(self.factors)), key=lambda i: self.factors[i].curvature)
        start = sum(factor.dim for factor in self.factors[:chosen])
        inner = self.factors[chosen].plane_of_largest_curvature
        return np.pad(inner, ((0, 0), (start, self.dim - start - inner.shape[1])))

    @property
    def scale_directions(self) -> Array:
        ends = np.cumsum([factor.dim for factor in self.factors])
        rows = [
            np.pad(factor.scale_directions, ((0, 0), (end - factor.dim, self.dim - end)))
            for factor, end in zip(self.factors, ends, strict=True)
        ]
        return np.concatenate(rows)

    def _each(self, name: str, *arrays: Array) -> list[Array]:
        """The factors' own ``name``, applied to their parts of points and tangent vectors."""
        parts = zip(*map(self.raw_split, arrays), strict=True)
        return [getattr(factor, name)(*args) for factor, args in zip(self.factors, parts, strict=True)]

    def raw_exp(self, p: Array, v: Array) -> Array:
        return self.raw_join(self._each("raw_exp", p, v))

    def raw_kept_exp(self, p: Array, v: Array) -> Array:
        return self.raw_join(self._each("raw_kept_exp", p, v))

    def raw_readable(self, points: Array) -> Array:
        return self.raw_join(self._each("raw_readable", points))

    def raw_log(self, p: Array, q: Array) -> Array:
        return self.raw_join(self._each("raw_log", p, q))

    def raw_dist(self, p: Array, q: Array) -> Array:
        return np.linalg.vector_norm(np.stack(self._each("raw_dist", p, q)), axis=0)

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        return np.sum(self._each("raw_inner", p, u, v), axis=0)

    def raw_norm(self, p: Array, v: Array) -> Array:
        return np.linalg.vector_norm(np.stack(self._each("raw_norm", p, v)), axis=0)

    def raw_radial_part(self, p: Array, v: Array) -> Array:
        return np.concatenate(self._each("raw_radial_part", p, v), axis=-1)

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        ends = np.cumsum([factor.dim for factor in self.factors])[:-1]
        parts = zip(self.factors, self.raw_split(p), np.split(coordinates, ends, axis=-1), strict=True)
        return self.raw_join([factor.raw_tangent(*args) for factor, *args in parts])

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return np.concatenate(self._each("raw_coordinates", p, v), axis=-1)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return self.raw_join(self._each("raw_move_origin", p, x))

    def raw_project(self, x: Array) -> Array:
        return self.raw_join(self._each("raw_project", x))

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return self.raw_join(self._each("raw_project_tangent", p, v))

    def log_rounding(self, p: Array, reach: float) -> float:
        return math.hypot(*(f.log_rounding(part, reach) for f, part in zip(self.factors, self.raw_split(p), strict=True)))

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        parts = zip(self.factors, self.raw_split(center), strict=True)
        return math.hypot(*(factor.log_rounding_in_ball(part, radius) for factor, part in parts))

    def reading_rounding(self, x: Array) -> float:
        return math.hypot(*(factor.reading_rounding(part) for factor, part in zip(self.factors, self.raw_split(x), strict=True)))

    def rounding_reach(self, p: Array, v: Array) -> Array:
        return np.max(self._each("rounding_reach", p, v), axis=0)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        for i, (factor, part) in enumerate(zip(self.factors, self.raw_split(x), strict=True)):
            for met, found, sentence in islice(factor.all_requirements(part), 1, None):  # that entries are finite is known
                yield Requirement(met, found, f"factor {i}, {factor}: {sentence}")

    # ------------------------------------------------------------------ chart: those of the factors, end to end
    # Distances add up in squares, so there is one radius and one direction for all factors together.

    @property
    def chart_units(self) -> tuple[int | None, ...]:
        return sum((factor.chart_units for factor in self.factors), ())

    @property
    def chart_limit(self) -> float:
        return min(factor.chart_limit for factor in self.factors)

    def _exact_parts(self, v: list[arb]) -> list[list[arb]]:
        ends = accumulate(factor.dim for factor in self.factors)
        return [v[end - factor.dim : end] for factor, end in zip(self.factors, ends, strict=True)]

    def exact_radial_part(self, v: list[arb]) -> list[arb]:
        return [h for f, part in zip(self.factors, self._exact_parts(v), strict=True) for h in f.exact_radial_part(part)]

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        parts = zip(self.factors, self.raw_split(center), self._exact_parts(v), strict=True)
        return [x for factor, point, part in parts for x in factor.exact_chart(point, part)]

    def raw_representatives(self, points: Array) -> Array:
        parts = zip(self.factors, self.raw_split(points), strict=True)
        return self.raw_join([factor.raw_representatives(part) for factor, part in parts])

    def from_chart(self, x: Array) -> Array:
        ends = np.cumsum([factor.chart_size for factor in self.factors])[:-1]
        return self.raw_join([factor.from_chart(part) for factor, part in zip(self.factors, np.split(x, ends), strict=True)])


def _of_factor(unit: LengthUnit, i: int, number: float) -> str:
    return f"{unit.words(number)} in factor {i}"
