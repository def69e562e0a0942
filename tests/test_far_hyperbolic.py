"""Far from the origin of hyperbolic space: the maps and the bounds on their rounding, against 60 digits.

A centre at distance 20 has coordinates of size ``e^20 / 2``, and a record towards the origin is the difference of two such
numbers. ``Ball.reach`` enters every sensitivity, so it must bound the true distance of a clipped record.
"""

from __future__ import annotations

from collections.abc import Iterator

import mpmath
import numpy as np
import pytest
from cases import longer

from geodp import Ball, Euclidean, Hyperbolic, Product
from geodp.inputs import Array

mp = mpmath.mp.clone()
mp.dps = 60

DISTANCES = [0.0, 1e-5, 0.5, 2.0, 5.0, 8.0, 12.0, 15.0, 18.5, 20.0]
every_dimension = pytest.mark.parametrize("dim", longer([1, 2, 5], [2]))
RADII = [1e-3, 0.1, 1.0, 4.0, 8.0, 12.0, 15.0, 20.0, 25.0]


def exact(space: Array) -> list[mpmath.mpf]:
    """The point that floats define: the time follows from the other coordinates."""
    y = [mp.mpf(float(a)) for a in space]
    return [mp.sqrt(1 + mp.fsum(a * a for a in y)), *y]


def minkowski(p: list[mpmath.mpf], q: list[mpmath.mpf]) -> mpmath.mpf:
    return mp.fsum(a * b for a, b in zip(p[1:], q[1:], strict=True)) - p[0] * q[0]


def exact_dist(p: Array, q: Array) -> mpmath.mpf:
    x, y = exact(p[1:]), exact(q[1:])
    apart = [a - b for a, b in zip(x, y, strict=True)]
    return 2 * mp.asinh(mp.sqrt(max(minkowski(apart, apart), mp.mpf(0))) / 2)


def exact_log(p: Array, q: Array) -> list[mpmath.mpf]:
    x, y, length = exact(p[1:]), exact(q[1:]), exact_dist(p, q)
    stretch = length / mp.sinh(length) if length else mp.mpf(1)
    return [stretch * (b - mp.cosh(length) * a) for a, b in zip(x, y, strict=True)]


def centre(manifold: Hyperbolic, distance: float, rng: np.random.Generator) -> tuple[Array, Array]:
    unit = rng.normal(size=manifold.d)
    unit /= np.linalg.vector_norm(unit)
    return manifold.raw_project(np.concatenate([[0.0], np.sinh(distance) * unit])), unit


def around(p: Array, unit: Array, lengths: Array, rng: np.random.Generator) -> Array:
    """Points at these distances from ``p``, rounded from 60 digits: straight inwards, nearly so, outwards and anywhere."""
    along = mp.asinh(mp.norm([mp.mpf(float(a)) for a in p[1:]]))
    points = []
    for i, length in enumerate(lengths):
        direction = -unit + 10.0 ** rng.uniform(-12.0, 1.0) * rng.normal(size=unit.size)
        direction = [-unit, unit, direction, direction][min(i, 3)]
        direction = direction / np.linalg.vector_norm(direction)
        share, far = mp.mpf(float(direction @ unit)), mp.mpf(float(length))
        radial = mp.sinh(along) * mp.cosh(far) + mp.cosh(along) * mp.sinh(far) * share
        rest = [mp.mpf(float(a)) - share * mp.mpf(float(b)) for a, b in zip(direction, unit, strict=True)]
        points.append([0.0, *(float(radial * mp.mpf(float(b)) + mp.sinh(far) * a) for a, b in zip(rest, unit, strict=True))])
    return Hyperbolic(unit.size).raw_project(np.array(points))


def balls(dim: int) -> Iterator[tuple[Ball, Array, np.random.Generator]]:
    manifold, rng = Hyperbolic(dim), np.random.default_rng(dim)
    for distance in DISTANCES:
        for radius in RADII:
            point, unit = centre(manifold, distance, rng)
            yield Ball(manifold, point, radius), unit, rng


