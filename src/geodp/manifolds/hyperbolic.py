"""Hyperbolic space on the hyperboloid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from geodp.inputs import EPSILON, Array, whole_number
from geodp.manifolds.functions import sinhc
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots

if TYPE_CHECKING:
    from flint import arb


@register
@final
@dataclass(frozen=True, repr=False)
class Hyperbolic(Manifold):
    r"""Hyperbolic space of dimension ``d`` and curvature -1, as a sheet of the hyperboloid in ``R^(1,d)``.

    Points ``(t, x)`` have ``t = sqrt(1 + |x|^2)``: the time coordinate comes first and follows from the others.
    Tangent vectors ``(a, u)`` at ``(t, x)`` have ``a t = x.u``; the metric is the Minkowski product ``u.u - a a``.
    Geodesics through the origin ``(1, 0)`` are ``(cosh s, sinh s e)`` and have unit speed.

    >>> Hyperbolic(2).dist([1.0, 0.0, 0.0], [2**0.5, 1.0, 0.0])
    0.881373587019543
    """

    d: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", whole_number(self.d, 1, "the dimension of Hyperbolic"))

    @cached_property
    def roots(self) -> Roots:
        return Roots.of([[1]], [self.d - 1], sign=-1)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d + 1,)

    @property
    def origin(self) -> Array:
        return _with_time(np.zeros(self.d))

    @property
    def layouts(self) -> tuple[Layout, ...]:
        return (
            Layout("hyperboloid", self.d + 1, "the time coordinate, then the others", size="d+1"),
            Layout("spatial", self.d, "all but the time coordinate", _with_time, size="d", write=lambda x: x[..., 1:]),
        )

    def raw_exp(self, p: Array, v: Array) -> Array:
        x, u = p[..., 1:], v[..., 1:]
        along, across = _split(x, u)
        along = along / _time(x)
        length = np.hypot(along, np.linalg.vector_norm(across, axis=-1))
        time, factor = np.cosh(length), sinhc(length)
        inwards = _boosted_inwards(x, factor * along, factor[..., None] * across, time)
        outwards = time[..., None] * x + factor[..., None] * u
        return _with_time(np.where((along < 0.0)[..., None], inwards, outwards))

    def raw_log(self, p: Array, q: Array) -> Array:
        x, y = p[..., 1:], q[..., 1:]
        length = self.raw_dist(p, q)[..., None]
        # q - cosh(length) p, without subtracting cosh(length) - 1 from 1
        space = (y - x - 2.0 * np.sinh(0.5 * length) ** 2 * x) / sinhc(length)
        return _tangent_with_time(x, space)

    def raw_dist(self, p: Array, q: Array) -> Array:
        # In polar coordinates sinh^2(dist/2) = sinh^2((a-b)/2) + sinh a sinh b sin^2(gamma/2): two terms that cannot cancel.
        x, y = p[..., 1:], q[..., 1:]
        sinh_a, sinh_b = np.linalg.vector_norm(x, axis=-1), np.linalg.vector_norm(y, axis=-1)
        apart = y - x
        both = sinh_a * np.sqrt(1.0 + sinh_b**2) + sinh_b * np.sqrt(1.0 + sinh_a**2)  # sinh(a + b)
        radial = np.arcsinh(_quotient(np.vecdot(apart, x + y), both))
        unit_x, unit_y = _quotient(x, sinh_a[..., None]), _quotient(y, sinh_b[..., None])
        middle = unit_x + unit_y
        middle = _quotient(middle, np.linalg.vector_norm(middle, axis=-1, keepdims=True))
        across = apart - np.vecdot(apart, middle)[..., None] * middle
        half_sine = np.where(
            np.vecdot(unit_x, unit_y) < 0.0,
            0.5 * np.linalg.vector_norm(unit_x - unit_y, axis=-1),
            _quotient(np.linalg.vector_norm(across, axis=-1), sinh_a + sinh_b),
        )
        return 2.0 * np.arcsinh(np.hypot(np.sinh(0.5 * radial), np.sqrt(sinh_a * sinh_b) * half_sine))

    def raw_inner(self, p: Array, u: Array, v: Array) -> Array:
        u_along, u_across = _split(p[..., 1:], u[..., 1:])
        v_along, v_across = _split(p[..., 1:], v[..., 1:])
        return np.vecdot(u_across, v_across) + u_along * v_along / (1.0 + np.vecdot(p[..., 1:], p[..., 1:]))

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        x = p[..., 1:]
        return _tangent_with_time(x, coordinates + x * (np.vecdot(x, coordinates) / (1.0 + _time(x)))[..., None])

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        x = p[..., 1:]
        along, across = _split(x, v[..., 1:])
        unit = _quotient(x, np.linalg.vector_norm(x, axis=-1, keepdims=True))
        return across + unit * (along / _time(x))[..., None]

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        boost, y = p[..., 1:], x[..., 1:]
        time = _time(y)
        along, across = _split(boost, y)
        outwards = y + boost * (time + np.vecdot(boost, y) / (1.0 + _time(boost)))[..., None]
        return _with_time(np.where((along < 0.0)[..., None], _boosted_inwards(boost, along, across, time), outwards))

    def raw_project(self, x: Array) -> Array:
        return _with_time(x[..., 1:])

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return _tangent_with_time(p[..., 1:], v[..., 1:])

    def log_rounding(self, p: Array, reach: float) -> float:
        # coordinates grow like the exponential of the distance from the origin, and so does the unit in their last place
        size = float(np.linalg.vector_norm(p[..., 1:]))
        return 4.0 * (self.d + 8) * EPSILON * (1.0 + reach) * (size + math.hypot(1.0, size))

    def log_rounding_in_ball(self, center: Array, radius: float) -> float:
        # beyond 300 the bound exceeds every radius, and the exponential does not yet overflow
        return math.exp(min(radius, 300.0)) * self.log_rounding(center, 2.0 * radius)

    def requirements(self, x: Array) -> Iterator[Requirement]:
        time = _time(x[..., 1:])
        off = x[..., 0] - time
        yield Requirement(np.abs(off) <= TOLERANCE * time, off, "the first entry must be sqrt(1 + |rest|^2) but is off by {:.3g}")

    # ------------------------------------------------------------------ chart: the spatial coordinates
    # The chart does not shorten distances, so rounding moves the point by no more. But the coordinates grow like the exponential
    # of the distance, and so does the work, also on the hyperbolic line, where the Laplace law exists at every scale.

    @property
    def chart_limit(self) -> float:
        return 100.0

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        from geodp.arithmetic.intervals import dot, enclosed_vector, norm

        length = norm(v)
        sinh, time = length.sinh_cosh()
        x = [sinh / length * entry for entry in v]
        boost = enclosed_vector(center[1:])
        shift = time + dot(boost, x) / (1 + (1 + dot(boost, boost)).sqrt())
        return [entry + shift * b for entry, b in zip(x, boost, strict=True)]

    def from_chart(self, x: Array) -> Array:
        # beyond 2^500, a distance of 347 from the origin, the time coordinate would overflow: shorten, keep the direction
        largest = float(np.abs(x).max())
        x = x * (2.0**500 / largest) if largest > 2.0**500 else x
        return self.raw_project(np.concatenate([[0.0], x]))


def _time(space: Array) -> Array:
    return np.sqrt(1.0 + np.vecdot(space, space))


def _with_time(space: Array) -> Array:
    return np.concatenate([_time(space)[..., None], space], axis=-1)


def _tangent_with_time(x: Array, space: Array) -> Array:
    time = np.vecdot(x, space) / _time(x)
    return np.concatenate([time[..., None], space + np.zeros_like(x)], axis=-1)


def _boosted_inwards(x: Array, s: Array, y: Array, time: Array) -> Array:
    """The boost that takes the origin to ``x``, at the point with time ``time``, ``s < 0`` along ``x`` and ``y`` across.

    The image has ``sinh a time + cosh a s`` along ``x``, two terms that cancel. The same number without cancellation is
    ``(sinh^2 a (1 + |y|^2) - s^2) / (sinh a time - cosh a s)``: it keeps the digits that the distance from ``x`` needs.
    """
    sinh_a = np.linalg.vector_norm(x, axis=-1)
    far = sinh_a * np.hypot(1.0, np.linalg.vector_norm(y, axis=-1))
    along = (far + s) * _quotient(far - s, sinh_a * time - _time(x) * s)
    return along[..., None] * _quotient(x, sinh_a[..., None]) + y


def _quotient(numerator: Array, denominator: Array) -> Array:
    """``numerator / denominator``, and 0 where the denominator is 0."""
    return np.where(denominator == 0.0, 0.0, numerator / np.where(denominator == 0.0, 1.0, denominator))


def _split(x: Array, u: Array) -> tuple[Array, Array]:
    """The component of ``u`` along ``x``, and the rest; if ``x`` is 0, the rest is all of ``u``."""
    unit = _quotient(x, np.linalg.vector_norm(x, axis=-1, keepdims=True))
    along = np.vecdot(unit, u)
    across = u - along[..., None] * unit
    # twice: far from the origin the part along x is so long that its rounding error is not small compared with the rest
    return along, across - np.vecdot(unit, across)[..., None] * unit
