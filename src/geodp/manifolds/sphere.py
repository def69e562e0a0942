"""The geometry of the round sphere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from geodp.inputs import EPSILON, Array, real_number, whole_number
from geodp.manifolds.embedding import Embedding
from geodp.manifolds.functions import angle_over_sine, sinc
from geodp.manifolds.layout import CLOCK_TIMES, Layout
from geodp.manifolds.manifold import TOLERANCE, Manifold, Requirement
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots
from geodp.manifolds.units import LengthUnit, degrees, kilometres, minutes, radians, share_points

if TYPE_CHECKING:
    from flint import arb


@register
@final
@dataclass(frozen=True, repr=False, init=False)
class Sphere(Manifold):
    r"""Sphere of dimension ``d`` and constant curvature ``curvature``, embedded in ``R^(d+1)``.

    Points have norm ``curvature**-0.5``; tangent vectors at ``p`` are orthogonal to ``p``;
    the metric is the ambient inner product, so a full great circle has length ``2*pi/sqrt(curvature)``.
    The origin is the north pole, the last axis. A circle is flat: ``Sphere(1).curvature`` is 0.

    >>> Sphere(2).dist([0.0, 0.0, 1.0], [0.0, 1.0, 0.0])
    1.5707963267948966
    """

    d: int
    constant: float

    def __init__(self, d: int, curvature: float = 1.0) -> None:
        constant = real_number(curvature, "the curvature of a Sphere")
        if not 0.0 < constant < math.inf:
            raise ValueError(f"the curvature of a Sphere must be positive and finite but is {curvature}")
        object.__setattr__(self, "d", whole_number(d, 1, "the dimension of a Sphere"))
        object.__setattr__(self, "constant", constant)

    def __repr__(self) -> str:
        return f"Sphere({self.d})" if self.constant == 1.0 else f"Sphere({self.d}, curvature={self.constant})"

    @property
    def radius(self) -> float:
        return self.constant**-0.5

    @cached_property
    def roots(self) -> Roots:
        curvature = Fraction(self.constant)
        return Roots.of([[1]], [self.d - 1], sign=1, square=curvature, cut=1 / curvature)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.d + 1,)

    @property
    def origin(self) -> Array:
        north = np.zeros(self.d + 1)
        north[-1] = self.radius
        return north

    @property
    def layouts(self) -> tuple[Layout, ...]:
        size, radius = self.d + 1, self.radius
        common = (
            Layout("cartesian", size, f"coordinates of norm {radius:.6g}", of="Sphere(d)", size="d+1",
                   details="the coordinates, of norm curvature**-0.5"),
            Layout("composition", size, "parts of a whole", lambda x: radius * _square_root_shares(x), False, of="Sphere(d)",
                   size="d+1", details="parts, none negative: their shares of the whole, square-rooted",
                   write=lambda x: (x / radius) ** 2, units=(share_points(radius),)),
        )  # fmt: skip
        if self.d > 2:
            return common
        if self.d == 2:
            names = ((("lat", "latitude"), ("lon", "long", "lng", "longitude")),)
            latlon = Layout(
                "latlon", 2, "latitude and longitude in degrees", lambda x: radius * _direction(x), False, names, of="Sphere(2)",
                size="2", details="latitude and longitude in degrees; also chosen by a header lat, lon",
                write=_latitude_longitude, units=(degrees(radius), kilometres(radius)),
            )  # fmt: skip
            return (*common, latlon)
        times = ((("time", "clock", "clocktime", "timeofday"),),)
        return (
            *common,
            Layout("clock", 1, "times of day such as 13:45", lambda x: radius * hand(x / 86_400.0), False, times, True,
                   of="Sphere(1)", size="1", details=CLOCK_TIMES + "; also chosen by a header time",
                   write=lambda x: 86_400.0 * turns(x), text=time_of_day, units=(minutes(radius),)),
            Layout("hours", 1, "hours since midnight, 0 to 24", lambda x: radius * hand(within_a_day(x) / 24.0), False,
                   of="Sphere(1)", size="1", write=lambda x: 24.0 * turns(x), units=(minutes(radius),)),
            Layout("degrees", 1, "angles in degrees", lambda x: radius * hand(x / 360.0), False, of="Sphere(1)", size="1",
                   write=lambda x: 360.0 * turns(x)),
            Layout("radians", 1, "angles in radians", lambda x: radius * hand(0.5 * x / np.pi), False, of="Sphere(1)", size="1",
                   write=lambda x: 2.0 * np.pi * turns(x), units=(radians(radius),)),
        )  # fmt: skip

    @property
    def units(self) -> tuple[LengthUnit, ...]:
        return (degrees(self.radius),)

    @property
    def embedding(self) -> Embedding:
        def turn(vector: Array, q: float) -> float:
            length = float(np.linalg.vector_norm(vector))
            return self.radius * math.asin(q / length) if q < length else math.inf

        return Embedding(self.d + 1, 2.0 * self.radius, lambda points: points, self.from_chart, turn)

    def raw_exp(self, p: Array, v: Array) -> Array:
        angle = np.linalg.vector_norm(v, axis=-1, keepdims=True) / self.radius
        return np.cos(angle) * self.raw_project(p) + sinc(angle) * v

    def raw_log(self, p: Array, q: Array) -> Array:
        across, cosine = self._across(p, q)
        length = np.linalg.vector_norm(across, axis=-1)
        angle = self._angle(p, length, cosine)
        same, opposite = length <= 0.0, (length <= 4e-16 * self.radius) & (cosine < 0.0)
        scale = np.where(opposite, np.nan, np.where(same, 0.0, angle * self.radius / np.where(same, 1.0, length)))
        return scale[..., None] * across

    def raw_dist(self, p: Array, q: Array) -> Array:
        across, cosine = self._across(p, q)
        return self.radius * self._angle(p, np.linalg.vector_norm(across, axis=-1), cosine)

    @staticmethod
    def _across(p: Array, q: Array) -> tuple[Array, Array]:
        """The part of ``q`` orthogonal to ``p``, and the product ``p.q``."""
        cosine = np.vecdot(p, q)
        # q, q - p and q + p have the same orthogonal part; the smaller difference loses no digits to cancellation
        apart = q - np.where(cosine < 0.0, -1.0, 1.0)[..., None] * p
        return apart - p * (np.vecdot(p, apart) / np.vecdot(p, p))[..., None], cosine

    @staticmethod
    def _angle(p: Array, length: Array, cosine: Array) -> Array:
        # atan2 keeps full accuracy for nearby and for nearly antipodal points, where arccos loses half the digits
        return np.arctan2(length * np.linalg.vector_norm(p, axis=-1), cosine)

    def raw_tangent(self, p: Array, coordinates: Array) -> Array:
        return self._turn(p, np.concatenate([coordinates, np.zeros_like(coordinates[..., :1])], axis=-1))

    def raw_coordinates(self, p: Array, v: Array) -> Array:
        return self._turn(p, v)[..., :-1]

    def raw_move_origin(self, p: Array, x: Array) -> Array:
        return self._turn(p, np.concatenate([x[..., :-1], -x[..., -1:]], axis=-1))

    @staticmethod
    def _turn(p: Array, x: Array) -> Array:
        """A symmetric orthogonal map that takes the south pole to ``p``, applied to ``x``.

        Plus or minus a Householder reflection, with the sign that keeps its axis away from zero. If ``p`` is the north pole,
        it fixes the equator, so that the frame there is the standard one.
        """
        axis = p / np.linalg.vector_norm(p, axis=-1, keepdims=True)
        sign = np.where(axis[..., -1:] < 0.0, -1.0, 1.0)
        axis = np.concatenate([axis[..., :-1], axis[..., -1:] + sign], axis=-1)
        return sign * (x - axis * (2.0 * np.vecdot(axis, x) / np.vecdot(axis, axis))[..., None])

    def raw_project(self, x: Array) -> Array:
        return x * (self.radius / np.linalg.vector_norm(x, axis=-1, keepdims=True))

    def raw_project_tangent(self, p: Array, v: Array) -> Array:
        return v - p * (np.vecdot(p, v) / np.vecdot(p, p))[..., None]

    def log_rounding(self, p: Array, reach: float) -> float:
        angle = min(reach / self.radius, math.pi)
        # products of d + 1 numbers, divided by the sine of the angle where points are far apart
        return 4.0 * (self.d + 8) * EPSILON * self.radius * float(angle_over_sine(np.cos(np.array(angle))))

    def requirements(self, x: Array) -> Iterator[Requirement]:
        norm = np.linalg.vector_norm(x, axis=-1)
        off = np.abs(norm - self.radius) <= TOLERANCE * self.radius
        yield Requirement(off, norm, f"the norm must be {self.radius:.12g} but is {{:.12g}}")

    # ------------------------------------------------------------------ chart: the ambient coordinates

    @property
    def chart_units(self) -> tuple[int | None, ...]:
        return (math.frexp(self.radius)[1] - 1,)

    def exact_chart(self, center: Array, v: list[arb]) -> list[arb]:
        """The centre is the direction of its floats."""
        from geodp.arithmetic.intervals import norm, reflect, square_root, unit_vector

        rate = square_root(Fraction(self.constant))
        angle = rate * norm(v)
        scale = angle.sinc()
        x = [*(scale * entry for entry in v), angle.cos() / rate]
        # plus or minus a reflection takes the north pole to the centre; the sign keeps its axis longer than sqrt(2)
        axis = unit_vector(center)
        sign = int(math.copysign(1.0, center[-1]))
        axis[-1] += sign
        return [-sign * entry for entry in reflect(axis, x)]

    def from_chart(self, x: Array) -> Array:
        return self.raw_project(x) if np.any(x) else self.origin


def _square_root_shares(parts: Array) -> Array:
    # divided by the largest part first, so that no sum overflows
    parts = np.where((parts < 0.0).any(axis=-1, keepdims=True), np.nan, parts) / parts.max(axis=-1, keepdims=True)
    return np.sqrt(parts / parts.sum(axis=-1, keepdims=True))


def _direction(degrees: Array) -> Array:
    latitude, longitude = np.deg2rad(degrees).T
    latitude = np.where(np.abs(degrees[:, 0]) <= 90.0, latitude, np.nan)
    east = np.cos(latitude)
    return np.stack([east * np.cos(longitude), east * np.sin(longitude), np.sin(latitude)], axis=-1)


def _latitude_longitude(points: Array) -> Array:
    x, y, z = points.T
    return np.rad2deg(np.stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)], axis=-1))


def hand(turned: Array) -> Array:
    """The position of a clock's hand after this many turns from the top."""
    angle = 2.0 * np.pi * (turned - np.round(turned))
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


def turns(hands: Array) -> Array:
    """The inverse of :func:`hand`, from 0 up to 1."""
    return np.asarray(np.arctan2(hands[..., :1], hands[..., 1:]) / (2.0 * np.pi)) % 1.0


def within_a_day(hours: Array) -> Array:
    return np.where((hours >= 0.0) & (hours <= 24.0), hours, np.nan)


def time_of_day(seconds: float) -> str:
    """HH:MM:SS of seconds since midnight.

    >>> time_of_day(27_108.4), time_of_day(86_399.9)
    ('07:31:48', '00:00:00')
    """
    whole = round(seconds) % 86_400
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
