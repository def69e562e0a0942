"""Correlation matrices, compositions, log-Cholesky matrices and poses against closed forms, pyRiemann, SciPy and fifty digits.

Nothing here is random but seeds that are fixed, so there are no false alarms.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from cases import MANIFOLDS, longer, random_points
from pyriemann.geometry.distance import distance_logchol
from pyriemann.geometry.mean import mean_logchol
from scipy.spatial.transform import Rotation
from scipy.stats import gmean

import geodp
from geodp import Ball, Correlation, Euclidean, Poses, Product, Rotations, Simplex, SPDLogCholesky, SPDLogEuclidean
from geodp.inputs import Array
from geodp.manifolds import FlatChart
from geodp.noise import exact
from geodp.statistics.mean import Mean

FLAT = [manifold for manifold in MANIFOLDS if isinstance(manifold, FlatChart)]


def off_log(matrix: Array) -> Array:
    """The logarithm off the diagonal, in fifty digits, with coordinates whose norm counts every pair twice."""
    with mpmath.workdps(50):
        values, vectors = mpmath.eigsy(mpmath.matrix(matrix.tolist()))
        log = vectors * mpmath.diag([mpmath.log(value) for value in values]) * vectors.T
        return np.array([float(mpmath.sqrt(2) * log[i, j]) for i in range(len(matrix)) for j in range(i + 1, len(matrix))])


def hollow(k: int, norm: float, seed: int) -> Array:
    """Coordinates of a matrix with zero diagonal whose largest eigenvalue has this size."""
    coordinates = np.random.default_rng(seed).normal(size=k * (k - 1) // 2)
    return coordinates * norm / np.abs(np.linalg.eigvalsh(Correlation(k).raw_tangent(np.eye(k), coordinates))).max()


# ---------------------------------------------------------------------- correlation matrices


@pytest.mark.parametrize("rho", [-0.999999, -0.5, 0.0, 1e-9, 0.3, 0.999999])
def test_two_variables_have_fishers_z_for_a_chart(rho: float) -> None:
    found = Correlation(2).raw_chart(np.array([[1.0, rho], [rho, 1.0]]))
    assert found == pytest.approx([math.sqrt(2.0) * math.atanh(rho)], rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 7, 40])
def test_equal_correlations_have_equal_logarithms(k: int) -> None:
    rho = np.array([-0.5 / k, 0.2, 0.9])[:, None, None]
    matrices = (1.0 - rho) * np.eye(k) + rho
    wanted = (np.log1p((k - 1.0) * rho) - np.log1p(-rho)) / k
    assert np.allclose(Correlation(k).raw_chart(matrices), math.sqrt(2.0) * wanted[..., 0], rtol=1e-10, atol=1e-13)
    mean = geodp.frechet_mean(matrices, Ball(Correlation(k), np.eye(k), 20.0)).point
    between = np.log((1.0 + (k - 1.0) * mean[0, 1]) / (1.0 - mean[0, 1])) / k
    assert np.ptp(mean[~np.eye(k, dtype=np.bool_)]) < 1e-12
    assert between == pytest.approx(wanted.mean(), rel=1e-10)


@pytest.mark.parametrize("norm", [0.1, 2.0, 5.0, 8.0])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_way_back_finds_the_matrix_whose_exact_logarithm_is_the_given_one(k: int, norm: float) -> None:
    manifold, coordinates = Correlation(k), hollow(k, norm, k)
    matrix = manifold.raw_inverse(coordinates)
    assert np.array_equal(np.diag(matrix), np.ones(k))
    assert np.array_equal(matrix, matrix.T)
    error = np.linalg.vector_norm(off_log(matrix) - coordinates)
    assert error <= manifold.reading_rounding(matrix) < 0.01
    assert np.linalg.vector_norm(manifold.raw_chart(matrix) - off_log(matrix)) <= manifold.reading_rounding(matrix)


@pytest.mark.parametrize("k", longer([50, 100, 200], [100]))
def test_the_way_back_works_for_hundreds_of_variables(k: int) -> None:
    manifold, coordinates = Correlation(k), hollow(k, 3.0, k)
    assert np.abs(manifold.raw_chart(manifold.raw_inverse(coordinates)) - coordinates).max() < 1e-11


def test_the_way_back_ends_whatever_the_numbers_are() -> None:
    rng = np.random.default_rng(1)
    for k in (2, 5, 20):
        for size in (3.0, 30.0, 1e3, 1e300):
            assert Correlation(k).valid(Correlation(k).from_chart(size * rng.normal(size=k * (k - 1) // 2)))
    x = np.array([np.corrcoef(rng.normal(size=(40, 30))) for _ in range(20)])
    ball = Ball(Correlation(40, shrink=0.1), np.eye(40), 10.0)
    release = geodp.private_mean(x, ball, epsilon=0.01, anyway=True)  # noise of length 8e5
    assert Correlation(40, shrink=0.1).valid(release.value)


def test_distances_do_not_depend_on_the_order_of_the_variables() -> None:
    manifold, rng = Correlation(6), np.random.default_rng(2)
    p, q = random_points(manifold, 20, rng, 3.0), random_points(manifold, 20, rng, 3.0)
    order = rng.permutation(6)
    assert np.allclose(manifold.dist(p[:, order][:, :, order], q[:, order][:, :, order]), manifold.dist(p, q), rtol=1e-11)


def test_shrinkage_makes_points_of_matrices_of_any_rank() -> None:
    rng, plain, shrunk = np.random.default_rng(3), Correlation(8), Correlation(8, shrink=0.05)
    singular = np.array([np.corrcoef(rng.normal(size=(8, 4))) for _ in range(20)])
    assert plain.check_point(singular).endswith("Correlation(k, shrink=0.01) takes singular matrices")
    assert not plain.valid(singular).any()
    assert shrunk.valid(singular).all()
    assert np.allclose(shrunk.dist(singular[:10], singular[10:]), plain.dist(*np.split(shrunk.shrunk(singular), 2)), rtol=1e-10)
    mean = geodp.frechet_mean(singular, Ball(shrunk, np.eye(8), 20.0)).point
    wanted = plain.raw_chart(shrunk.shrunk(singular)).mean(axis=0)
    assert np.allclose(plain.raw_chart(shrunk.shrunk(mean)), wanted, atol=1e-10)


def test_a_private_mean_keeps_digits_that_its_matrix_would_lose() -> None:
    """The tolerance of a release holds of the kept coordinates, and not of the nearly singular matrix read again."""
    manifold, rng, n = Correlation(4), np.random.default_rng(4), 1000
    far = rng.normal(size=manifold.dim)
    ball = Ball(manifold, manifold.origin, 14.0)
    edge = manifold.raw_inverse(12.9 * far / np.linalg.vector_norm(far))
    assert np.linalg.eigvalsh(edge)[0] < 1e-7
    x = np.stack([edge] * n)
    values = []
    for last in (edge, manifold.origin):
        x[-1] = last
        values.append(Mean(ball).compute(x, n))
    moved = float(manifold.raw_dist(*values))
    assert moved == pytest.approx(float(np.asarray(manifold.dist(edge, manifold.origin))) / n, rel=1e-9)
    assert np.linalg.vector_norm(manifold.raw_position(values[0]) - manifold.raw_chart(edge)) <= Mean(ball).tolerance()
    read = manifold.raw_chart(manifold.raw_readable(values[1])) - manifold.raw_position(values[1])
    assert np.linalg.vector_norm(read) > 10.0 * Mean(ball).tolerance()


# ---------------------------------------------------------------------- all flat charts


@pytest.mark.parametrize("manifold", longer(FLAT, FLAT[3:]), ids=repr)
def test_a_mean_is_the_mean_of_the_clipped_coordinates_however_records_are_read(manifold: FlatChart) -> None:
    rng = np.random.default_rng(5)
    x = random_points(manifold, 700, rng, 2.0)
    ball = Ball(manifold, random_points(manifold, 1, rng)[0], 1.5)
    x[5] = -1.0  # not a point
    away = manifold.raw_chart(np.where(np.arange(700).reshape(-1, *(1,) * (x.ndim - 1)) == 5, ball.center, x))
    away -= manifold.raw_chart(ball.center)
    length = np.linalg.vector_norm(away, axis=-1, keepdims=True)
    away *= np.minimum(1.0, ball.radius / np.maximum(length, 1e-300))
    for read in (x, [x[:300], x[300:]]):
        found = manifold.raw_chart(geodp.frechet_mean(read, ball).point) - manifold.raw_chart(ball.center)
        assert np.abs(found - away.mean(axis=0)).max() < 1e-10
    by = rng.integers(3, size=700)
    points = geodp.frechet_means(x, ball, by).points
    wanted = [away[by == group].mean(axis=0) for group in range(3)]
    assert np.abs(manifold.raw_chart(points) - manifold.raw_chart(ball.center) - wanted).max() < 1e-10


@pytest.mark.parametrize("manifold", longer(FLAT, FLAT[3:]), ids=repr)
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_draw_is_that_of_vector_noise_about_the_coordinates(manifold: FlatChart, family: str) -> None:
    center, flat = random_points(manifold, 1, np.random.default_rng(6))[0], Euclidean(manifold.dim)
    ours = exact.sample(manifold, 0.3, center, family=family, entropy=exact.NotPrivate(7))
    theirs = exact.sample(flat, 0.3, manifold.raw_chart(center), family=family, entropy=exact.NotPrivate(7))
    assert ours.steps == theirs.steps
    assert np.abs(manifold.raw_chart(ours.value) - theirs.value).max() < 1e-9


@pytest.mark.parametrize("manifold", [Correlation(3), SPDLogCholesky(2), Product(Correlation(3), Simplex(3))], ids=repr)
def test_people_see_points_and_never_the_coordinates_that_are_kept(manifold: geodp.Manifold) -> None:
    rng = np.random.default_rng(8)
    x = random_points(manifold, 200, rng, 3.0)
    ball = Ball(manifold, manifold.origin, 1.0)
    shown = [ball.clip(x), geodp.frechet_mean(x, ball).point, geodp.frechet_means(x, ball, np.arange(200) % 2).points]
    shown += [geodp.private_mean(x, ball, epsilon=1.0, mechanism=kind).value for kind in ("intrinsic", "tangent")]
    shown += [geodp.private_mean(x, ball, epsilon=1.0, simulate=rng).value, geodp.Laplace(manifold, 0.1).sample(x[0], 3, rng)]
    assert all(np.abs(points).max() < 1e6 for points in shown)
    assert all(manifold.valid(points).all() for points in shown)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("manifold", longer([*FLAT, Poses()], FLAT[3:]), ids=repr)
def test_records_of_any_values_are_read_without_a_word(manifold: geodp.Manifold) -> None:
    """Also records with the mark of kept coordinates, which nobody should have; the mean is that of the others."""
    rng = np.random.default_rng(17)
    shape = (100, *manifold.point_shape)
    bad = [size * rng.uniform(-1.0, 1.0, size=shape) for size in (1.79e308, 1e200, 1.0, 1e-320)]
    bad += [np.full(shape, value) for value in (0.0, -1.0, np.nan, np.inf)]
    marked = np.concatenate(bad[:3])
    marked.reshape(len(marked), -1)[:, -1] = 2.0**1000
    good = random_points(manifold, 200, rng, 0.5)
    ball = Ball(manifold, manifold.origin, 1.0)
    for x in (np.concatenate([*bad, good]), np.concatenate([marked, good])):
        assert manifold.valid(geodp.private_mean(x, ball, epsilon=1.0, coverage=0.1).value)
        assert manifold.valid(geodp.frechet_means(x, ball, np.arange(len(x)) % 2).points).all()
        assert float(np.asarray(manifold.dist(manifold.origin, geodp.frechet_mean(x, ball).point))) <= 1.0 + 1e-9


# ---------------------------------------------------------------------- compositions


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_distances_of_compositions_are_those_of_all_log_ratios(parts: int) -> None:
    rng = np.random.default_rng(9)
    x, y = rng.dirichlet(np.ones(parts), size=(2, 30))
    ratios = [np.log(z[:, :, None] / z[:, None, :]) for z in (x, y)]
    wanted = np.sqrt(((ratios[0] - ratios[1]) ** 2).sum(axis=(1, 2)) / (2.0 * parts))
    assert np.allclose(Simplex(parts).dist(x, y), wanted, rtol=1e-12)
    scale = rng.uniform(0.1, 10.0, size=parts)
    moved = [z * scale / (z @ scale)[:, None] for z in (x, y)]
    assert np.allclose(Simplex(parts).dist(*moved), wanted, rtol=1e-11)


def test_the_mean_of_compositions_is_the_closed_geometric_mean() -> None:
    x = np.random.default_rng(10).dirichlet([1.0, 2.0, 3.0, 4.0], size=50)
    found = geodp.frechet_mean(x, Ball(Simplex(4), np.full(4, 0.25), 20.0)).point
    assert np.allclose(found, gmean(x) / gmean(x).sum(), rtol=1e-11)


def test_a_floor_makes_points_of_compositions_with_zeros() -> None:
    x = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    assert (
        Simplex(3).check_point(x) == "record 0: every share must be above 0 but one is 0: Simplex(parts, floor=0.001) takes zeros"
    )
    closed = (x + 0.01) / 1.03
    assert np.allclose(Simplex(3, floor=0.01).dist(*x), Simplex(3).dist(*closed), rtol=1e-13)
    mean = geodp.frechet_mean(x, Ball(Simplex(3, floor=0.01), x[1], 20.0)).point
    assert np.allclose((mean + 0.01) / 1.03, gmean(closed) / gmean(closed).sum(), rtol=1e-11)


def test_the_ratio_of_two_parts_changes_by_no_more_than_said() -> None:
    x, y = np.random.default_rng(11).dirichlet([0.5, 1.0, 2.0], size=(2, 100))
    (unit,) = Simplex(3).units
    for a, b in zip(x, y, strict=True):
        changes = (a[:, None] / a) / (b[:, None] / b)
        assert changes.max() <= unit.convert(float(np.asarray(Simplex(3).dist(a, b)))) * (1.0 + 1e-12)


# ---------------------------------------------------------------------- log-Cholesky, poses


@pytest.mark.parametrize("k", [1, 2, 5])
def test_log_cholesky_agrees_with_pyriemann(k: int) -> None:
    manifold = SPDLogCholesky(k)
    p, q = (random_points(manifold, 20, np.random.default_rng(seed), 3.0) for seed in (12, 13))
    assert np.allclose(manifold.dist(p, q), [distance_logchol(a, b) for a, b in zip(p, q, strict=True)], rtol=1e-9)
    mean = geodp.frechet_mean(p, Ball(manifold, np.eye(k), 5.0)).point
    assert np.allclose(mean, mean_logchol(p), rtol=1e-9)


@pytest.mark.parametrize("length", [1.0, 0.25])
def test_poses_are_rotations_and_positions_in_units_of_the_length(length: float) -> None:
    rng = np.random.default_rng(14)
    turns, places = Rotation.random(40, rng=rng), rng.normal(size=(40, 3))
    x = np.concatenate([turns.as_matrix(), places[..., None]], axis=-1)
    angles = (turns[:20].inv() * turns[20:]).magnitude()
    wanted = np.hypot(angles, np.linalg.vector_norm(places[:20] - places[20:], axis=-1) / length)
    assert np.allclose(Poses(length).dist(x[:20], x[20:]), wanted, rtol=1e-12)
    product = Product(Rotations(3), Euclidean(3))
    scaled = product.join(turns.as_matrix(), places / length)
    assert np.allclose(product.dist(scaled[:20], scaled[20:]), wanted, rtol=1e-12)
    far = Ball(Poses(length), np.column_stack([np.eye(3), [4.5e6, 5e5, 0.0]]), 1.5)  # metres of a map
    near = geodp.private_mean(np.stack([far.center] * 100), far, epsilon=10.0).value
    assert np.linalg.vector_norm(near[:, 3] - far.center[:, 3]) < length
    ball = Ball(Poses(length), x[0], 1.5)
    means = geodp.frechet_mean(x, ball).point, geodp.frechet_mean(scaled, Ball(product, scaled[0], 1.5)).point
    assert np.allclose(means[0][:, :3].ravel(), means[1][:9], atol=1e-8)
    assert np.allclose(means[0][:, 3] / length, means[1][9:], atol=1e-8)


def test_poses_are_read_from_quaternions_and_square_matrices_as_scipy_has_them() -> None:
    rng = np.random.default_rng(15)
    turns, places = Rotation.random(10, rng=rng), rng.normal(size=(10, 3))
    square = np.broadcast_to(np.eye(4), (10, 4, 4)).copy()
    square[:, :3, :3], square[:, :3, 3] = turns.as_matrix(), places
    rows = {"rows": square[:, :3], "matrix": square, "quaternion": np.concatenate([places, turns.as_quat()], axis=-1)}
    for layout in Poses().layouts:
        cells = rows[layout.name].reshape(10, -1)
        points = cells.reshape(10, 3, 4) if layout.convert is None else layout.convert(cells)
        assert np.allclose(points, square[:, :3], atol=1e-12)
        written = np.stack([layout.row(point) for point in points])
        sign = np.sign(written[:, -1:] * cells[:, -1:]) if layout.name == "quaternion" else 1.0
        assert np.allclose(written[:, 3:], sign * cells[:, 3:], atol=1e-12)
    square[3, 3, 0] = 0.1
    assert not Poses().valid(Poses().layouts[1].convert(square.reshape(10, 16)))[3]


@pytest.mark.parametrize("k", longer([2, 5], [5]))
def test_log_euclidean_draws_need_no_decomposition_in_intervals(k: int) -> None:
    assert SPDLogEuclidean(k).exact_chart.__func__ is FlatChart.exact_chart


# ---------------------------------------------------------------------- time


@pytest.mark.slow
def test_a_mean_of_correlation_matrices_takes_little_more_than_their_eigen_decompositions() -> None:
    """Processor time, the best of five in turn: 1.4 times was seen, on a machine that others used too."""
    import time

    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(16)
    x = np.array([np.corrcoef(rng.normal(size=(100, 300))) for _ in range(1000)])
    ball = Ball(Correlation(100), np.eye(100), 8.0)

    def taken(work: object) -> float:
        start = time.process_time()
        work()  # type: ignore[operator]
        return time.process_time() - start

    with threadpool_limits(1):
        times = [(taken(lambda: np.linalg.eigh(x)), taken(lambda: geodp.frechet_mean(x, ball))) for _ in range(5)]
    eigen, mean = (min(column) for column in zip(*times, strict=True))
    assert mean < 1.75 * eigen
