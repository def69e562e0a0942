"""The Fréchet mean: known means, symmetries, every kind of source, and the data sets that break other solvers."""

from __future__ import annotations

import math
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from cases import MANIFOLDS, every_manifold, random_points, random_tangents
from pyriemann.geometry.mean import mean_riemann

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    SPDLogEuclidean,
    Sphere,
    frechet_mean,
)
from geodp.solver.mean import default_tolerance
from geodp.solver.passes import SmallSPD
from geodp.statistics.mean import Mean


def rng_for(manifold: Manifold) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, repr(manifold))))


def public_ball(manifold: Manifold, share: float = 0.8) -> Ball:
    """A ball about a point that is not the origin; ``share`` of the largest radius, or 2 if there is none."""
    center = random_points(manifold, 1, rng_for(manifold), spread=0.7)[0]
    largest = Ball(manifold, center, 0.01).max_radius
    return Ball(manifold, center, share * largest if math.isfinite(largest) else 2.0)


def inside(ball: Ball, count: int, rng: np.random.Generator, least: float = 0.0, most: float = 1.0) -> np.ndarray:
    manifold = ball.manifold
    directions = rng.normal(size=(count, manifold.dim))
    directions *= ball.radius / np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    return manifold.exp(ball.center, manifold.tangent(ball.center, directions * rng.uniform(least, most, size=(count, 1))))


def converged(x: np.ndarray, ball: Ball, most_passes: int = 40, **options: object) -> np.ndarray:
    """The mean, after checking that its bound is within the default tolerance and that it took few passes."""

    def stop(iteration: int, done: int, total: int | None) -> None:
        assert iteration <= most_passes, "too many passes"

    result = frechet_mean(x, ball, progress=stop, **options)
    assert result.error_bound <= default_tolerance(ball)
    assert result.iterations <= most_passes
    assert ball.manifold.check_point(result.point) is None
    assert ball.manifold.dist(ball.center, result.point) <= ball.reach
    return result.point


# ------------------------------------------------------------------------------------------ known means


def test_the_mean_in_flat_space_is_the_average() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3))
    ball = Ball(Euclidean(3), np.zeros(3), 10.0)
    assert np.abs(converged(x, ball) - x.mean(axis=0)).max() < 1e-13


@pytest.mark.parametrize("manifold", [SPD(4), SPDLogEuclidean(4)], ids=repr)
def test_the_mean_of_commuting_matrices_is_their_geometric_mean(manifold: Manifold) -> None:
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    logs = rng.normal(size=(50, 4))
    x = (turn * np.exp(logs)[:, None, :]) @ turn.T
    x = 0.5 * (x + x.transpose(0, 2, 1))
    expected = (turn * np.exp(logs.mean(axis=0))) @ turn.T
    assert manifold.dist(converged(x, Ball(manifold, np.eye(4), 6.0), tolerance=1e-10), expected) < 1.1e-10


def test_the_log_euclidean_mean_is_the_exponential_of_the_mean_logarithm() -> None:
    manifold = SPDLogEuclidean(3)
    ball = Ball(manifold, np.eye(3), 2.5)
    x = inside(ball, 60, np.random.default_rng(2))
    logs = manifold.log(np.eye(3), x)
    assert manifold.dist(converged(x, ball), manifold.exp(np.eye(3), logs.mean(axis=0))) < 1e-11


def test_the_mean_on_a_circle_is_the_average_angle() -> None:
    angles = np.random.default_rng(3).uniform(-1.4, 1.4, size=200)
    x = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    mean = converged(x, Ball(Sphere(1), [0.0, 1.0], 1.5))
    assert math.atan2(mean[0], mean[1]) == pytest.approx(angles.mean(), abs=1e-13)


def test_the_mean_of_rotations_about_one_axis_turns_by_the_average_angle() -> None:
    angles = np.random.default_rng(4).uniform(-1.4, 1.4, size=50)
    x = np.zeros((50, 3, 3))
    x[:, 0, 0] = x[:, 1, 1] = np.cos(angles)
    x[:, 1, 0], x[:, 0, 1], x[:, 2, 2] = np.sin(angles), -np.sin(angles), 1.0
    ball = Ball(Rotations(3), np.eye(3), 1.5)
    mean = converged(x, ball)
    assert math.atan2(mean[1, 0], mean[0, 0]) == pytest.approx(angles.mean(), abs=default_tolerance(ball))


