"""The public ball: which radii it takes, and what clipping does to every conceivable record."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from cases import every_manifold, longer, random_points
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from geodp import SPD, Ball, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere

#: Half the smaller of the injectivity radius and pi over the root of the largest sectional curvature, by hand.
LARGEST = [
    (Sphere(1), math.pi / 2),
    (Sphere(2), math.pi / 2),
    (Sphere(7), math.pi / 2),
    (Sphere(2, curvature=4.0), math.pi / 4),
    (Sphere(3, curvature=0.25), math.pi),
    (Grassmann(1, 2), math.pi / 4),
    (Grassmann(1, 4), math.pi / 4),
    (Grassmann(2, 4), math.pi / 4),
    (Rotations(2), math.pi / 2),
    (Rotations(3), math.pi / 2),
    (Rotations(5), math.pi / 2),
    (PlanarShapes(3), math.pi / 4),
    (PlanarShapes(6), math.pi / 4),
    (Product(Sphere(2), Euclidean(3)), math.pi / 2),
    (Product(Sphere(1), PlanarShapes(4), SPD(2)), math.pi / 4),
]
UNBOUNDED = [Euclidean(3), Hyperbolic(2), SPD(3), SPDLogEuclidean(2), Product(SPD(2), Euclidean(1))]


def rng_for(manifold: Manifold) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, repr(manifold))))


def public_ball(manifold: Manifold, share: float = 0.6) -> Ball:
    """A ball about a point that is not the origin; ``share`` of the largest radius, or 1.5 if there is none."""
    center = random_points(manifold, 1, rng_for(manifold), spread=0.7)[0]
    largest = Ball(manifold, center, 0.01).max_radius
    return Ball(manifold, center, share * largest if math.isfinite(largest) else 1.5)


def around(ball: Ball, count: int, least: float, most: float) -> np.ndarray:
    """Points whose distance to the centre is between ``least`` and ``most`` radii, in all directions."""
    rng, manifold = rng_for(ball.manifold), ball.manifold
    directions = rng.normal(size=(count, manifold.dim))
    directions *= ball.radius / np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    return manifold.exp(ball.center, manifold.tangent(ball.center, directions * rng.uniform(least, most, size=(count, 1))))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit."""
    return a.shape == b.shape and a.tobytes() == b.tobytes()


# ------------------------------------------------------------------------------------------------ what a ball may be


@pytest.mark.parametrize(("manifold", "largest"), LARGEST, ids=lambda value: repr(value))
def test_the_largest_radius_is_half_the_injectivity_or_conjugate_radius(manifold: Manifold, largest: float) -> None:
    assert Ball(manifold, manifold.origin, 0.99 * largest).max_radius == pytest.approx(largest, rel=1e-15)


@pytest.mark.parametrize(("manifold", "largest"), LARGEST, ids=lambda value: repr(value))
@pytest.mark.parametrize("factor", [1.0, 1.0 + 1e-9, 2.0, 100.0])
def test_a_radius_at_or_past_the_largest_is_refused_with_the_limit_and_the_reason(
    manifold: Manifold, largest: float, factor: float
) -> None:
    with pytest.raises(ValueError, match=r"must be below .*may not be unique") as caught:
        Ball(manifold, manifold.origin, factor * largest)
    numbers = [float(number) for number in re.findall(r"\d+\.\d+(?:e-?\d+)?", str(caught.value))]
    assert any(abs(number - largest) < 1e-12 for number in numbers)
    assert repr(manifold) in str(caught.value)
    assert ("are these degrees?" in str(caught.value)) == (factor * largest > manifold.diameter)