@every_dimension
def test_no_clipped_record_is_farther_than_the_reach(dim: int) -> None:
    worst = 0.0
    for ball, unit, rng in balls(dim):
        lengths = ball.radius * rng.uniform(1.0001, 1.5, size=12) + rng.choice([0.0, 1e-6, 1.0], size=12)
        clipped = ball.clip(around(ball.center, unit, lengths, rng))
        excess = max(exact_dist(ball.center, q) - mp.mpf(ball.radius) for q in clipped)
        worst = max(worst, float(excess / (mp.mpf(ball.reach) - mp.mpf(ball.radius))))
    # it was 9088 before; the bound is for the worst case, and rounding errors mostly cancel
    assert worst < 0.25


@every_dimension
def test_records_that_are_left_where_they_are_are_within_the_reach(dim: int) -> None:
    for ball, unit, rng in balls(dim):
        lengths = ball.radius * (1.0 + rng.choice([-1e-9, -1e-12, 0.0, 1e-15, 1e-12, 1e-9], size=12))
        records = around(ball.center, unit, lengths, rng)
        for q in ball.clip(records):
            assert exact_dist(ball.center, q) <= mp.mpf(ball.reach)


@every_dimension
def test_logarithms_are_as_exact_as_their_bound_says(dim: int) -> None:
    for ball, unit, rng in balls(dim):
        p = ball.center
        for q in around(p, unit, ball.radius * rng.uniform(0.0, 1.0, size=8), rng):
            # a tangent vector has its time from the others, like a point
            found = [mp.mpf(float(a)) for a in ball.manifold.raw_log(p, q)[1:]]
            off = [a - b for a, b in zip(found, exact_log(p, q)[1:], strict=True)]
            x = exact(p[1:])
            time = mp.fsum(a * b for a, b in zip(x[1:], off, strict=True)) / x[0]
            error = mp.sqrt(max(mp.fsum(a * a for a in off) - time**2, mp.mpf(0)))
            assert error <= ball.manifold.log_rounding(p, ball.radius)
            assert abs(mp.mpf(float(ball.manifold.raw_dist(p, q))) - exact_dist(p, q)) <= ball.manifold.log_rounding(
                p, ball.radius
            )


@every_dimension
def test_a_geodesic_towards_the_origin_ends_where_it_should(dim: int) -> None:
    manifold, rng = Hyperbolic(dim), np.random.default_rng(dim)
    for distance in DISTANCES:
        p, unit = centre(manifold, distance, rng)
        for length in (1e-3, 1.0, 5.0, 12.0, 20.0):
            q = manifold.raw_exp(p, manifold.raw_tangent(p, -length * unit))
            assert abs(exact_dist(p, q) - length) <= 2.0 * manifold.log_rounding(p, length)


@every_dimension
def test_the_origin_moves_with_all_around_it(dim: int) -> None:
    manifold, rng = Hyperbolic(dim), np.random.default_rng(dim)
    for distance in DISTANCES:
        p, unit = centre(manifold, distance, rng)
        for length in (1e-3, 1.0, 5.0, 12.0, 20.0):
            x = around(manifold.origin, -unit, np.full(4, length), rng)
            for q, moved in zip(x, manifold.raw_move_origin(p, x), strict=True):
                assert abs(exact_dist(p, moved) - exact_dist(manifold.origin, q)) <= 2.0 * manifold.log_rounding(p, length)


def test_a_product_with_hyperbolic_space_has_a_bound_too() -> None:
    manifold, rng = Product(Hyperbolic(2), Euclidean(1)), np.random.default_rng(0)
    point, unit = centre(Hyperbolic(2), 15.0, rng)
    ball = Ball(manifold, np.append(point, 0.0), 14.0)
    records = np.column_stack([around(point, unit, rng.uniform(14.0, 20.0, size=20), rng), rng.normal(size=20)])
    for q in ball.clip(records):
        assert mp.hypot(exact_dist(point, q[:3]), q[3]) <= mp.mpf(ball.reach)