@every_manifold
def test_the_mean_of_two_points_is_the_middle_of_their_geodesic(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    p, q = inside(ball, 2, np.random.default_rng(5), 0.5, 0.95)
    middle = manifold.exp(p, 0.5 * manifold.log(p, q))
    assert manifold.dist(converged(np.stack([p, q]), ball), middle) <= default_tolerance(ball) + 1e-12


@every_manifold
def test_a_configuration_that_is_symmetric_about_a_point_has_its_mean_there(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    point = inside(ball, 1, np.random.default_rng(6), 0.3, 0.3)[0]
    offsets = 0.5 * ball.radius * np.eye(manifold.dim)
    x = manifold.exp(point, manifold.tangent(point, np.concatenate([offsets, -offsets])))
    assert manifold.dist(converged(x, ball), point) <= default_tolerance(ball) + 1e-12


def test_the_mean_in_a_product_is_the_mean_in_every_factor() -> None:
    product = Product(Sphere(2), SPD(2))
    ball = Ball(product, product.origin, 1.0)
    x = inside(ball, 80, np.random.default_rng(7))
    parts = zip(product.factors, product.split(x), product.split(converged(x, ball)), strict=True)
    for factor, records, mean in parts:
        alone = converged(records, Ball(factor, factor.origin, 1.0))
        assert factor.dist(alone, mean) < 1e-11


def test_the_mean_agrees_with_pyriemann_to_its_accuracy() -> None:
    rng = np.random.default_rng(8)
    for k in (2, 3, 5):
        ball = Ball(SPD(k), np.eye(k), 3.0)
        x = inside(ball, 100, rng)
        weights = rng.uniform(size=100)
        assert SPD(k).dist(converged(x, ball, tolerance=1e-11), mean_riemann(x, tol=1e-10)) < 1e-8
        weighted = mean_riemann(x, tol=1e-10, sample_weight=weights)
        assert SPD(k).dist(converged(x, ball, tolerance=1e-11, weights=weights), weighted) < 1e-8


@every_manifold
def test_the_mean_is_the_point_of_least_mean_squared_distance(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    rng = np.random.default_rng(9)
    x = inside(ball, 30, rng)
    mean = converged(x, ball)
    energy = np.mean(np.asarray(manifold.dist(mean, x)) ** 2)
    for other in manifold.exp(mean, manifold.tangent(mean, 0.1 * ball.radius * rng.normal(size=(20, manifold.dim)))):
        assert np.mean(np.asarray(manifold.dist(other, x)) ** 2) > energy


# ------------------------------------------------------------------------------------------ symmetries


@every_manifold
def test_the_mean_moves_with_the_data(manifold: Manifold) -> None:
    rng = np.random.default_rng(10)
    largest = Ball(manifold, manifold.origin, 0.01).max_radius
    here = Ball(manifold, manifold.origin, 0.8 * largest if math.isfinite(largest) else 2.0)
    there = Ball(manifold, random_points(manifold, 1, rng)[0], here.radius)
    x = inside(here, 40, rng)
    moved = converged(manifold.move_origin(there.center, x), there)
    expected = manifold.move_origin(there.center, converged(x, here))
    assert manifold.dist(moved, expected) <= default_tolerance(here) + default_tolerance(there) + 1e-12


@every_manifold
def test_the_order_of_the_records_does_not_matter_beyond_the_bounds(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    rng = np.random.default_rng(11)
    x = inside(ball, 700, rng)
    first = frechet_mean(x, ball)
    for order in (np.arange(700)[::-1], rng.permutation(700)):
        other = frechet_mean(x[order], ball)
        assert manifold.dist(first.point, other.point) <= first.error_bound + other.error_bound


@every_manifold
def test_records_outside_are_clipped_first_and_invalid_ones_count_as_the_center(manifold: Manifold) -> None:
    ball = public_ball(manifold, share=0.5)
    rng = np.random.default_rng(12)
    x = inside(ball, 20, rng, 0.2, min(1.8, 0.95 * manifold.injectivity_radius / ball.radius))
    x[3] = np.nan
    x[7][(0,) * len(manifold.point_shape)] = np.inf
    centered = x.copy()
    centered[[3, 7]] = ball.center
    given, clipped, replaced = (frechet_mean(data, ball) for data in (x, ball.clip(x), centered))
    assert manifold.dist(given.point, clipped.point) <= given.error_bound + clipped.error_bound
    assert manifold.dist(given.point, replaced.point) <= given.error_bound + replaced.error_bound


@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(3), Sphere(20)], ids=repr)
def test_records_opposite_to_the_center_are_no_error(manifold: Manifold) -> None:
    for seed in range(40):
        center = np.random.default_rng(seed).normal(size=manifold.point_shape)
        center /= np.linalg.vector_norm(center)
        assert np.array_equal(frechet_mean(np.stack([center, -center]), Ball(manifold, center, 1.0)).point, center)


@every_manifold
@pytest.mark.parametrize("value", [1.7e308, -1.7e308, 1e200, 5e-324, 0.0, math.nan, math.inf])
def test_no_value_of_a_record_raises(manifold: Manifold, value: float) -> None:
    ball = public_ball(manifold)
    x = inside(ball, 4, np.random.default_rng(13))
    x[1] = value
    x[2][(0,) * len(manifold.point_shape)] = value
    converged(x, ball)


# ------------------------------------------------------------------------------------------ weights


@every_manifold
def test_whole_weights_are_repetitions_and_zero_weights_are_absences(manifold: Manifold) -> None:
    ball = public_ball(manifold)
    x = inside(ball, 6, np.random.default_rng(14))
    weights = np.array([3, 0, 1, 2, 0, 5])
    weighted, repeated = frechet_mean(x, ball, weights=weights), frechet_mean(np.repeat(x, weights, axis=0), ball)
    assert manifold.dist(weighted.point, repeated.point) <= weighted.error_bound + repeated.error_bound
    scaled = frechet_mean(x, ball, weights=1e-12 * weights)
    assert manifold.dist(weighted.point, scaled.point) <= weighted.error_bound + scaled.error_bound


def test_weights_of_any_size_are_shares() -> None:
    ball = Ball(Euclidean(1), [0.0], 2.0)
    x = np.array([[1.0], [-1.0]])
    assert converged(x, ball, weights=[1e-300, 1.0])[0] == pytest.approx(-1.0, abs=1e-14)
    assert converged(x, ball, weights=[5e-324, 5e-324])[0] == pytest.approx(0.0, abs=1e-14)
    assert converged(np.ones((2, 1)), ball, weights=[1.7e308, 1.7e308])[0] == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0, -1.0], "non-negative"),
        ([0.0, 0.0], "positive sum"),
        ([1.0, math.nan], "finite"),
        ([1.0, math.inf], "finite"),
        ([[1.0, 1.0]], r"shape \(1, 2\)"),
        ([1.0], "1 weights but at least 2 records"),
        ([1.0, 1.0, 1.0], "3 weights but 2 records"),
    ],
)
def test_bad_weights_are_refused(weights: list[float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        frechet_mean(np.zeros((2, 1)), Ball(Euclidean(1), [0.0], 1.0), weights=weights)


# ------------------------------------------------------------------------------------------ sources


@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2), SPD(4), Rotations(3)], ids=repr)
def test_every_kind_of_source_has_the_same_mean(manifold: Manifold, tmp_path: Path) -> None:
    ball = public_ball(manifold)
    x = inside(ball, 3000, np.random.default_rng(15), 0.0, 1.2)
    reference = frechet_mean(x, ball)
    stored = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=x.shape)
    stored[:] = x
    chunks = [x[:1], x[1:1000], x[1000:1000], x[1000:]]
    sources = [
        stored,
        np.asfortranarray(x),
        x[::-1],
        list(x),
        tuple(x.tolist()),
        chunks,
        tuple(chunks),
        lambda: iter(chunks),
        lambda: (chunk for chunk in chunks),
    ]
    for source in sources:
        result = frechet_mean(source, ball)
        assert manifold.dist(result.point, reference.point) <= result.error_bound + reference.error_bound
        weighted = frechet_mean(source, ball, weights=np.ones(len(x)))
        assert manifold.dist(weighted.point, reference.point) <= weighted.error_bound + reference.error_bound
    assert np.array_equal(stored, x)


