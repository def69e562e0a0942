"""Several angles at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.embedding import Embedding
from geodp.manifolds.functions import sinc
from geodp.manifolds.layout import CLOCK_TIMES, Layout
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.sphere import time_of_day, turns, within_a_day
from geodp.manifolds.units import LengthUnit, degrees, minutes, radians

if TYPE_CHECKING:
    from flint import arb


@register
@final
@dataclass(frozen=True, repr=False)
class Torus(Manifold):
    r"""``d`` angles, such as those of a protein's backbone or of a robot's joints: the flat torus.

    A point is a ``(d, 2)`` array whose rows are the unit vectors ``(sin a, cos a)`` of the angles, as on ``Sphere(1)``. (Angles
    themselves would jump where they wrap around, and a full turn is not a multiple of any grid that noise is rounded to.)
    Tangent vectors are orthogonal to the point row by row, with the Euclidean inner product: the distance between two points is
    the Euclidean norm of the differences of their angles, each at most ``pi``. The origin has all angles 0.

    >>> torus = Torus(2)
    >>> torus.dist(torus.from_angles([3.0, 0.0]), torus.from_angles([-3.0, 0.0]))
    0.28318530717958645
    """

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", whole_number(self.d, 1, "the number of angles of a Torus"))

    @staticmethod
    def from_angles(radians: ArrayLike) -> Array:
        """Points from angles, ``(..., d)``."""
        return np.stack([np.sin(radians), np.cos(radians)], axis=-1)

    @staticmethod
    def angles(x: ArrayLike) -> Array:
        """The angles of points, between ``-pi`` and ``pi``."""
        sine, cosine = np.moveaxis(np.asarray(x, dtype=np.float64), -1, 0)
        return np.asarray(np.arctan2(sine, cosine))

    @cached_property
    def roots(self) -> Roots:
        return Roots.flat(self.d, cut=Fraction(1))

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d, 2)

    @property
    def origin(self) -> Array:
        return self.from_angles(np.zeros(self.d))

    @property
    def embedding(self) -> Embedding:
        def turn(vector: Array, q: float) -> float:
            # the squares of the turns are convex in the squares of the angles' shares of q, so in the worst case one takes all
            length = float(np.linalg.vector_norm(vector.reshape(self.point_shape), axis=-1).min())
            return math.asin(q / length) if q < length else math.inf

        return Embedding(2 * self.d, 2.0 * math.sqrt(self.d), lambda x: x.reshape(*x.shape[:-2], -1), self.from_chart, turn)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (
            Layout("vectors", 2 * self.d, "sine and cosine of each angle", size="2*d"),
            Layout("radians", self.d, "angles in radians", self.from_angles, False, size="d",
                   write=self.angles, units=(radians(),)),
            Layout("degrees", self.d, "angles in degrees", lambda x: self.from_angles(np.deg2rad(x % 360.0)), False, size="d",
                   write=lambda x: np.rad2deg(self.angles(x))),
            Layout("clock", self.d, "times of day such as 13:45", lambda x: self.from_angles(x * (np.pi / 43_200.0)), False,
                   clock=True, size="d", details=CLOCK_TIMES, write=lambda x: 86_400.0 * turns(x)[..., 0], text=time_of_day,
                   units=(minutes(),)),
            Layout("hours", self.d, "hours since midnight, 0 to 24", lambda x: self.from_angles(within_a_day(x) * (np.pi / 12.0)),
                   False, size="d", write=lambda x: 24.0 * turns(x)[..., 0], units=(minutes(),)),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        # the root of the sum of squares bounds the error of every angle
        return (degrees(),)

    def raw_exp(self, p: Array, v: Array) -> Array:
        angle = np.linalg.vector_norm(v, axis=-1, keepdims=True)
        return np.cos(angle) * self.raw_project(p) + sinc(angle) * v

    def raw_log(self, p: Array, q: Array) -> Array:
        angle = self._angle(p, q)
        # halfway round there are two shortest geodesics
        return self.raw_tangent(p, np.where((np.abs(angle) < math.pi - 4e-16).all(axis=-1, keepdims=True), angle, np.nan))

    def raw_dist(self, p: Array, q: Array) -> Array:
        return np.linalg.vector_norm(self._angle(p, q), axis=-1)

    @staticmethod
    def _angle(p: Array, q: Array) -> Array:
        # q and q - p give the same sine, and q - p keeps its digits when the two are close; likewise q + p
        cosine = np.vecdot(p, q)
        return np.arctan2(np.vecdot(_quarter_turn(p), q - np.where(cosine < 0.0, -1.0, 1.0)[..., None] * p), cosine)

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        return coordinates[..., None] * _quarter_turn(self.raw_project(p))

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return np.vecdot(_quarter_turn(self.raw_project(p)), v)

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return x[..., 1:] * p + x[..., :1] * _quarter_turn(p)

    def raw_project(self, x: Array) -> Array:
        return x / np.linalg.vector_norm(x, axis=-1, keepdims=True)

    def log_rounding(self, p: Array, reach: float) -> float:
        return 16.0 * EPSILON * math.sqrt(self.d) if reach < math.pi else math.inf

    def requirements(self, x: Array) -> Iterator[Requirement]:
        norms = np.linalg.vector_norm(x, axis=-1)
        worst = np.take_along_axis(norms, np.abs(norms - 1.0).argmax(axis=-1)[..., None], axis=-1)[..., 0]
        yield Requirement(np.abs(worst - 1.0) <= TOLERANCE, worst, "the norm of every row must be 1 but one is {:.12g}")

    # ------------------------------------------------------------------ chart: the entries

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        """The exact centre consists of the directions of the rows of floats."""
        from geodp.arithmetic.intervals import unit_vector

        chart: list[arb] = []
        for row, angle in zip(center, v, strict=True):
            (x, y), (sine, cosine) = unit_vector(row), angle.sin_cos()
            chart += [cosine * x + sine * y, cosine * y - sine * x]
        return chart

    def from_chart(self, x: Array) -> Array:
        rows = x.reshape(self.point_shape)
        return self.raw_project(np.where(rows.any(axis=-1, keepdims=True), rows, self.origin))


def _quarter_turn(p: Array) -> Array:
    return np.stack([p[..., 1], -p[..., 0]], axis=-1)
