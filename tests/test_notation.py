"""Answers in the units of the question: every layout has a way back, and every unit says what a length means.

Oracles: the way there (records are read by it), SciPy's rotations, spherical trigonometry, and matrices whose standard
deviations along any axis are compared with what the unit says. Seeds are fixed, and no test has false alarms.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from cases import MANIFOLDS
from scipy.spatial.transform import Rotation

from geodp import SPD, Grassmann, Manifold, PlanarShapes, Rotations, SPDLogEuclidean, Sphere, Torus
from geodp.files.layout import to_points
from geodp.manifolds.layout import Layout
from geodp.manifolds.notation import Notation

LAYOUTS = [(manifold, layout) for manifold in MANIFOLDS for layout in manifold.layouts]
IDS = [f"{manifold}-{layout.name}" for manifold, layout in LAYOUTS]


def some_points(manifold: Manifold, count: int = 40) -> np.ndarray:
    rng = np.random.default_rng(5)
    steps = rng.normal(size=(count, manifold.dim)) / math.sqrt(manifold.dim)
    return manifold.raw_exp(manifold.origin, manifold.raw_tangent(manifold.origin, steps))


@pytest.mark.parametrize(("manifold", "layout"), LAYOUTS, ids=IDS)
def test_what_a_layout_writes_it_reads_as_the_same_point(manifold: Manifold, layout: Layout) -> None:
    points = some_points(manifold)
    if layout.name == "composition":
        points = np.abs(points)
    rows = np.array([layout.row(point) for point in points])
    assert rows.shape == (len(points), layout.columns)
    assert np.abs(manifold.raw_dist(points, to_points(manifold, layout, rows))).max() < 1e-7


def test_rotation_vectors_and_quaternions_are_those_of_scipy_half_turns_too() -> None:
    half_turns = [[math.pi, 0.0, 0.0], [0.0, 0.0, -math.pi], [math.pi / math.sqrt(2.0), math.pi / math.sqrt(2.0), 0.0]]
    vectors = np.concatenate([np.random.default_rng(6).normal(size=(50, 3)), half_turns, [[0.0, 0.0, 0.0]]])
    rotations = Rotation.from_rotvec(vectors)
    named = {layout.name: layout for layout in Rotations(3).layouts}
    for name, read in (("rotvec", Rotation.from_rotvec), ("quaternion", Rotation.from_quat)):
        rows = [named[name].row(matrix) for matrix in rotations.as_matrix()]
        assert (rotations.inv() * read(rows)).magnitude().max() < 1e-7
    assert Rotations(3).in_words(Rotation.from_rotvec([0.0, 0.0, math.pi / 2]).as_matrix()).startswith("turn by 90 degrees")


def test_a_place_and_a_time_of_day_are_written_as_people_write_them() -> None:
    places = Notation.named(Sphere(2), "latlon", ["Breite", "Laenge"])
    assert places.point(to_points(Sphere(2), places.layout, np.array([[48.2, 16.37]]))[0]) == "Breite 48.2, Laenge 16.37"
    clock = Notation.named(Sphere(1), "clock")
    assert clock.point(np.array([1.0, 0.0])) == "time 06:00:00"
    assert clock.point(np.array([-1e-9, 1.0])) == "time 00:00:00"


def test_columns_keep_the_names_of_the_file_in_the_order_of_the_layout() -> None:
    notation = Notation.named(SPD(2), "upper", ["Dxx", "Dxy", "Dyy"])
    assert notation.point(np.array([[2.0, 0.5], [0.5, 1.0]])) == "Dxx 2, Dxy 0.5, Dyy 1"


# ---------------------------------------------------------------------- lengths


def test_a_degree_of_latitude_is_sixty_nautical_miles() -> None:
    said = Notation.named(Sphere(2), "latlon").lengths(math.radians(1.0))
    assert said["degrees"] == pytest.approx(1.0)
    assert said["kilometres"] == pytest.approx(60.0 * 1.852, rel=1e-3)


def test_a_small_sphere_has_the_same_degrees() -> None:
    small = Sphere(2, curvature=4.0)
    assert Notation(small).lengths(small.diameter)["degrees"] == pytest.approx(180.0)


def test_six_hours_are_a_quarter_of_the_clock() -> None:
    said = Notation.named(Sphere(1), "clock")
    assert said.lengths(0.5 * math.pi)["minutes"] == pytest.approx(360.0)
    assert said.length(0.0959931) == "0.096 (22 minutes)"


@pytest.mark.parametrize("k", [2, 3, 5])
def test_no_standard_deviation_along_any_axis_changes_by_more_than_the_factor_says(k: int) -> None:
    rng, manifold = np.random.default_rng(7), SPD(k)
    p, q = some_points(manifold, 200)[:100], some_points(manifold, 200)[100:]
    axes = rng.normal(size=(400, 1, k))
    ratios = np.sqrt(np.einsum("nik,mkl,nil->nm", axes, q, axes) / np.einsum("nik,mkl,nil->nm", axes, p, axes))
    said = np.array([Notation(manifold).lengths(float(d))["standard_deviation_factor"] for d in manifold.dist(p, q)])
    assert (np.maximum(ratios, 1.0 / ratios) <= said * (1.0 + 1e-9)).all()
    # and along one axis alone it changes by just that
    stretched = np.diag([math.exp(0.3)] + [1.0] * (k - 1))
    assert Notation(manifold).lengths(float(manifold.dist(np.eye(k), stretched)))["standard_deviation_factor"] == (
        pytest.approx(math.sqrt(stretched[0, 0]))
    )


def test_principal_standard_deviations_change_by_no_more_than_the_factor_of_the_log_euclidean_metric() -> None:
    manifold = SPDLogEuclidean(3)
    p, q = some_points(manifold, 200)[:100], some_points(manifold, 200)[100:]
    ratios = np.sqrt(np.linalg.eigvalsh(q) / np.linalg.eigvalsh(p)).T
    said = np.array([Notation(manifold).lengths(float(d))["standard_deviation_factor"] for d in manifold.dist(p, q)])
    assert (np.maximum(ratios, 1.0 / ratios) <= said * (1.0 + 1e-9)).all()


def test_no_share_of_a_composition_changes_by_more_percentage_points_than_said() -> None:
    shares = np.random.default_rng(8).dirichlet([0.5, 1.0, 2.0], size=(100, 2))
    sphere, notation = Sphere(2), Notation.named(Sphere(2), "composition")
    for first, second in shares:
        length = float(sphere.dist(np.sqrt(first), np.sqrt(second)))
        assert 100.0 * np.abs(first - second).max() <= notation.lengths(length)["percentage_points"] * (1.0 + 1e-9)


def test_no_angle_of_a_torus_and_no_plane_of_a_rotation_turns_by_more_than_the_degrees_say() -> None:
    torus = Torus(3)
    p, q = some_points(torus, 100)[:50], some_points(torus, 100)[50:]
    turned = np.abs((np.rad2deg(torus.angles(p) - torus.angles(q)) + 180.0) % 360.0 - 180.0)
    assert (turned.max(axis=-1) <= np.rad2deg(torus.dist(p, q)) * (1.0 + 1e-9)).all()
    assert Notation(Rotations(3)).length(math.pi / 6) == "0.524 (30 degrees)"
    assert Notation(Grassmann(1, 3)).length(math.pi / 6) == "0.524 (30 degrees)"


def test_the_percent_of_a_shape_are_what_procrustes_leaves_over() -> None:
    from scipy.spatial import procrustes

    shapes = PlanarShapes(5)
    p = some_points(shapes, 1)[0]
    q = shapes.exp(p, shapes.tangent(p, np.full(shapes.dim, 0.05)))  # so close that no reflection, which SciPy allows, is closer
    assert Notation(shapes).lengths(float(shapes.dist(p, q)))["percent_of_size"] ** 2 / 1e4 == (
        pytest.approx(procrustes(p, q)[2], rel=1e-9)
    )


@pytest.mark.parametrize("manifold", MANIFOLDS, ids=str)
def test_units_never_decrease_with_the_length_and_are_zero_or_one_at_none(manifold: Manifold) -> None:
    lengths = np.concatenate([[0.0], np.geomspace(1e-12, 1e3, 60)])
    notations = [Notation(manifold), *(Notation(manifold, layout) for layout in manifold.layouts)]
    for unit in {unit for notation in notations for unit in notation.units}:
        numbers = [unit.convert(float(length)) for length in lengths]
        assert numbers[0] in (0.0, 1.0)
        assert all(a <= b for a, b in pairwise(numbers))
    for notation in notations:
        assert all(map(math.isfinite, notation.lengths(1e300).values()))
        assert "\n" not in notation.length(0.1)


@pytest.mark.parametrize(("manifold", "layout"), LAYOUTS, ids=IDS)
def test_a_notation_is_stored_and_restored(manifold: Manifold, layout: Layout) -> None:
    notation = Notation(manifold, layout, tuple(f"column {i}" for i in range(layout.columns)))
    assert Notation.from_dict(manifold, notation.to_dict()) == notation


def test_an_unknown_layout_and_a_wrong_number_of_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="name one of cartesian"):
        Notation.named(Sphere(2), "latlong")
    with pytest.raises(ValueError, match="has 2 columns, but 3 names"):
        Notation.named(Sphere(2), "latlon", ["a", "b", "c"])