def test_single_precision_and_integers_are_read_as_numbers() -> None:
    ball = Ball(SPD(2), np.eye(2), 3.0)
    x = np.array([[[2, 1], [1, 2]], [[3, 0], [0, 1]]])
    assert SPD(2).dist(converged(x, ball), converged(x.astype(np.float64), ball)) < 1e-12
    assert SPD(2).dist(converged(x.astype(np.float32), ball), converged(x.astype(np.float64), ball)) < 1e-12
    sphere = Ball(Sphere(2), [0.0, 0.0, 1.0], 1.0)
    points = inside(sphere, 100, np.random.default_rng(16))
    assert Sphere(2).dist(converged(points.astype(np.float32), sphere), converged(points, sphere)) < 1e-7


def test_an_iterator_that_can_be_read_only_once_is_refused() -> None:
    def once() -> Iterator[np.ndarray]:
        yield np.zeros((2, 1))

    ball = Ball(Euclidean(1), [0.0], 1.0)
    for source in (once(), iter([np.zeros((2, 1))])):
        with pytest.raises(TypeError, match="read only once"):
            frechet_mean(source, ball)


def test_a_source_that_changes_its_length_is_noticed() -> None:
    lengths = iter([3, 4, 5])
    with pytest.raises(ValueError, match=r"^the records changed between two passes: [^0-9]*$"):
        frechet_mean(lambda: iter([np.ones((next(lengths), 1))]), Ball(Euclidean(1), [0.0], 2.0))


