"""Manifolds and points of pymanopt, geomstats and SciPy: converted where the metric is the same, refused where it is not.

The oracle is their own geometry: after the conversion distances, and where they have them logarithms, are theirs, at other
points than those that the conversion looks at. geomstats is tested where it can be imported; 2.8.0 needs NumPy before 2.4.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from geodp import (
    HPD,
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
    Torus,
    frechet_mean,
    private_mean,
)
from geodp.integrations.geometry import Match, from_geomstats, from_pymanopt, to_geomstats, to_pymanopt


def points_of(manifold: Manifold, n: int, size: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(5)
    return manifold.exp(manifold.origin, manifold.tangent(manifold.origin, size * rng.normal(size=(n, manifold.dim))))


def check(match: Match, dist: Callable[[Any, Any], Any]) -> None:
    x = points_of(match.ours, 6)
    theirs = match.to_theirs(x)
    one_by_one = [match.to_theirs(point) for point in x]
    found = [float(np.squeeze(dist(a, b))) for a, b in zip(one_by_one[1:], one_by_one[:-1], strict=True)]
    assert_allclose(found, match.ours.dist(x[1:], x[:-1]), rtol=1e-9)
    assert_allclose(match.ours.dist(match.to_ours(theirs), x), 0.0, atol=1e-7)
    for point, here in zip(one_by_one, x, strict=True):
        assert_allclose(match.to_ours(point), here, atol=1e-12)


# ---------------------------------------------------------------------- pymanopt


def pymanopt_manifolds() -> Any:
    return pytest.importorskip("pymanopt", reason="pymanopt is not installed").manifolds


PYMANOPT: dict[str, tuple[Callable[[Any], Any], Manifold]] = {
    "Euclidean": (lambda p: p.Euclidean(3), Euclidean(3)),
    "matrices": (lambda p: p.Euclidean(2, 3), Euclidean(6)),
    "Sphere": (lambda p: p.Sphere(4), Sphere(3)),
    "sphere of matrices": (lambda p: p.Sphere(2, 2), Sphere(3)),
    "Oblique": (lambda p: p.Oblique(3, 4), Product(*[Sphere(2)] * 4)),
    "ComplexCircle": (lambda p: p.ComplexCircle(3), Torus(3)),
    "SPD": (lambda p: p.SymmetricPositiveDefinite(3), SPD(3)),
    "two of SPD": (lambda p: p.SymmetricPositiveDefinite(3, k=2), Product(SPD(3), SPD(3))),
    "HPD": (lambda p: p.HermitianPositiveDefinite(2), HPD(2)),
    "Grassmann": (lambda p: p.Grassmann(5, 2), Grassmann(2, 5)),
    "two of Grassmann": (lambda p: p.Grassmann(5, 2, k=2), Product(Grassmann(2, 5), Grassmann(2, 5))),
    "PoincareBall": (lambda p: p.PoincareBall(3), Hyperbolic(3)),
    "two of PoincareBall": (lambda p: p.PoincareBall(3, k=2), Product(Hyperbolic(3), Hyperbolic(3))),
    "Product": (lambda p: p.Product([p.Sphere(3), p.PoincareBall(2)]), Product(Sphere(2), Hyperbolic(2))),
    "product of circles": (lambda p: p.Product([p.Sphere(2), p.Sphere(2)]), Torus(2)),
}


@pytest.mark.parametrize("name", PYMANOPT)
def test_manifolds_of_pymanopt_convert_with_their_points(name: str) -> None:
    make, ours = PYMANOPT[name]
    match = from_pymanopt(make(pymanopt_manifolds()))
    assert match.ours == ours
    check(match, match.theirs.dist)
    np.random.seed(0)  # noqa: NPY002  (pymanopt draws from there)
    theirs = match.theirs.random_point()
    assert match.ours.check_point(match.to_ours(theirs)) is None


@pytest.mark.parametrize(
    "ours",
    [Euclidean(2), Sphere(2), Torus(3), SPD(2), HPD(2), Grassmann(1, 3), Hyperbolic(2), Product(SPD(2), Sphere(2))],
    ids=repr,
)
def test_ours_become_those_of_pymanopt(ours: Manifold) -> None:
    pymanopt_manifolds()
    match = to_pymanopt(ours)
    assert match.ours == ours
    check(match, match.theirs.dist)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: p.SpecialOrthogonalGroup(3), r"SpecialOrthogonalGroup are 1\.41421 times those of Rotations\(3\)"),
        (lambda p: p.SpecialOrthogonalGroup(3, k=2), r"are 1\.41421 times those of Product"),
        (lambda p: p.Product([p.SpecialOrthogonalGroup(3), p.Euclidean(2)]), "has another metric than Product"),
        (lambda p: p.Stiefel(4, 2), "no manifold here has the metric of pymanopt's Stiefel"),
        (lambda p: p.PSDFixedRank(4, 2), "no manifold here has the metric of pymanopt's PSDFixedRank"),
        (lambda p: p.Grassmann(5, 3), "more than half the dimension"),
    ],
)
def test_other_metrics_of_pymanopt_are_refused_with_the_difference(make: Callable[[Any], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        from_pymanopt(make(pymanopt_manifolds()))


@pytest.mark.parametrize("ours", [Rotations(3), SPDLogEuclidean(2), Sphere(2, curvature=4.0), PlanarShapes(4)], ids=repr)
def test_ours_that_pymanopt_has_not_are_refused(ours: Manifold) -> None:
    pymanopt_manifolds()
    with pytest.raises(ValueError, match=r"pymanopt has no manifold|are 1\.41421 times"):
        to_pymanopt(ours)


def test_a_release_of_their_points_goes_back_to_them() -> None:
    match = from_pymanopt(pymanopt_manifolds().PoincareBall(2))
    theirs = np.random.default_rng(0).uniform(-0.3, 0.3, (400, 2))
    ball = Ball(match.ours, match.to_ours([0.0, 0.0]), 1.0)
    release = private_mean(match.to_ours(theirs), ball, epsilon=1.0)
    value = match.to_theirs(release.value)
    mean = match.to_theirs(frechet_mean(match.to_ours(theirs), ball).point)
    # the distance in their metric is the error that ours states; false alarms: one in ten million
    assert match.theirs.dist(value, mean) <= release.error_quantile(1 - 1e-7)


def test_what_is_no_point_of_theirs_becomes_no_point_of_ours_without_a_word() -> None:
    match = from_pymanopt(pymanopt_manifolds().PoincareBall(2))
    found = match.to_ours(np.array([[0.1, 0.2], [3.0, 0.0], [1.0, 0.0], [np.nan, 0.0]]))
    assert match.ours.valid(found).tolist() == [True, False, False, False]


# ---------------------------------------------------------------------- geomstats


def geomstats(name: str, *names: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its way of loading a backend is deprecated
            module = importlib.import_module(f"geomstats.geometry.{name}")
    except Exception as error:  # where NumPy is too new, this is an AttributeError
        pytest.skip(f"geomstats cannot be imported here: {type(error).__name__}")
    return tuple(getattr(module, each) for each in names) if len(names) > 1 else getattr(module, names[0])


def quotient_of_pre_shapes(landmarks: int) -> Any:
    space = geomstats("pre_shape", "PreShapeSpace")(landmarks, 2)
    space.equip_with_group_action("rotations")
    space.equip_with_quotient()
    return space.quotient


def log_euclidean(k: int) -> Any:
    space_of, metric = geomstats("spd_matrices", "SPDMatrices", "SPDLogEuclideanMetric")
    space = space_of(k, equip=False)
    space.equip_with_metric(metric)
    return space


GEOMSTATS: dict[str, tuple[Callable[[], Any], Manifold]] = {
    "Euclidean": (lambda: geomstats("euclidean", "Euclidean")(3), Euclidean(3)),
    "Hypersphere": (lambda: geomstats("hypersphere", "Hypersphere")(2), Sphere(2)),
    "SPDMatrices": (lambda: geomstats("spd_matrices", "SPDMatrices")(3), SPD(3)),
    "log-Euclidean": (lambda: log_euclidean(3), SPDLogEuclidean(3)),
    "HPDMatrices": (lambda: geomstats("hpd_matrices", "HPDMatrices")(2), HPD(2)),
    "SpecialOrthogonal": (lambda: geomstats("special_orthogonal", "SpecialOrthogonal")(3), Rotations(3)),
    "Hyperboloid": (lambda: geomstats("hyperboloid", "Hyperboloid")(2), Hyperbolic(2)),
    "PoincareBall": (lambda: geomstats("poincare_ball", "PoincareBall")(2), Hyperbolic(2)),
    "Kendall's shapes": (lambda: quotient_of_pre_shapes(4), PlanarShapes(4)),
    "NFoldManifold": (
        lambda: geomstats("nfold_manifold", "NFoldManifold")(geomstats("hypersphere", "Hypersphere")(1), 3),
        Torus(3),
    ),
    "product of circles": (
        lambda: geomstats("product_manifold", "ProductManifold")([geomstats("hypersphere", "Hypersphere")(1)] * 2),
        Torus(2),
    ),
    "ProductManifold": (
        lambda: geomstats("product_manifold", "ProductManifold")(
            [geomstats("hypersphere", "Hypersphere")(2), geomstats("euclidean", "Euclidean")(2)]
        ),
        Product(Sphere(2), Euclidean(2)),
    ),
}


@pytest.mark.parametrize("name", GEOMSTATS)
def test_spaces_of_geomstats_convert_with_their_points(name: str) -> None:
    make, ours = GEOMSTATS[name]
    match = from_geomstats(make())
    assert match.ours == ours
    check(match, match.theirs.metric.dist)


@pytest.mark.parametrize(
    "ours",
    [Euclidean(2), Sphere(2), Torus(3), SPD(2), SPDLogEuclidean(2), HPD(2), Rotations(3), Hyperbolic(2), PlanarShapes(4)],
    ids=repr,
)
def test_ours_become_those_of_geomstats(ours: Manifold) -> None:
    geomstats("manifold", "Manifold")
    match = to_geomstats(ours)
    assert match.ours == ours
    check(match, match.theirs.metric.dist)


def test_other_metrics_of_geomstats_are_refused_with_the_difference() -> None:
    space_of, bures = geomstats("spd_matrices", "SPDMatrices", "SPDBuresWassersteinMetric")
    space = space_of(2, equip=False)
    with pytest.raises(ValueError, match="has no metric yet"):
        from_geomstats(space)
    space.equip_with_metric(bures)
    with pytest.raises(ValueError, match=r"SPDMatrices with its SPDBuresWassersteinMetric has another metric than SPD"):
        from_geomstats(space)
    scaled = space_of(2)
    scaled.metric = geomstats("scalar_product_metric", "ScalarProductMetric")(scaled, 4.0)
    with pytest.raises(ValueError, match=r"ScalarProductMetric are 2 times those of SPD\(2\): use SPD\(2\)"):
        from_geomstats(scaled)
    with pytest.raises(ValueError, match=r"are 1\.41421 times those of Grassmann\(2, 5\)"):
        from_geomstats(geomstats("grassmannian", "Grassmannian")(5, 2))
    with pytest.raises(ValueError, match=r"PreShapeSpace with its PreShapeMetric has another metric than PlanarShapes\(4\)"):
        from_geomstats(geomstats("pre_shape", "PreShapeSpace")(4, 2))
    with pytest.raises(ValueError, match="in the coordinates it uses"):
        from_geomstats(geomstats("hypersphere", "Hypersphere")(2, intrinsic=True))
    with pytest.raises(ValueError, match="in the coordinates it uses"):
        from_geomstats(geomstats("special_orthogonal", "SpecialOrthogonal")(3, point_type="vector"))


# ---------------------------------------------------------------------- SciPy


def test_rotations_of_scipy_are_points_and_come_back() -> None:
    turns = Rotation.from_rotvec(np.random.default_rng(0).normal(0.0, 0.2, (300, 3)))
    ball = Ball(Rotations(3), Rotation.identity(), 1.0)
    assert np.array_equal(ball.center, np.eye(3))
    release = private_mean(turns, ball, epsilon=2.0)
    there = Rotation.from_matrix(release.value)
    mean = Rotation.from_matrix(frechet_mean(turns, ball).point)
    assert (there * mean.inv()).magnitude() <= release.error_quantile(1 - 1e-7)
    assert Rotations(3).dist(turns[0], turns[1]) == pytest.approx((turns[0].inv() * turns[1]).magnitude(), rel=1e-9)
    angle = math.pi / 3
    assert Rotations(3).dist(Rotation.identity(), Rotation.from_euler("z", angle)) == pytest.approx(angle)
