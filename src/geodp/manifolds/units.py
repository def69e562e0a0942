"""Geodesic lengths in everyday units."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple


class LengthUnit(NamedTuple):
    """A unit for geodesic lengths: its name, the number for a length, and that number in words.

    A length may be an error bound. Then the number must be a bound too, so it must not decrease with the length.
    """

    name: str
    convert: Callable[[float], float]
    words: Callable[[float], str]

    def say(self, length: float) -> str:
        return self.words(self.convert(length))


def short(number: float) -> str:
    """Three digits, with an exponent only for very small or large numbers.

    >>> short(0.0058712), short(1273.5), short(3e-9)
    ('0.00587', '1,274', '3e-09')
    """
    return f"{number:,.0f}" if 999.5 <= abs(number) < 1e7 else f"{number:.3g}"


def degrees(radius: float = 1.0) -> LengthUnit:
    """Angles at the centre of a circle of this radius."""
    return LengthUnit("degrees", lambda length: math.degrees(length / radius), lambda x: f"{short(x)} degrees")


def radians(radius: float = 1.0) -> LengthUnit:
    """The same angles in radians."""
    return LengthUnit("radians", lambda length: length / radius, lambda x: f"{short(x)} radians")


def kilometres(radius: float = 1.0) -> LengthUnit:
    """Kilometres along the surface of the Earth, as a sphere of its mean radius (IUGG)."""

    def words(x: float) -> str:
        return f"{short(x)} km" if x >= 1.0 else f"{short(1000.0 * x)} m"

    return LengthUnit("kilometres", lambda length: 6371.0088 * length / radius, words)


def minutes(radius: float = 1.0) -> LengthUnit:
    """Minutes of a day that goes once round the circle."""

    def words(x: float) -> str:
        return f"{short(60.0 * x)} seconds" if x < 1.0 else f"{short(x)} minutes" if x < 180.0 else f"{short(x / 60.0)} hours"

    return LengthUnit("minutes", lambda length: 1440.0 * length / (2.0 * math.pi * radius), words)


def share_points(radius: float = 1.0) -> LengthUnit:
    """The largest difference in any share of a composition.

    For unit vectors ``p`` and ``q`` at the angle ``a``, ``|p_i^2 - q_i^2| <= |p - q| |p + q|/2 = sin(a)``.
    """

    def convert(length: float) -> float:
        return 100.0 * math.sin(min(length / radius, 0.5 * math.pi))

    return LengthUnit("percentage_points", convert, lambda x: f"{short(x)} percentage points in any share")


def share_ratio() -> LengthUnit:
    """The factor by which the ratio of any two parts of a composition may change, if the length is that of centred logarithms.

    ``|a_i - a_j| <= sqrt(2) |a|``.
    """

    def convert(length: float) -> float:
        return math.exp(math.sqrt(2.0) * length) if length < 500.0 else math.inf

    def words(x: float) -> str:
        return f"{short(100.0 * (x - 1.0))}% in any ratio" if x < 2.0 else f"a factor of {x:.3g} in any ratio"

    return LengthUnit("ratio_factor", convert, words)


def factor(of: str) -> LengthUnit:
    """The factor ``exp(length/2)`` of standard deviations, if the length bounds logarithms of variances."""

    def convert(length: float) -> float:
        return math.exp(0.5 * length) if length < 1400.0 else math.inf

    def words(x: float) -> str:
        return f"{short(100.0 * (x - 1.0))}% in {of}" if x < 2.0 else f"a factor of {x:.3g} in {of}"

    return LengthUnit("standard_deviation_factor", convert, words)


def percent_of_size() -> LengthUnit:
    """The full Procrustes distance of shapes.

    It is the root of the sum of squares that remains after moving, turning and scaling one shape onto another of size 1.
    """

    def convert(length: float) -> float:
        return 100.0 * math.sin(min(length, 0.5 * math.pi))

    return LengthUnit("percent_of_size", convert, lambda x: f"{short(x)}% of the size")