@pytest.mark.parametrize("source", [np.zeros((0, 1)), [np.zeros((0, 1))], lambda: iter([])])
def test_no_records_have_no_mean(source: object) -> None:
    with pytest.raises(ValueError, match="at least one record but there are 0"):
        frechet_mean(source, Ball(Euclidean(1), [0.0], 1.0))


def test_the_wrong_shape_or_type_is_an_error() -> None:
    ball = Ball(SPD(2), np.eye(2), 1.0)
    with pytest.raises(ValueError, match=r"x has shape \(5, 3, 3\), but records of SPD\(2\) have shape \(n, 2, 2\)"):
        frechet_mean(np.zeros((5, 3, 3)), ball)
    with pytest.raises(ValueError, match="shape"):
        frechet_mean(np.eye(2), ball)
    with pytest.raises(ValueError, match="shape"):
        frechet_mean(np.zeros((5, 6, 2, 2)), ball)
    with pytest.raises(TypeError, match="real numbers"):
        frechet_mean(np.zeros((5, 2, 2), dtype=np.complex128), ball)


def test_the_data_are_not_written_to() -> None:
    ball = Ball(SPD(3), np.eye(3), 0.5)
    x = inside(ball, 50, np.random.default_rng(17), 0.0, 3.0)
    x[4] = np.nan
    kept = x.copy()
    x.setflags(write=False)
    frechet_mean(x, ball)
    assert x.tobytes() == kept.tobytes()


def test_memory_for_chunks_does_not_grow_with_their_number() -> None:
    ball = Ball(SPD(2), np.eye(2), 1.0)
    chunk = inside(ball, 2000, np.random.default_rng(18), 0.0, 1.2)

    def peak(count: int) -> int:
        tracemalloc.start()
        frechet_mean(lambda: (chunk.copy() for _ in range(count)), ball)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(2)
    few, many = peak(20), peak(100)
    assert many < 1.5 * few + 1e6
    assert many < 0.8 * 100 * chunk.nbytes


# ------------------------------------------------------------------------------------------ tolerance and progress


def test_a_tolerance_that_float64_cannot_meet_says_which_one_it_can() -> None:
    ball = Ball(Sphere(2), [0.0, 0.0, 1.0], 1.0)
    x = inside(ball, 50, np.random.default_rng(19))
    with pytest.raises(ValueError, match=f"1e-30 is below what float64 can certify.*{default_tolerance(ball):.3g} can always"):
        frechet_mean(x, ball, tolerance=1e-30)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="must be positive"):
            frechet_mean(x, ball, tolerance=bad)


