"""The contract of a manifold, checked on every manifold of one list.

A new manifold gets all of this by being added to ``cases.MANIFOLDS``. The properties themselves are in ``geodp.testing``, so that
people can check manifolds of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from cases import MANIFOLDS, ONE_OF_EACH, USUAL, every_manifold, random_points

from geodp import SPD, Euclidean, Manifold, Product, Sphere
from geodp.testing import (
    CLOSE,
    PROPERTIES,
    check_manifold,
    curvature_bounds_are_the_extreme_curvatures_of_planes,
    injectivity_radius_and_diameter_are_the_extreme_cut_times,
    log_rounding_covers_the_error_of_log,
    the_embedding_has_the_diameter_and_the_nearest_points_it_says,
)

#: Properties that take longest: in the normal suite on one manifold of every family.
LONG = (
    curvature_bounds_are_the_extreme_curvatures_of_planes,
    injectivity_radius_and_diameter_are_the_extreme_cut_times,
    log_rounding_covers_the_error_of_log,
    the_embedding_has_the_diameter_and_the_nearest_points_it_says,
)


def rng_for(manifold: Manifold) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, repr(manifold))))


def takes_long(holds: Callable[[Manifold], None], manifold: Manifold) -> bool:
    return manifold not in (ONE_OF_EACH if holds in LONG else USUAL)


@pytest.mark.parametrize(
    ("holds", "manifold"),
    [
        pytest.param(
            holds, manifold, marks=pytest.mark.slow if takes_long(holds, manifold) else (), id=f"{holds.__name__}-{manifold!r}"
        )
        for manifold in MANIFOLDS
        for holds in PROPERTIES
    ],
)
def test_property(holds: Callable[[Manifold], None], manifold: Manifold) -> None:
    holds(manifold)


MISTAKES = {
    "raw_log": lambda self, p, q: 1.0001 * (q - p),
    "raw_exp": lambda self, p, v: p + v + 1e-6 * np.sin(v),
    "raw_dist": lambda self, p, q: np.linalg.vector_norm(q - p, axis=-1) ** 2,
    "raw_inner": lambda self, p, u, v: 1.001 * np.vecdot(u, v) + np.zeros(p.shape[:-1]),
    "raw_tangent": lambda self, p, coordinates: 2.0 * coordinates + np.zeros_like(p),
    "raw_move_origin": lambda self, p, x: 1.01 * p + x,
    "raw_log_volume_density": lambda self, p, v: 1e-3 * np.vecdot(v, v) + np.zeros(p.shape[:-1]),
    "raw_inside_cut_locus": lambda self, p, v: np.linalg.vector_norm(v + 0.0 * p, axis=-1) < 1.0,
    "raw_project": lambda self, x: x + 1e-5,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_any_map_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Euclidean, name, MISTAKES[name])
    with pytest.raises(AssertionError, match=r"on Euclidean\(4\): "):
        check_manifold(Euclidean(4))  # which is in the list above


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
    elif name in ("Euclidean", "Sphere"):
        a = random_orthogonal(shape[0], rng)
        shift = rng.normal(size=shape) if name == "Euclidean" else 0.0
        moved = p @ a.T + shift, q @ a.T + shift
    else:
        # Cartan: on a symmetric space every geodesic symmetry is an isometry
        p, q = (random_points(manifold, 20, rng, spread=0.3 * min(manifold.injectivity_radius, 3.0)) for _ in range(2))
        moved = tuple(manifold.exp(manifold.origin, -manifold.log(manifold.origin, x)) for x in (p, q))
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
