"""The contract of a manifold, checked on every manifold of one list.

A new manifold gets all of this by being added to ``cases.MANIFOLDS``. Tolerances are in units of the machine epsilon
times a generous constant: every property holds exactly in real arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import MANIFOLDS, random_points, random_tangents

from geodp import SPD, Manifold, Product, Sphere

every_manifold = pytest.mark.parametrize("manifold", MANIFOLDS, ids=repr)
CLOSE = 2e-11


def rng_for(manifold: Manifold) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, repr(manifold))))


def pairs(manifold: Manifold, count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points ``p``, tangent vectors ``v`` inside the injectivity radius, and ``exp(p, v)``."""
    rng = rng_for(manifold)
    p = random_points(manifold, count, rng)
    v = random_tangents(manifold, p, rng, spread=2.0)
    return p, v, manifold.exp(p, v)


def norm(manifold: Manifold, p: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.asarray(manifold.norm(p, v))


@every_manifold
def test_the_origin_and_every_exp_are_points(manifold: Manifold) -> None:
    _, _, q = pairs(manifold)
    assert manifold.check_point(manifold.origin) is None
    assert manifold.check_point(q) is None
    assert manifold.valid(q).all()
    assert manifold.origin.shape == manifold.point_shape


@every_manifold
def test_log_inverts_exp_inside_the_injectivity_radius(manifold: Manifold) -> None:
    p, v, q = pairs(manifold)
    assert norm(manifold, p, manifold.log(p, q) - v).max() < CLOSE


@every_manifold
def test_exp_inverts_log(manifold: Manifold) -> None:
    rng = rng_for(manifold)
    p, q = random_points(manifold, 40, rng), random_points(manifold, 40, rng)
    assert np.max(manifold.dist(manifold.exp(p, manifold.log(p, q)), q)) < CLOSE


@every_manifold
def test_dist_is_the_norm_of_log_and_symmetric(manifold: Manifold) -> None:
    p, v, q = pairs(manifold)
    distances = np.asarray(manifold.dist(p, q))
    assert np.abs(distances - norm(manifold, p, manifold.log(p, q))).max() < CLOSE
    assert np.abs(distances - norm(manifold, p, v)).max() < CLOSE
    assert np.abs(distances - manifold.dist(q, p)).max() < CLOSE


@every_manifold
def test_dist_from_a_point_to_itself_is_zero(manifold: Manifold) -> None:
    # a point stored in floats determines a subspace or a shape only up to its last bits
    p, _, _ = pairs(manifold)
    assert np.max(manifold.dist(p, p)) < 1e-15
    assert norm(manifold, p, manifold.log(p, p)).max() < 1e-15


@every_manifold
def test_dist_obeys_the_triangle_inequality(manifold: Manifold) -> None:
    rng = rng_for(manifold)
    x, y, z = (random_points(manifold, 60, rng, spread=3.0) for _ in range(3))
    assert (np.asarray(manifold.dist(x, y)) + manifold.dist(y, z) - manifold.dist(x, z)).min() > -CLOSE


@every_manifold
def test_geodesics_have_constant_speed_and_are_shortest(manifold: Manifold) -> None:
    p, v, _ = pairs(manifold, 20)
    lengths = norm(manifold, p, v)
    times = np.linspace(0.0, 1.0, 6).reshape(-1, *(1,) * p.ndim)
    path = manifold.exp(p, times * v)
    steps = np.asarray(manifold.dist(path[1:], path[:-1]))
    assert np.abs(steps - lengths / 5.0).max() < CLOSE


@every_manifold
def test_inner_is_the_polarisation_of_the_distance(manifold: Manifold) -> None:
    # the metric read off from distances alone: |u - v|^2 of small vectors is the squared distance of their ends
    rng = rng_for(manifold)
    p = random_points(manifold, 10, rng)
    u, v = random_tangents(manifold, p, rng), random_tangents(manifold, p, rng)
    small = 1e-4
    apart = np.asarray(manifold.dist(manifold.exp(p, small * u), manifold.exp(p, small * v))) / small
    polar = 0.5 * (norm(manifold, p, u) ** 2 + norm(manifold, p, v) ** 2 - apart**2)
    assert np.abs(polar - manifold.inner(p, u, v)).max() < 1e-6


@every_manifold
def test_frames_are_orthonormal_and_coordinates_invert_them(manifold: Manifold) -> None:
    p, v, _ = pairs(manifold, 5)
    frame = manifold.tangent(p[:, None], np.eye(manifold.dim))
    gram = np.asarray(manifold.inner(p[:, None, None], frame[:, :, None], frame[:, None, :]))
    assert np.abs(gram - np.eye(manifold.dim)).max() < CLOSE
    coordinates = manifold.coordinates(p, v)
    assert coordinates.shape == (5, manifold.dim)
    assert norm(manifold, p, manifold.tangent(p, coordinates) - v).max() < CLOSE


@every_manifold
def test_move_origin_is_an_isometry_that_takes_the_origin_to_the_point(manifold: Manifold) -> None:
    rng = rng_for(manifold)
    p = random_points(manifold, 12, rng)
    x, y = random_points(manifold, 12, rng), random_points(manifold, 12, rng)
    assert np.max(manifold.dist(manifold.move_origin(p, manifold.origin), p)) < CLOSE
    moved = manifold.dist(manifold.move_origin(p, x), manifold.move_origin(p, y))
    assert np.abs(np.asarray(moved) - manifold.dist(x, y)).max() < CLOSE


@every_manifold
def test_the_frame_at_a_point_is_the_moved_frame_of_the_origin(manifold: Manifold) -> None:
    rng = rng_for(manifold)
    p = random_points(manifold, 12, rng)
    coordinates = 0.5 * min(1.0, manifold.injectivity_radius) * rng.normal(size=(12, manifold.dim)) / manifold.dim**0.5
    here = manifold.exp(p, manifold.tangent(p, coordinates))
    there = manifold.move_origin(p, manifold.exp(manifold.origin, manifold.tangent(manifold.origin, coordinates)))
    assert np.max(manifold.dist(here, there)) < CLOSE


@every_manifold
def test_a_batch_equals_a_loop(manifold: Manifold) -> None:
    p, v, q = pairs(manifold, 7)
    loops = {
        "exp": [manifold.exp(a, b) for a, b in zip(p, v, strict=True)],
        "log": [manifold.log(a, b) for a, b in zip(p, q, strict=True)],
        "dist": [manifold.dist(a, b) for a, b in zip(p, q, strict=True)],
        "norm": [manifold.norm(a, b) for a, b in zip(p, v, strict=True)],
        "log_volume_density": [manifold.log_volume_density(a, b) for a, b in zip(p, v, strict=True)],
        "inside_cut_locus": [manifold.inside_cut_locus(a, b) for a, b in zip(p, v, strict=True)],
        "coordinates": [manifold.coordinates(a, b) for a, b in zip(p, v, strict=True)],
        "move_origin": [manifold.move_origin(a, b) for a, b in zip(p, q, strict=True)],
    }
    for name, loop in loops.items():
        batch = getattr(manifold, name)(p, q if name in ("log", "dist", "move_origin") else v)
        assert np.allclose(batch, np.array(loop), rtol=1e-12, atol=1e-13), name


@every_manifold
def test_leading_axes_broadcast(manifold: Manifold) -> None:
    p, _, q = pairs(manifold, 6)
    one, table = p[0], q.reshape(2, 3, *manifold.point_shape)
    assert np.shape(manifold.dist(one, table)) == (2, 3)
    assert np.shape(manifold.dist(table, one)) == (2, 3)
    assert manifold.log(one, table).shape == table.shape
    assert manifold.log(table, one).shape == table.shape
    assert manifold.exp(p[:, None], 0.1 * manifold.log(p[:, None], q[None, :])).shape == (6, 6, *manifold.point_shape)
    assert manifold.tangent(one, np.zeros((4, manifold.dim))).shape == (4, *manifold.point_shape)
    assert manifold.tangent(p, np.zeros(manifold.dim)).shape == p.shape
    assert np.shape(manifold.norm(p, np.zeros(manifold.point_shape))) == (6,)
    assert np.shape(manifold.log_volume_density(p, np.zeros(manifold.point_shape))) == (6,)
    assert np.shape(manifold.inside_cut_locus(p, np.zeros(manifold.point_shape))) == (6,)
    assert manifold.exp(np.empty((0, *manifold.point_shape)), np.empty((0, *manifold.point_shape))).shape[0] == 0


@every_manifold
def test_project_leaves_points_and_repairs_perturbed_ones(manifold: Manifold) -> None:
    p, _, _ = pairs(manifold, 10)
    assert np.max(manifold.dist(manifold.project(p), p)) < CLOSE
    nearby = p + 1e-9 * rng_for(manifold).normal(size=p.shape)
    repaired = manifold.project(nearby)
    assert manifold.check_point(repaired) is None
    assert np.max(manifold.dist(repaired, p)) < 1e-6


@every_manifold
def test_single_precision_is_read_as_the_point_next_to_it(manifold: Manifold) -> None:
    p, _, q = pairs(manifold, 10)
    single = p.astype(np.float32)
    assert np.max(manifold.dist(single, p)) < 1e-4
    answer = manifold.log(single, q)
    assert answer.dtype == np.float64
    assert manifold.check_point(manifold.exp(single, answer)) is None


@every_manifold
def test_points_are_not_written_to(manifold: Manifold) -> None:
    p, v, q = pairs(manifold, 4)
    kept = p.copy(), v.copy(), q.copy()
    manifold.exp(p, v), manifold.log(p, q), manifold.dist(p, q), manifold.project(q), manifold.norm(p, v)
    assert all(np.array_equal(a, b) for a, b in zip((p, v, q), kept, strict=True))


@every_manifold
def test_inside_cut_locus_agrees_with_being_shortest(manifold: Manifold) -> None:
    rng = rng_for(manifold)
    p = random_points(manifold, 300, rng)
    reach = manifold.diameter if math.isfinite(manifold.diameter) else 4.0
    directions = rng.normal(size=(300, manifold.dim))
    directions *= (1.2 * reach * rng.uniform(size=300) / np.linalg.vector_norm(directions, axis=-1))[:, None]
    v = manifold.tangent(p, directions)
    lengths = norm(manifold, p, v)
    shortest = np.asarray(manifold.dist(p, manifold.exp(p, v))) > lengths - 1e-9
    assert np.array_equal(manifold.inside_cut_locus(p, v), shortest)
    assert lengths[shortest].max() < manifold.diameter + 1e-9
    assert shortest[lengths < manifold.injectivity_radius - 1e-9].all()
    assert math.isinf(manifold.diameter) or not shortest.all()


@every_manifold
def test_log_and_exp_never_return_nan_for_valid_input(manifold: Manifold) -> None:
    rng = rng_for(manifold)
    p = random_points(manifold, 30, rng, spread=3.0)
    for q in (p, np.broadcast_to(manifold.origin, p.shape), random_points(manifold, 30, rng, spread=1e-200)):
        assert np.isfinite(manifold.dist(p, q)).all()
        assert np.isfinite(manifold.log(p, q)).all()
        assert np.isfinite(manifold.exp(p, np.zeros_like(p))).all()


@every_manifold
def test_manifolds_compare_by_value_and_print_as_they_are_written(manifold: Manifold) -> None:
    import geodp

    again = eval(repr(manifold), vars(geodp).copy())
    assert again == manifold
    assert hash(again) == hash(manifold)
    assert manifold != SPD(9)


# ---------------------------------------------------------------------- isometries that are special to a family


def random_orthogonal(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


@every_manifold
def test_distances_are_invariant_under_the_symmetries_of_the_family(manifold: Manifold) -> None:
    rng = rng_for(manifold)
    p, q = random_points(manifold, 20, rng), random_points(manifold, 20, rng)
    name, shape = type(manifold).__name__, manifold.point_shape
    if name == "Product":
        pytest.skip("its factors are in the list themselves")
    if name == "SPD":
        a = rng.normal(size=shape)
        moved = a @ p @ a.T, a @ q @ a.T
    elif name == "SPDLogEuclidean":
        a = random_orthogonal(shape[0], rng)
        moved = a @ p @ a.T, a @ q @ a.T
    elif name == "Rotations":
        left, right = manifold.project(rng.normal(size=shape)), manifold.project(rng.normal(size=shape))
        moved = left @ p @ right, left @ q @ right
    elif name == "PlanarShapes":
        angle, mirror = rng.uniform(0, 6, size=(20, 1, 1)), np.diag([1.0, -1.0])
        turn = np.concatenate([np.cos(angle), np.sin(angle)], -1), np.concatenate([-np.sin(angle), np.cos(angle)], -1)
        moved = (p @ np.concatenate(turn, axis=-2)) @ mirror, q @ mirror
    elif name == "Grassmann":
        a = random_orthogonal(shape[0], rng)
        moved = a @ p @ random_orthogonal(shape[1], rng), a @ q @ random_orthogonal(shape[1], rng)
    elif name == "Hyperbolic":
        a = np.eye(shape[0])
        a[1:, 1:] = random_orthogonal(shape[0] - 1, rng)
        boost = random_points(manifold, 1, rng)[0]
        reflect = np.diag([-1.0, *[1.0] * (shape[0] - 1)])
        # reflection in the Minkowski-orthogonal complement of a space-like vector
        axis = boost - manifold.origin
        reflection = np.eye(shape[0]) - 2.0 * np.outer(axis, reflect @ axis) / (axis @ reflect @ axis)
        moved = p @ (a @ reflection).T, q @ (a @ reflection).T
    else:
        a = random_orthogonal(shape[0], rng)
        shift = rng.normal(size=shape) if name == "Euclidean" else 0.0
        moved = p @ a.T + shift, q @ a.T + shift
    assert np.abs(np.asarray(manifold.dist(*moved)) - manifold.dist(p, q)).max() < CLOSE


def test_squared_distances_of_a_product_add_up() -> None:
    rng = np.random.default_rng(5)
    product = Product(Sphere(2), SPD(3))
    p, q = random_points(product, 10, rng), random_points(product, 10, rng)
    parts = zip(product.factors, product.split(p), product.split(q), strict=True)
    squares = sum(np.asarray(factor.dist(a, b)) ** 2 for factor, a, b in parts)
    assert np.allclose(np.asarray(product.dist(p, q)) ** 2, squares, rtol=1e-13)
    assert np.array_equal(product.join(*product.split(p)), p)


def test_spheres_of_other_curvature_are_scaled_unit_spheres() -> None:
    rng = np.random.default_rng(6)
    p, q = random_points(Sphere(3), 10, rng), random_points(Sphere(3), 10, rng)
    small = Sphere(3, curvature=4.0)
    assert np.allclose(small.dist(p / 2, q / 2), np.asarray(Sphere(3).dist(p, q)) / 2, rtol=1e-14)
    assert small.injectivity_radius == math.pi / 2
    assert small.curvature == 4.0
    assert Sphere(1, curvature=4.0).curvature == 0.0
