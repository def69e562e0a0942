"""Lengths whose squares floats cannot hold are refused, and what is accepted is certified truly."""

from __future__ import annotations

import contextlib
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cases import every_manifold

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Hyperbolic,
    Ledger,
    Manifold,
    Release,
    Sphere,
    frechet_mean,
    plan,
    private_mean,
    private_summary,
)
from geodp.inputs import Array
from geodp.solver.mean import default_tolerance
from geodp.statistics.mean import Mean

RANGE = r"must be between 1e-100 and 1e\+100 but is"
TOO_SHORT = [1e-323, 1e-300, 1e-200, 1e-161, 1e-154, 1e-140, 9.9e-101]
TOO_LONG = [1.1e100, 1e140, 1e153, 1e155, 1e200, 1e300, 1.7e308]


@every_manifold
def test_no_ball_has_a_radius_whose_square_is_lost(manifold: Manifold) -> None:
    for radius in (*TOO_SHORT, *TOO_LONG):
        with pytest.raises(ValueError, match=rf"{RANGE}|must be below|floats have too few digits") as caught:
            Ball(manifold, manifold.origin, radius)
        assert f"{radius:g}" in str(caught.value) or repr(radius) in str(caught.value)
        assert "\n" not in str(caught.value)


@every_manifold
def test_the_shortest_and_longest_radii_work_or_are_refused_in_one_sentence(manifold: Manifold) -> None:
    for radius in (1e-100, 1e-30, 800.0, 1e30, 1e100):
        with contextlib.suppress(ValueError):
            ball = Ball(manifold, manifold.origin, radius)
            assert 0.0 < default_tolerance(ball) < math.inf
            Mean(ball).check(5)
            assert private_mean(np.tile(manifold.origin, (5, *(1,) * manifold.origin.ndim)), ball, 5.0).n == 5


def exact_error(x: Array, point: Array) -> float:
    means = [sum(map(Fraction, column)) / len(column) for column in x.T.tolist()]
    return float(max(abs(Fraction(a) - mean) for a, mean in zip(point.tolist(), means, strict=True)))


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("radius", [1e-100, 1e-50, 1.0, 1e50, 1e100])
def test_a_certified_error_is_at_least_the_true_one(dim: int, radius: float) -> None:
    ball, rng = Ball(Euclidean(dim), np.zeros(dim), radius), np.random.default_rng(dim)
    for spread in (1.0, 1e-10, 1e-60, 1e-100, 1e-162, 1e-200, 1e-300):
        for count in (3, 7, 1000):
            x = radius * spread * rng.uniform(-0.5, 0.5, size=(count, dim))
            result = frechet_mean(x, ball)
            assert exact_error(x, result.point) <= result.error_bound <= default_tolerance(ball)


def test_on_a_line_of_large_numbers_the_mean_converges() -> None:
    ball = Ball(Euclidean(1), [0.0], 1e100)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.choice([-1.0, 1.0], size=(50, 1)) * 10.0 ** rng.uniform(90.0, 100.0, size=(50, 1))
        assert frechet_mean(x, ball).iterations < 13


def test_a_centre_past_what_squares_hold_is_refused() -> None:
    for size in (1e120, 1e160, 1e300):
        with pytest.raises(ValueError, match="floats have too few digits"):
            Ball(Euclidean(2), [size, 0.0], 1.0)


@pytest.mark.parametrize("tolerance", [1e-323, 1e-200, 1e-161, 1e-121, 1e101, 1e160, math.inf])
def test_a_tolerance_whose_square_is_lost_is_refused(tolerance: float) -> None:
    for manifold in (Euclidean(1), Sphere(2), SPD(2), Hyperbolic(2)):
        ball = Ball(manifold, manifold.origin, 1.0)
        with pytest.raises(ValueError, match=r"the tolerance must be between 1e-120 and 1e\+100 but is"):
            frechet_mean(np.tile(manifold.origin, (3, *(1,) * manifold.origin.ndim)), ball, tolerance=tolerance)


def test_every_default_tolerance_can_also_be_asked_for() -> None:
    for radius in (1e-100, 1.0, 1e99):
        ball = Ball(Euclidean(2), [0.0, 0.0], radius)
        frechet_mean(radius * np.array([[0.1, 0.3], [0.2, -0.7]]), ball, tolerance=default_tolerance(ball))
    for bad in ("small", [1.0], None, math.nan, 0.0, -1.0):
        if bad is not None:
            with pytest.raises((ValueError, TypeError), match="the tolerance must be"):
                frechet_mean([[0.0, 0.0]], ball, tolerance=bad)


@pytest.mark.parametrize("error", [1e-320, 1e-200, 1e-161, 1e153, 1e200, 1.7e308])
def test_a_plan_for_an_error_past_the_range_is_refused(error: float) -> None:
    for manifold in (Euclidean(2), Sphere(2), SPD(2)):
        ball = Ball(manifold, manifold.origin, 1.0)
        for given in ({"n": 100}, {"epsilon": 1.0}):
            with pytest.raises(ValueError, match=f"the error to reach {RANGE}"):
                plan(ball, error=error, **given)


@pytest.mark.parametrize("sensitivity", [1e-320, 1e-200, 1e-161, 1e-101, 1e101, 1e153, 1e200, 1.7e308])
@pytest.mark.parametrize("manifold", [Euclidean(1), SPD(2), Sphere(2), Hyperbolic(2)], ids=repr)
def test_a_claimed_sensitivity_past_the_range_is_refused_and_charges_nothing(
    manifold: Manifold, sensitivity: float, tmp_path: Path
) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", 1)
    with pytest.raises(ValueError, match=f"the sensitivity {RANGE}"):
        private_summary(manifold.origin, manifold, sensitivity=sensitivity, epsilon=0.5, ledger=ledger, dataset="study")
    assert ledger.spent("study") == 0


@pytest.mark.parametrize("sensitivity", [1e-100, 1e100])
def test_a_summary_at_either_end_of_the_range_is_released(sensitivity: float) -> None:
    release = private_summary([0.0, 0.0], Euclidean(2), sensitivity=sensitivity, epsilon=1.0)
    assert 0.0 < release.expected_error() < math.inf
    assert 1e-4 < np.linalg.vector_norm(release.value / sensitivity) < 1e3
    stored = json.loads(release.to_json())
    assert Release.from_json(json.dumps(stored)).sensitivity == sensitivity
    with pytest.raises(ValueError, match="this is not the JSON text of a release"):
        Release.from_json(json.dumps(stored | {"sensitivity": sensitivity**2, "scale": sensitivity**2}))
