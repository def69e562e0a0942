"""Flat space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots

if TYPE_CHECKING:
    from flint import arb


@register
@final
@dataclass(frozen=True, repr=False)
class Euclidean(Manifold):
    """The vector space ``R^d`` with the ordinary inner product.

    Points and tangent vectors are arrays of shape ``(d,)``; lengths are Euclidean lengths.

    >>> Euclidean(2).dist([0.0, 0.0], [3.0, 4.0])
    5.0
    """

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", whole_number(self.d, 1, "the dimension of Euclidean"))

    @cached_property
    def roots(self) -> Roots:
        return Roots.flat(self.d)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d,)

    @property
    def origin(self) -> Array:
        return np.zeros(self.d)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (Layout("coordinates", self.d, "the coordinates", size="d"),)

    def raw_exp(self, p: Array, v: Array) -> Array:
        return p + v

    def raw_log(self, p: Array, q: Array) -> Array:
        return q - p

    def raw_dist(self, p: Array, q: Array) -> Array:
        return np.linalg.vector_norm(q - p, axis=-1)

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        return coordinates + np.zeros_like(p)

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return v + np.zeros_like(p)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return p + x

    def raw_project(self, x: Array) -> Array:
        return x

    def log_rounding(self, p: Array, reach: float) -> float:
        return 4.0 * EPSILON * (float(np.linalg.vector_norm(p)) + reach)

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        return self.log_rounding(center, 3.0 * radius)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        return iter(())

    @property
    def chart_units(self) -> tuple[int | None, ...]:
        return (None,)

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from geodp.arithmetic.intervals import enclosed_vector

        return [c + x for c, x in zip(enclosed_vector(center), v, strict=True)]

    def from_chart(self, x: Array) -> Array:
        return x
