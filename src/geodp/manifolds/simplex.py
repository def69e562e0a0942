"""Compositions: shares of a whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from geodp.inputs import EPSILON, Array, real_number, whole_number
from geodp.manifolds.embedding import INSIDE, ConvexSet
from geodp.manifolds.flat import FlatChart
from geodp.manifolds.functions import row_by_row
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import TOLERANCE, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.units import LengthUnit, share_ratio


@register
@final
@dataclass(frozen=True, repr=False)
class Simplex(FlatChart):
    r"""Shares of ``parts`` parts that add up to 1, with Aitchison's geometry: only ratios of shares count.

    The chart is ``log x - mean(log x)``, and ``dist`` the Euclidean norm of its differences. The Fréchet mean has the geometric
    means of the shares, closed to 1. Tangent vectors are changes of the chart, which add up to 0. The origin has equal shares.

    A share of zero has no logarithm. With a public ``floor`` every share ``x`` counts as ``x + floor``, released ones too. Then
    records with zeros are points, and so are compositions with shares above ``-floor``. A mean with noise may be such a
    composition.

    >>> round(Simplex(2).dist([0.5, 0.5], [0.8, 0.2]), 6)  # log(4)/sqrt(2)
    0.980258
    >>> Simplex(3, floor=0.01).check_point([0.25, 0.75, 0.0])
    """

    parts: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", whole_number(self.parts, 2, "the number of parts of Simplex"))
        floor = real_number(self.floor, "the floor of Simplex")
        if not 0.0 <= floor <= 1.0:
            raise ValueError(f"the floor of Simplex must be between 0 and 1 but is {self.floor}")
        object.__setattr__(self, "floor", floor)

    @cached_property
    def roots(self) -> Roots:
        return Roots.flat(self.parts - 1)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.parts,)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        def closed(cells: Array) -> Array:
            # divided by the largest part first, so that no sum overflows
            parts = np.where((cells < 0.0).any(axis=-1, keepdims=True), np.nan, cells) / cells.max(axis=-1, keepdims=True)
            return parts / parts.sum(axis=-1, keepdims=True)

        return (
            Layout("shares", self.parts, "shares that add up to 1", size="parts"),
            Layout("percents", self.parts, "shares that add up to 100", lambda x: 0.01 * x, False, size="parts",
                   write=lambda x: 100.0 * x),
            Layout("counts", self.parts, "amounts of the parts", closed, False, size="parts",
                   details="amounts of the parts, none negative: their shares of the whole"),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        return () if self.floor else (share_ratio(),)

    @cached_property
    def _basis(self) -> Array:
        """Orthonormal rows that add up to 0: each compares one part with those before it (Helmert)."""
        rows = np.tril(np.ones((self.dim, self.parts)))
        index = np.arange(1, self.parts)
        rows[range(self.dim), index] = -index
        return rows / np.sqrt(index * (index + 1.0))[:, None]

    def requirements(self, x: Array) -> Iterator[Requirement]:
        total, least = x.sum(axis=-1), x.min(axis=-1)
        yield Requirement(np.abs(total - 1.0) <= TOLERANCE, total, "the shares must add up to 1 but add up to {:.12g}")
        hint = "" if self.floor else ": Simplex(parts, floor=0.001) takes zeros"
        yield Requirement(
            least + self.floor > 0.0, least, f"every share must be above {-self.floor or 0:g} but one is {{:.6g}}{hint}"
        )

    def convex_set(self, bound: float = math.inf) -> ConvexSet:
        """Shares from 0 to 1, in the Euclidean norm. With a floor, negative shares count as 0.

        *Diameter.* ``|p - q|^2 = |p|^2 + |q|^2 - 2 p.q <= 2``, reached by two corners.
        """

        def inside(x: Array) -> Array:
            return x + INSIDE * (1.0 / self.parts - x)

        def write(x: Array) -> Array:
            return row_by_row(self.raw_project(np.maximum(x, 0.0)), self._basis.T)

        def nearest(vector: Array) -> Array:
            # all shares less one number, those below it 0 (Held, Wolfe and Crowder 1974)
            parts = vector @ self._basis + 1.0 / self.parts
            down = np.sort(parts)[::-1]
            excess = (np.cumsum(down) - 1.0) / np.arange(1, self.parts + 1)
            return self.raw_project(np.maximum(parts - excess[np.flatnonzero(down > excess)[-1]], 0.0))

        return ConvexSet(self.dim, math.sqrt(2.0), inside, write, nearest, "Euclidean norm")

    def raw_project(self, x: Array) -> Array:
        return x / x.sum(axis=-1, keepdims=True)

    def raw_chart(self, x: Array) -> Array:
        return row_by_row(np.log(x + self.floor), self._basis.T)

    def raw_inverse(self, coordinates: Array) -> Array:
        logs = row_by_row(coordinates, self._basis)
        parts = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return parts * ((1.0 + self.parts * self.floor) / parts.sum(axis=-1, keepdims=True)) - self.floor

    def raw_difference(self, p: Array, q: Array) -> Array:
        if self.keeps_coordinates:
            return super().raw_difference(p, q)
        change = (q - p) / p  # the difference of close logarithms would lose digits
        return row_by_row(np.where(np.abs(change) < 0.5, np.log1p(change), np.log(q) - np.log(p)), self._basis.T)

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        return row_by_row(coordinates, self._basis) + np.zeros_like(p)

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return row_by_row(v + np.zeros_like(p), self._basis.T)

    @property
    def keeps_coordinates(self) -> bool:
        return self.floor > 0.0  # a share next to minus the floor loses digits when it is stored

    def log_rounding(self, p: Array, reach: float) -> float:
        return self.parts * super().log_rounding(p, reach)  # sums of so many logarithms

    def reading_rounding(self, x: Array) -> float:
        lost = self.floor / (self.raw_readable(x) + self.floor)
        return 4.0 * EPSILON * self.parts * float(np.linalg.vector_norm(lost))