@pytest.mark.parametrize("manifold", [SPD(3), Sphere(2), Rotations(3)], ids=repr)
def test_records_at_the_centre_whose_gradient_is_zero_are_no_exception(manifold: Manifold) -> None:
    ball = Ball(manifold, manifold.origin, 1.0)
    with pytest.raises(ValueError, match="below what float64 can certify"):
        frechet_mean(np.repeat(manifold.origin[None], 50, axis=0), ball, tolerance=1e-25)


def test_a_coarse_tolerance_is_met_in_fewer_passes() -> None:
    ball = Ball(SPD(5), np.eye(5), 3.0)
    x = inside(ball, 200, np.random.default_rng(20))
    fine = frechet_mean(x, ball)
    coarse = frechet_mean(x, ball, tolerance=1e-3)
    assert coarse.error_bound <= 1e-3
    assert coarse.iterations < fine.iterations
    assert SPD(5).dist(coarse.point, fine.point) <= coarse.error_bound + fine.error_bound


@every_manifold
def test_the_default_tolerance_is_small_for_ordinary_balls(manifold: Manifold) -> None:
    assert default_tolerance(public_ball(manifold)) < 1e-9


def test_progress_counts_the_records_of_every_pass() -> None:
    ball = Ball(Sphere(3), [0.0, 0.0, 0.0, 1.0], 1.0)
    x = inside(ball, 1000, np.random.default_rng(21))
    calls: list[tuple[int, int, int | None]] = []
    result = frechet_mean(lambda: iter([x[:400], x[400:]]), ball, progress=lambda *call: calls.append(call))
    assert [call[0] for call in calls] == [1 + i // 2 for i in range(2 * result.iterations)]
    assert [call[1] for call in calls] == [400, 1000] * result.iterations
    assert calls[0][2] in (None, 1000)  # chunks are read ahead
    assert all(call[2] == 1000 for call in calls[2:])
    calls.clear()
    result = frechet_mean(x, ball, progress=lambda *call: calls.append(call))
    assert calls == [(i + 1, 1000, 1000) for i in range(result.iterations)]


# ------------------------------------------------------------------------------------------ hard data


@every_manifold
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_few_passes_are_enough_for_random_data(manifold: Manifold, share: float) -> None:
    ball = public_ball(manifold, share)
    rng = np.random.default_rng(22)
    for count in (1, 2, 3, 50):
        converged(inside(ball, count, rng), ball)
        converged(inside(ball, count, rng, 1.0, 1.0), ball)


def on_axes(ball: Ball, coordinates: np.ndarray) -> np.ndarray:
    """Points with these normal coordinates about the centre, in radii; missing axes are 0."""
    manifold = ball.manifold
    full = np.zeros((len(coordinates), manifold.dim))
    full[:, : coordinates.shape[1]] = ball.radius * coordinates
    return manifold.exp(ball.center, manifold.tangent(ball.center, full))


POSITIVELY_CURVED = [Sphere(2), Sphere(5), Sphere(30), Sphere(2, curvature=4.0), PlanarShapes(3), PlanarShapes(6), Rotations(3)]


@pytest.mark.parametrize("manifold", [*POSITIVELY_CURVED, Grassmann(2, 5), Rotations(4), Product(Sphere(2), SPD(2))], ids=repr)
@pytest.mark.parametrize("share", [0.95, pytest.param(0.9999, marks=pytest.mark.slow), 0.999999])
@pytest.mark.parametrize("counts", [(3, 3), (6, 1), (20, 19), pytest.param((2, 1), marks=pytest.mark.slow)], ids=str)
def test_nearly_opposite_clusters_converge_in_the_largest_balls(
    manifold: Manifold, share: float, counts: tuple[int, int]
) -> None:
    # the energy is nearly flat along the small circle about the larger cluster, and the valley is curved
    ball = public_ball(manifold, share)
    rng = np.random.default_rng(23)
    ends = np.repeat([1.0, -1.0], counts)[:, None] * np.array([1.0, 0.0]) + 1e-3 * rng.normal(size=(sum(counts), 2))
    ends /= np.linalg.vector_norm(ends, axis=-1, keepdims=True)
    converged(on_axes(ball, ends), ball, most_passes=300)


@pytest.mark.parametrize("manifold", [*POSITIVELY_CURVED, SPD(3), Hyperbolic(3)], ids=repr)
def test_data_along_one_geodesic_converge(manifold: Manifold) -> None:
    ball = public_ball(manifold, 0.99)
    places = np.random.default_rng(24).uniform(-1.0, 1.0, size=(40, 1))
    expected = on_axes(ball, places.mean(axis=0, keepdims=True))[0]
    assert manifold.dist(converged(on_axes(ball, places), ball), expected) <= default_tolerance(ball) + 1e-12


@pytest.mark.parametrize(
    ("manifold", "radius"),
    [
        (SPD(1), 12.0),
        (SPD(2), 5.0),
        (SPD(2), 10.0),
        (SPD(3), 8.0),
        (SPD(5), 6.0),
        (SPDLogEuclidean(2), 4.0),
        (SPDLogEuclidean(4), 7.0),
        (Hyperbolic(2), 8.0),
        (Hyperbolic(5), 10.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("counts", [(1, 1), (3, 1), (30, 1), (10, 11)], ids=str)
def test_far_clusters_meet_the_default_tolerance_in_wide_balls(
    manifold: Manifold, radius: float, counts: tuple[int, int]
) -> None:
    ball = Ball(manifold, manifold.origin, radius)
    direction = np.zeros(manifold.dim)
    direction[0] = 1.0
    if isinstance(manifold, SPD | SPDLogEuclidean) and manifold.k > 1:
        direction[manifold.k] = -1.0  # the second diagonal entry: the widest spread of eigenvalues at this distance
    direction /= np.linalg.vector_norm(direction)
    noise = 0.05 * np.random.default_rng(25).normal(size=(sum(counts), manifold.dim))
    ends = np.repeat([0.97, -0.97], counts)[:, None] * direction + noise / math.sqrt(manifold.dim)
    converged(on_axes(ball, ends), ball, most_passes=300)


@pytest.mark.parametrize("radius", [12.0, 20.0, 40.0, 60.0])
@pytest.mark.parametrize("manifold", [SPD(2), SPD(3), SPD(5), Hyperbolic(3), Product(SPD(3), Sphere(2))], ids=repr)
def test_in_a_very_wide_ball_the_mean_is_as_good_as_the_records_allow(manifold: Manifold, radius: float) -> None:
    """The mean of the same records in a narrow ball, which can promise many digits, is the oracle."""
    radius = min(radius, 0.9 * Ball(manifold, manifold.origin, 1e-3).max_radius)
    x = random_points(manifold, 200, np.random.default_rng(26))
    narrow = frechet_mean(x, Ball(manifold, manifold.origin, 1.2))
    wide = frechet_mean(x, Ball(manifold, manifold.origin, radius))
    assert wide.error_bound < 1e-7
    assert wide.iterations <= 10
    assert manifold.dist(wide.point, narrow.point) <= wide.error_bound + narrow.error_bound


def test_a_ball_too_wide_for_means_in_floats_names_one_that_is_not() -> None:
    for manifold in (SPD(3), Hyperbolic(2)):
        with pytest.raises(ValueError, match=r"a radius of \d+ would work, and private_ball can look for") as caught:
            Mean(Ball(manifold, manifold.origin, 34.0)).check(100)
        radius = float(re.findall(r"a radius of (\d+)", str(caught.value))[0])
        Mean(Ball(manifold, manifold.origin, radius)).check(100)
        assert radius > 17.0
    with pytest.raises(ValueError, match="a centre with a smaller condition number would work"):
        Mean(Ball(SPD(2), np.diag([1e7, 1e-7]), 1e-3)).check(100)


@pytest.mark.parametrize("radius", [6.0, 10.0, 14.0])
def test_in_a_wide_ball_what_rounding_adds_to_the_noise_is_small(radius: float) -> None:
    """A thousand records: the tolerance is below a hundredth of the sensitivity."""
    mean = Mean(Ball(SPD(3), np.eye(3), radius))
    assert mean.tolerance() < 0.01 * mean.sensitivity(1000)


@pytest.mark.parametrize("far", [5.0, 15.0, 19.0])
def test_in_a_very_wide_ball_records_far_out_cost_digits_but_nothing_else(far: float) -> None:
    """A record at distance ``far`` on a line of scalings, where the mean is that of numbers."""
    ball = Ball(SPD(3), np.eye(3), 20.0)
    heights = np.append(np.linspace(-0.5, 0.5, 41), far)
    result = frechet_mean(np.exp(heights / math.sqrt(3.0))[:, None, None] * np.eye(3), ball)
    exact = np.exp(heights.mean() / math.sqrt(3.0)) * np.eye(3)
    assert ball.manifold.dist(result.point, exact) <= result.error_bound
    assert math.isfinite(result.error_bound)
    assert result.iterations <= 10


@pytest.mark.parametrize("logarithms", [(0.9, 0.4, 0.17), (0.98, 0.2, 0.0)])
@pytest.mark.parametrize("radius", [30.0, 60.0])
def test_records_near_the_end_of_a_very_wide_ball_are_found(radius: float, logarithms: tuple[float, ...]) -> None:
    """25 from the centre, with condition numbers of 1e8 and 4e10: logarithms at the centre certify nothing, those nearby do."""
    manifold, rng = SPD(3), np.random.default_rng(3)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    far = (turn * np.exp(25.0 * np.array(logarithms))) @ turn.T
    far = 0.5 * (far + far.T)
    x = manifold.raw_exp(far, manifold.raw_tangent(far, 0.3 * rng.normal(size=(300, 6))))
    narrow, wide = frechet_mean(x, Ball(manifold, far, 4.0)), frechet_mean(x, Ball(manifold, np.eye(3), radius))
    assert wide.error_bound < 0.01
    assert manifold.dist(wide.point, narrow.point) <= wide.error_bound + narrow.error_bound


def in_two_units(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices ``A diag A'``, of which one in a hundred is in units that make it 1e9 times larger; and their exact mean."""
    rng = np.random.default_rng(40)
    logs = 0.4 * rng.normal(size=(count, 3)) + np.where(np.arange(count) % 100 == 7, math.log(1e9), 0.0)[:, None]
    basis = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    x = (basis * np.exp(logs)[:, None, :]) @ basis.T
    return 0.5 * (x + x.transpose(0, 2, 1)), (basis * np.exp(logs.mean(axis=0))) @ basis.T


@pytest.mark.parametrize("radius", [20.0, 40.0, 60.0])
def test_records_in_other_units_cost_a_mean_in_a_wide_ball_no_digits(radius: float) -> None:
    """Logarithms across such a ball may lose all digits, but those of the records met do not, and the bound says so.

    At radius 20 records of the other units are clipped, so the exact mean is another; there the bound alone is looked at.
    """
    ball, (x, exact) = Ball(SPD(3), np.eye(3), radius), in_two_units(1000)
    result = frechet_mean(x, ball)
    assert result.error_bound < 1e-7
    assert result.iterations <= 16
    if radius > 36.0:
        assert ball.manifold.dist(result.point, exact) <= result.error_bound
    chunks = frechet_mean(lambda: iter(np.array_split(x, 7)), ball)
    weighted = frechet_mean(x, ball, weights=np.ones(len(x)))
    for other in (chunks, weighted, frechet_mean(da.from_array(x, chunks=(300, 3, 3)), ball)):
        assert other.error_bound == pytest.approx(result.error_bound, rel=0.5)
        assert ball.manifold.dist(other.point, result.point) <= other.error_bound + result.error_bound


def test_one_record_without_digits_does_not_keep_the_mean_from_the_others() -> None:
    """A condition number of 1e15: nothing is certified, and yet the mean is found as the others and this one have it."""
    ball, heights = Ball(SPD(3), np.eye(3), 40.0), np.linspace(0.5, 1.5, 200)
    x = np.exp(heights)[:, None, None] * np.eye(3)
    x[0] = np.diag([1.0, 1.0, 1e-15])
    exact = np.diag(np.exp(np.log(x[:, range(3), range(3)]).mean(axis=0)))
    result = frechet_mean(x, ball)
    assert ball.manifold.dist(result.point, exact) < 1e-3
    assert result.error_bound > 1e-3


def test_compiled_loops_round_no_more_than_the_reach_of_rounding_says() -> None:
    """In other units and not: coordinates of the compiled loop and of the manifold's own logarithm, twice the bound apart."""
    manifold, rng = SPD(3), np.random.default_rng(41)
    p = random_points(manifold, 1, rng)[0]
    v = random_tangents(manifold, np.stack([p] * 300), rng, 8.0) + np.linspace(0.0, 20.0, 300)[:, None, None] * p
    q = manifold.exp(p, v)
    log = manifold.raw_log(p, q)
    compiled = SmallSPD(manifold).coordinates(Ball(manifold, p, 100.0), q.copy())
    off = np.linalg.vector_norm(compiled - manifold.raw_coordinates(p, log), axis=-1)
    bounds = np.array([manifold.log_rounding(p, float(reach)) for reach in manifold.rounding_reach(p, log)])
    assert (off <= 2.0 * bounds).all()
    assert (bounds < 1e-7).all()


def test_log_eigenvalues_up_to_twelve_converge() -> None:
    rng = np.random.default_rng(26)
    turns = np.linalg.qr(rng.normal(size=(60, 3, 3)))[0]
    x = (turns * np.exp(rng.uniform(-12.0, 12.0, size=(60, 3)))[:, None, :]) @ turns.transpose(0, 2, 1)
    x = 0.5 * (x + x.transpose(0, 2, 1))
    ball = Ball(SPD(3), np.eye(3), 21.0)
    frechet_mean(x, ball)
    small = Ball(SPD(3), np.eye(3), 9.0)
    converged(x, small, most_passes=100)


def test_one_matrix_of_condition_1e14_among_others_converges() -> None:
    ball = Ball(SPD(3), np.eye(3), 3.0)
    x = inside(ball, 50, np.random.default_rng(27))
    x[7] = np.diag([1e7, 1.0, 1e-7])
    converged(x, ball)


@pytest.mark.parametrize("scale", [1e-12, 1e-150, 1e9])
def test_covariances_in_other_units_have_the_same_mean(scale: float) -> None:
    ball, scaled = Ball(SPD(3), np.eye(3), 2.0), Ball(SPD(3), scale * np.eye(3), 2.0)
    x = inside(ball, 50, np.random.default_rng(28))
    assert np.allclose(converged(scale * x, scaled) / scale, converged(x, ball), rtol=1e-10)


@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(5), PlanarShapes(4), Rotations(3)], ids=repr)
def test_a_first_record_far_from_all_others_does_not_mislead_the_solver(manifold: Manifold) -> None:
    ball = public_ball(manifold, 0.99)
    others = inside(ball, 40, np.random.default_rng(29), 0.0, 0.2)
    ends = on_axes(ball, np.array([[1.0], [-1.0]]))
    x = np.concatenate([ends[:1], manifold.exp(ends[1], 0.9 * manifold.log(ends[1], others))])
    first = converged(x, ball)
    assert manifold.dist(first, converged(x[::-1], ball)) <= 2.0 * default_tolerance(ball)


def test_copies_of_a_single_record_have_it_as_their_mean() -> None:
    for manifold in MANIFOLDS:
        ball = public_ball(manifold, 0.95)
        x = np.repeat(inside(ball, 1, np.random.default_rng(30), 1.0, 1.0), 300, axis=0)
        assert manifold.dist(converged(x, ball, most_passes=6), ball.clip(x[0])) <= default_tolerance(ball)


def test_a_weight_that_is_no_number_is_not_shown() -> None:
    with pytest.raises(ValueError, match="the weights must be finite") as error:
        frechet_mean(np.tile(np.eye(2), (2, 1, 1)), Ball(SPD(2), np.eye(2), 1.0), weights=["1", "secret"])
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("fraction", "seed"), [(0.995, 67), (0.999, 86)])
def test_a_flat_valley_takes_few_passes(fraction: float, seed: int) -> None:
    """Two groups nearly opposite each other on a ball close to the largest: the energy is nearly flat across, and falls by less
    than its rounding long before the mean is reached. These took 769 and 1,509 passes while only the energy was looked at."""
    radius = 0.5 * fraction * np.pi
    turn = np.where(np.arange(20) % 2 == 0, 0.0, np.pi) + 1e-3 * np.random.default_rng(seed).normal(size=20)
    x = np.stack([np.sin(radius) * np.cos(turn), np.sin(radius) * np.sin(turn), np.full(20, np.cos(radius))], axis=-1)
    ball = Ball(Sphere(2), [0.0, 0.0, 1.0], radius)
    result = frechet_mean(x, ball)
    assert result.iterations <= 60
    assert result.error_bound <= default_tolerance(ball)
