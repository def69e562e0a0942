"""Input that is no point, no tangent vector or has no logarithm gets one sentence with the number that is off."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import every_manifold, random_points

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
    audit,
    frechet_mean,
    plan,
    private_mean,
    sensitivity,
)


@every_manifold
def test_a_wrong_shape_is_named_with_the_right_one(manifold: Manifold) -> None:
    expected = re.escape(f"({', '.join(['...', *map(str, manifold.point_shape)])})")
    with pytest.raises(ValueError, match=expected):
        manifold.dist(manifold.origin, np.zeros((7, 11)))
    with pytest.raises(ValueError, match=expected):
        manifold.exp(manifold.origin, 0.0)


@every_manifold
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_counted(manifold: Manifold, bad: float) -> None:
    x = np.stack([manifold.origin, manifold.origin])
    x[(1, *(0,) * len(manifold.point_shape))] = bad
    sentence = manifold.check_point(x)
    assert sentence == "record 1: every entry must be finite but 1 are not"
    assert manifold.valid(x).tolist() == [True, False]
    with pytest.raises(ValueError, match="finite"):
        manifold.log(manifold.origin, x)
    with pytest.raises(ValueError, match="finite"):
        manifold.exp(manifold.origin, x)


@every_manifold
@pytest.mark.parametrize("bad", ["a", 1j, None, True])
def test_what_is_not_a_real_number_is_a_type_error(manifold: Manifold, bad: object) -> None:
    with pytest.raises(TypeError, match="real numbers"):
        manifold.check_point(np.full(manifold.point_shape, bad))


@every_manifold
def test_integers_are_computed_in_float64(manifold: Manifold) -> None:
    if isinstance(manifold, PlanarShapes) or not np.array_equal(manifold.origin, manifold.origin.astype(int)):
        pytest.skip("its origin has no integer coordinates")
    assert manifold.dist(manifold.origin.astype(np.int64), manifold.origin) == 0.0
    assert manifold.log(manifold.origin.astype(np.int8), manifold.origin).dtype == np.float64


@every_manifold
def test_an_array_off_the_manifold_is_refused_and_never_clamped(manifold: Manifold) -> None:
    if isinstance(manifold, Euclidean):
        pytest.skip("every vector is a point")
    # positive multiples of positive-definite matrices are some, negative ones are not; the others have a size
    off = np.where(math.isinf(manifold.diameter), -3.0, 3.0) * random_points(manifold, 3, np.random.default_rng(1))
    assert manifold.check_point(off) is not None
    with pytest.raises(ValueError, match="is not a point of"):
        manifold.dist(manifold.origin, off)


@pytest.mark.parametrize(
    ("manifold", "x", "sentence"),
    [
        (Sphere(2), [0.0, 0.0, 1.5], "the norm must be 1 but is 1.5"),
        (Sphere(2, curvature=4.0), [0.0, 0.0, 1.0], "the norm must be 0.5 but is 1"),
        (Sphere(2), [0.0, 0.0, 0.0], "the norm must be 1 but is 0"),
        (Hyperbolic(2), [1.5, 0.0, 0.0], "the first entry must be sqrt(1 + |rest|^2) but is off by 0.5"),
        (Hyperbolic(2), [-1.0, 0.0, 0.0], "the first entry must be sqrt(1 + |rest|^2) but is off by -2"),
        (SPD(2), [[1.0, 0.5], [0.0, 1.0]], "the matrix must be symmetric but differs from its transpose by 0.5"),
        (SPD(2), [[1.0, 2.0], [2.0, 1.0]], "the smallest eigenvalue must be positive but is -1"),
        (SPD(3), np.zeros((3, 3)), "the smallest eigenvalue must be positive but is 0"),
        (SPD(4), np.diag([1.0, 1.0, 1.0, -0.25]), "the smallest eigenvalue must be positive but is -0.25"),
        (SPDLogEuclidean(2), [[1, 2], [2, 1]], "the smallest eigenvalue must be positive but is -1"),
        (Grassmann(1, 2), [[2.0], [0.0]], "the columns must be orthonormal but x'x differs from the identity by 3"),
        (Rotations(2), [[1.0, 0.0], [0.0, -1.0]], "the determinant must be 1 but is -1"),
        (Rotations(3), 2.0 * np.eye(3), "the matrix must be orthogonal but x'x differs from the identity by 3"),
        (PlanarShapes(3), np.ones((3, 2)), "the mean of the landmarks must be 0 but is 1.41 away from it"),
        (PlanarShapes(3), [[1, 0], [-1, 0], [0, 0]], "the norm must be 1 but is 1.41421356237"),
        (Product(Euclidean(1), Sphere(1)), [5.0, 0.0, 2.0], "factor 1, Sphere(1): the norm must be 1 but is 2"),
    ],
)
def test_the_sentence_names_the_number_that_is_off(manifold: Manifold, x: object, sentence: str) -> None:
    assert manifold.check_point(x) == sentence
    with pytest.raises(ValueError, match=re.escape(sentence)):
        manifold.dist(x, manifold.origin)


def test_the_first_bad_record_of_a_batch_is_named() -> None:
    x = np.tile(np.eye(5), (4, 1, 1))
    x[2, 0, 0] = -1.0
    assert SPD(5).check_point(x) == "record 2: the smallest eigenvalue must be positive but is -1"
    assert SPD(5).valid(x).tolist() == [True, True, False, True]
    assert SPD(5).check_point(x.reshape(2, 2, 5, 5)) == "record (1, 0): the smallest eigenvalue must be positive but is -1"
    assert SPD(5).valid(x.reshape(2, 2, 5, 5)).tolist() == [[True, True], [False, True]]


half_turn = np.diag([1.0, -1.0, -1.0])


@pytest.mark.parametrize(
    ("manifold", "p", "q", "distance"),
    [
        (Sphere(2), [0.0, 0.0, 1.0], [0.0, 0.0, -1.0], np.pi),
        (Sphere(1, curvature=4.0), [0.5, 0.0], [-0.5, 0.0], np.pi / 2),
        (Grassmann(1, 2), [[1.0], [0.0]], [[0.0], [1.0]], np.pi / 2),
        (Grassmann(2, 4), np.eye(4)[:, :2], np.eye(4)[:, 2:], np.pi / np.sqrt(2)),
        (Rotations(2), np.eye(2), -np.eye(2), np.pi),
        (Rotations(3), np.eye(3), half_turn, np.pi),
        (Rotations(4), np.eye(4), -np.eye(4), np.pi * np.sqrt(2)),
        (Rotations(5), np.eye(5), np.diag([1.0, -1.0, -1.0, 1.0, 1.0]), np.pi),
        (PlanarShapes(3), PlanarShapes(3).origin, PlanarShapes(3).origin @ np.diag([1.0, -1.0]), np.pi / 2),
        (Product(Euclidean(1), Sphere(1)), [0.0, 1.0, 0.0], [1.0, -1.0, 0.0], np.hypot(1.0, np.pi)),
    ],
)
def test_log_at_the_cut_locus_is_refused_while_dist_is_defined(manifold: Manifold, p: object, q: object, distance: float) -> None:
    assert manifold.dist(p, q) == pytest.approx(distance, rel=1e-14)
    with pytest.raises(ValueError, match=re.escape(f"dist(p, q) is {distance:.10g}"[:-1])):
        manifold.log(p, q)


@every_manifold
def test_a_vector_off_the_tangent_space_is_refused(manifold: Manifold) -> None:
    if isinstance(manifold, Euclidean) or manifold.dim == np.prod(manifold.point_shape):
        pytest.skip("every array is a tangent vector")
    v = np.random.default_rng(2).normal(size=manifold.point_shape)
    with pytest.raises(ValueError, match="off the tangent space by"):
        manifold.norm(manifold.origin, v)


def test_results_past_the_range_of_float64_are_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("norm(p, v) is 2000")):
        SPD(1).exp([[1.0]], [[2000.0]])
    with pytest.raises(ValueError, match=re.escape("norm(p, v) is 1000")):
        Hyperbolic(1).exp([1.0, 0.0], [0.0, 1000.0])


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: Euclidean(0), ValueError, "at least 1 but is 0"),
        (lambda: Sphere(2.5), TypeError, "whole number but is 2.5"),
        (lambda: Sphere(2, curvature=-1.0), ValueError, "positive and finite but is -1"),
        (lambda: Sphere(2, curvature=float("nan")), ValueError, "positive and finite but is nan"),
        (lambda: SPD("3"), TypeError, "whole number but is '3'"),
        (lambda: Grassmann(3, 5), ValueError, "orthogonal complements, Grassmann(2, 5)"),
        (lambda: Rotations(1), ValueError, "at least 2 but is 1"),
        (lambda: PlanarShapes(2), ValueError, "at least 3 but is 2"),
        (lambda: Product(), ValueError, "at least one factor"),
        (lambda: Product(SPD(2), "Sphere(2)"), TypeError, "must be manifolds but one is 'Sphere(2)'"),
        (lambda: Product(SPD(2), Sphere(1)).join(np.eye(2)), ValueError, "2 factors but was given 1"),
    ],
)
def test_impossible_manifolds_are_refused(make: object, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        make()


TENSORS = np.tile(np.eye(3), (500, 1, 1))
TAKE_A_BALL: dict[str, Callable[[Any], object]] = {
    "private_mean": lambda ball: private_mean(TENSORS, ball, 1.0),
    "frechet_mean": lambda ball: frechet_mean(TENSORS, ball),
    "sensitivity": lambda ball: sensitivity(ball, 100),
    "plan": lambda ball: plan(ball, n=100, epsilon=1.0),
    "audit": lambda ball: audit(ball, 100, 1.0),
}


@pytest.mark.parametrize("function", TAKE_A_BALL)
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "the ball must be a Ball but is of type NoneType: make one with Ball(manifold, center, radius)"),
        (SPD(3), "the ball must be a Ball but is of type SPD: make one with Ball(SPD(3), center, radius)"),
        (1.5, "the ball must be a Ball but is of type float: make one with Ball(manifold, center, radius)"),
    ],
    ids=["None", "manifold", "radius"],
)
def test_what_is_no_ball_is_named_with_how_to_make_one(function: str, given: object, sentence: str) -> None:
    if function == "private_mean" and isinstance(given, SPD):
        assert private_mean(TENSORS, given, 1.0).ball is not None, "a manifold in place of a ball means that one is found"
        return
    with pytest.raises(TypeError, match=f"^{re.escape(sentence)}$"):
        TAKE_A_BALL[function](given)


@pytest.mark.parametrize("mean", [lambda x, ball: private_mean(x, ball, 1.0), frechet_mean], ids=["private_mean", "frechet_mean"])
@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: [x], lambda x: lambda: iter([x])], ids=["array", "list", "function"])
def test_a_wrong_shape_of_records_is_shown_as_it_is(mean: Callable[..., object], wrapped: Callable[[Any], Any]) -> None:
    ball = Ball(SPD(3), np.eye(3), 1.0)
    for shape in ((3, 3, 500), (500, 3, 4), (500, 4, 4), (3, 3, 3, 3)):
        x = wrapped(np.zeros(shape))
        # a list of anything but chunks is read as one array
        found = (1, *shape) if isinstance(x, list) and len(shape) != 3 else shape
        with pytest.raises(ValueError, match=re.escape(f"x has shape {found}, but records of SPD(3) have shape (n, 3, 3)")):
            mean(x, ball)


def test_the_readers_of_files_are_there_after_importing_the_library_and_loaded_when_used() -> None:
    program = "import sys, geodp; assert 'geodp.files' not in sys.modules; print(geodp.files.read_records.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout, done.stderr) == ("read_records\n", "")