@pytest.mark.parametrize("manifold", UNBOUNDED, ids=repr)
def test_without_positive_curvature_or_closed_geodesics_every_radius_is_admissible(manifold: Manifold) -> None:
    assert Ball(manifold, manifold.origin, 8.0).max_radius == math.inf


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_the_radius_is_positive_and_finite(radius: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        Ball(SPD(2), np.eye(2), radius)


def test_the_center_must_be_one_point_of_the_manifold() -> None:
    with pytest.raises(ValueError, match=r"the center is not a point of Sphere\(2\): the norm must be 1 but is 2"):
        Ball(Sphere(2), [0.0, 0.0, 2.0], 0.5)
    with pytest.raises(ValueError, match="smallest eigenvalue must be positive"):
        Ball(SPD(2), [[1.0, 2.0], [2.0, 1.0]], 0.5)
    with pytest.raises(ValueError, match=r"shape \(3, 2, 2\)"):
        Ball(SPD(2), np.broadcast_to(np.eye(2), (3, 2, 2)), 0.5)
    with pytest.raises(ValueError, match="shape"):
        Ball(SPD(2), np.eye(3), 0.5)
    with pytest.raises(ValueError, match="finite"):
        Ball(Euclidean(2), [0.0, np.nan], 0.5)
    with pytest.raises(TypeError, match="must be a Manifold"):
        Ball("sphere", [0.0, 0.0, 1.0], 0.5)


@every_manifold
def test_balls_compare_by_value_and_do_not_change(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    again = Ball(manifold, ball.center.copy(), ball.radius)
    assert again == ball
    assert hash(again) == hash(ball)
    assert ball != Ball(manifold, ball.center, 0.5 * ball.radius)
    assert ball != Ball(manifold, manifold.origin, ball.radius)
    assert ball != "ball"
    with pytest.raises(ValueError, match="read-only"):
        ball.center[...] = 0.0
    with pytest.raises(AttributeError):
        ball.radius = 1.0


def test_a_ball_does_not_follow_later_changes_of_the_array_it_was_made_from() -> None:
    center = np.zeros(2)
    ball = Ball(Euclidean(2), center, 1.0)
    center[0] = 5.0
    assert same(ball.center, np.zeros(2))


@every_manifold
def test_a_center_in_single_precision_is_read_as_the_point_next_to_it(manifold: Manifold) -> None:
    single = public_ball(manifold).center.astype(np.float32)
    ball = Ball(manifold, single, 0.1)
    assert ball.center.dtype == np.float64
    assert manifold.dist(ball.center, manifold.project(single.astype(np.float64))) < 1e-12


@pytest.mark.parametrize("manifold", [Grassmann(2, 4), Rotations(3), Rotations(4), PlanarShapes(4), Sphere(2)], ids=repr)
def test_a_center_that_is_slightly_off_the_manifold_is_read_as_the_point_next_to_it(manifold: Manifold) -> None:
    good = public_ball(manifold)
    ball = Ball(manifold, good.center * (1.0 + 3e-7), good.radius)
    assert np.abs(ball.center - good.center).max() < 1e-14
    clipped = ball.clip(around(good, 30, 1.05, 1.3))
    assert np.max(manifold.dist(manifold.project(good.center), clipped)) <= ball.reach


# ------------------------------------------------------------------------------------------------ what clipping does


@every_manifold
def test_records_inside_are_left_alone_bit_for_bit(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    inside = around(ball, 50, 0.0, 0.999)
    assert same(ball.clip(inside), inside)
    assert ball.contains(inside).all()
    assert ball.clip(inside) is not inside


@every_manifold
def test_records_outside_land_on_the_boundary_along_the_same_geodesic(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    outside = around(ball, 50, 1.01, min(1.6, 0.98 * manifold.injectivity_radius / ball.radius))
    clipped = ball.clip(outside)
    before, after = manifold.log(ball.center, outside), manifold.log(ball.center, clipped)
    lengths = np.asarray(manifold.norm(ball.center, before)).reshape(-1, *(1,) * len(manifold.point_shape))
    assert np.abs(np.asarray(manifold.dist(ball.center, clipped)) - ball.radius).max() < 1e-12
    assert np.max(manifold.norm(ball.center, after - before * (ball.radius / lengths))) < 1e-11
    assert not ball.contains(outside).any()
    assert np.max(manifold.dist(ball.center, clipped)) <= ball.reach


@every_manifold
def test_the_reach_is_the_radius_up_to_rounding(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    assert ball.radius < ball.reach < ball.radius + 1e-11


@every_manifold
@pytest.mark.parametrize("share", [0.3, 0.9999])
def test_clipping_twice_is_clipping_once(manifold: Manifold, share: float) -> None:
    # a clipped record may be one rounding outside the ball; the second time it moves by no more than that
    ball = public_ball(manifold, share)
    once = ball.clip(around(ball, 60, 0.5, min(1.6, 0.98 * manifold.injectivity_radius / ball.radius)))
    twice = ball.clip(once)
    assert np.max(manifold.dist(once, twice)) <= ball.reach - ball.radius
    assert np.max(manifold.dist(ball.center, twice)) <= ball.reach


def spoiled(manifold: Manifold) -> np.ndarray:
    """Records of the right shape that are no points of the manifold."""
    good = np.stack([manifold.origin] * 5)
    first = (0,) * len(manifold.point_shape)
    good[(0, *first)], good[(1, *first)], good[(2, *first)] = np.nan, np.inf, -np.inf
    good[3] = np.nan
    good[4] = -np.inf
    return good


@every_manifold
def test_what_is_no_point_becomes_the_center(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    bad = spoiled(manifold)
    assert same(ball.clip(bad), np.stack([ball.center] * len(bad)))
    assert not ball.contains(bad).any()


@pytest.mark.parametrize(
    ("manifold", "bad"),
    [
        (SPD(2), [[1.0, 2.0], [2.0, 1.0]]),
        (SPD(2), [[1.0, 0.5], [0.0, 1.0]]),
        (SPD(3), np.zeros((3, 3))),
        (SPD(5), np.diag([1.0, 1.0, 1.0, 1.0, -1e-9])),
        (SPDLogEuclidean(2), -np.eye(2)),
        (Sphere(2), [0.0, 0.0, 1.001]),
        (Sphere(2), np.zeros(3)),
        (Hyperbolic(2), [-1.0, 0.0, 0.0]),
        (Hyperbolic(2), [1.0, 1.0, 0.0]),
        (Grassmann(2, 4), np.zeros((4, 2))),
        (Grassmann(2, 4), np.ones((4, 2))),
        (Rotations(3), np.diag([1.0, 1.0, -1.0])),
        (Rotations(3), 2.0 * np.eye(3)),
        (PlanarShapes(3), np.zeros((3, 2))),
        (PlanarShapes(3), np.ones((3, 2)) / math.sqrt(6.0)),
    ],
)
def test_what_is_off_the_manifold_becomes_the_center(manifold: Manifold, bad: np.ndarray) -> None:
    ball = public_ball(manifold)
    assert same(ball.clip(bad), ball.center)
    assert not ball.contains(bad)


@pytest.mark.parametrize(
    ("manifold", "opposite"),
    [
        (Sphere(1), [0.0, -1.0]),
        (Sphere(2), [0.0, 0.0, -1.0]),
        (Sphere(2, curvature=4.0), [0.0, 0.0, -0.5]),
        (Grassmann(1, 3), [[0.0], [1.0], [0.0]]),
        (Grassmann(2, 4), [[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        (Rotations(2), [[-1.0, 0.0], [0.0, -1.0]]),
        (Rotations(3), np.diag([-1.0, -1.0, 1.0])),
        (Rotations(4), np.diag([-1.0, -1.0, 1.0, 1.0])),
    ],
)
def test_a_record_on_the_cut_locus_of_the_center_becomes_the_center(manifold: Manifold, opposite: np.ndarray) -> None:
    ball = Ball(manifold, manifold.origin, 0.5)
    assert same(ball.clip(opposite), ball.center)
    assert not ball.contains(opposite)


@every_manifold
def test_a_record_does_not_depend_on_the_others(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    most = min(1.5, 0.98 * manifold.injectivity_radius / ball.radius)
    batch = np.concatenate([around(ball, 6, 0.1, 0.9), around(ball, 6, 1.05, most), spoiled(manifold)])
    together = ball.clip(batch)
    alone = np.stack([ball.clip(record) for record in batch])
    # batched linear algebra may round differently, but a record that is kept or lost is so in any company
    assert np.max(manifold.dist(together, alone)) < 1e-13
    assert same(together[:6], batch[:6])
    assert same(alone[:6], batch[:6])
    assert same(ball.clip(batch[::-1])[::-1], together)
    assert np.array_equal(ball.contains(batch), [ball.contains(record) for record in batch])


@every_manifold
def test_leading_axes_are_kept_and_none_is_written_to(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    table = around(ball, 6, 0.5, min(1.4, 0.98 * manifold.injectivity_radius / ball.radius)).reshape(2, 3, *manifold.point_shape)
    kept = table.copy()
    assert ball.clip(table).shape == table.shape
    assert ball.contains(table).shape == (2, 3)
    assert same(table, kept)
    assert ball.clip(np.empty((0, *manifold.point_shape))).shape == (0, *manifold.point_shape)


@every_manifold
def test_the_wrong_shape_or_type_is_an_error(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    with pytest.raises(ValueError, match="shape"):
        ball.clip(np.zeros((2, 11, 13)))
    with pytest.raises(ValueError, match="shape"):
        ball.contains(0.0)
    with pytest.raises(TypeError, match="real numbers"):
        ball.clip(np.full(manifold.point_shape, 1j))


@every_manifold
def test_single_precision_records_become_the_points_next_to_them(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    inside = around(ball, 20, 0.1, 0.9)
    clipped = ball.clip(inside.astype(np.float32))
    assert clipped.dtype == np.float64
    assert np.max(manifold.dist(clipped, manifold.project(inside.astype(np.float32).astype(np.float64)))) < 1e-11
    assert np.max(manifold.dist(clipped, inside)) < 1e-4


def test_integer_records_are_read_as_numbers() -> None:
    ball = Ball(SPD(2), np.eye(2), 5.0)
    assert same(ball.clip(np.array([[2, 1], [1, 2]])), np.array([[2.0, 1.0], [1.0, 2.0]]))
    assert Ball(Euclidean(1), [0], 2).clip([[1], [5]]).tolist() == [[1.0], [2.0]]


# ------------------------------------------------------------------------------------------------ any values at all

ANY_FLOAT = st.one_of(
    st.floats(width=64),
    st.sampled_from(
        [0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-160, 1e154, 1e300, -1e300, 1.7e308, math.nan, math.inf, -math.inf, 1.0]
    ),
)


@every_manifold
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_clipping_never_raises_and_always_ends_in_the_ball(manifold: Manifold, data: st.DataObject) -> None:
    ball = public_ball(manifold)
    noise = data.draw(arrays(np.float64, (2, *manifold.point_shape), elements=ANY_FLOAT))
    mask = data.draw(arrays(np.bool_, (2, *manifold.point_shape)))
    near = np.stack([ball.center, around(ball, 1, 0.5, 0.5)[0]])
    records = np.concatenate([noise, np.where(mask, noise, near)])
    clipped = ball.clip(records)
    assert np.isfinite(clipped).all()
    assert manifold.valid(clipped).all()
    assert np.max(manifold.dist(ball.center, clipped)) <= ball.reach
    ball.contains(records)


@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), SPD(5), SPDLogEuclidean(3)], ids=repr)
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-12, 1.0, 1e12, 1e160, 1e300])
def test_covariances_of_any_scale_are_clipped_in_a_ball_about_their_own_scale(manifold: Manifold, scale: float) -> None:
    ball = Ball(manifold, scale * np.eye(manifold.point_shape[0]), 2.0)
    unit = Ball(manifold, np.eye(manifold.point_shape[0]), 2.0)
    records = around(unit, 20, 0.5, 3.0)
    assert np.allclose(ball.clip(scale * records) / scale, unit.clip(records), rtol=1e-9)


@pytest.mark.parametrize(
    "manifold", [SPD(2), SPD(3), SPD(5), SPDLogEuclidean(2), SPDLogEuclidean(3), Product(SPD(3), SPD(2))], ids=repr
)
@pytest.mark.parametrize("huge", longer([1e300, 1e305, 1e307, 1.7e308], [1.7e308]))
def test_a_huge_record_changes_nothing_for_the_others(manifold: Manifold, huge: float) -> None:
    # records with repeated eigenvalues and multiples of the centre once lost half their length beside an overflowing one
    rng = np.random.default_rng(3)

    def point(scales: list[float]) -> np.ndarray:
        if isinstance(manifold, Product):
            return np.concatenate([np.diag((scales * 3)[:3]).ravel(), np.diag((scales * 2)[:2]).ravel()])
        size = manifold.point_shape[0]
        return np.diag((scales * size)[:size])

    ball = Ball(manifold, manifold.origin, 0.5)
    x = np.stack([point(list(s)) for s in ([2.0], [1.0, 2.0, 2.0], [0.8], [1.0, 0.8, 0.8], [3.0, 3.0], [1.0])] * 20)
    x = x[rng.permutation(len(x))]
    alone = np.stack([ball.clip(record) for record in x])
    for bad in (point([huge]), point([huge, 1.0, 1.0]), point([1.0, huge])):
        beside = ball.clip(np.concatenate([x[:50], bad[None], x[50:]]))
        assert np.array_equal(np.delete(beside, 50, axis=0), alone)


@pytest.mark.parametrize("k", [2, 4])
def test_a_centre_next_to_the_smallest_floats_is_refused(k: int) -> None:
    # its Cholesky factor has few digits: means about it would not converge for some records
    center = 5e-324 * (20_000_001.0 * np.eye(k) + np.diag(np.arange(k)))
    with pytest.raises(ValueError, match="floats have too few digits for a ball of radius 2"):
        Ball(SPD(k), center, 2.0)
    Ball(SPD(k), 1e-280 * np.eye(k), 2.0)
