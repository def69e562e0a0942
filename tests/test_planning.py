"""Plans agree with closed forms and quadratures, their inverses with themselves, and the comparisons with the paper's formulas.

Nothing here is random: there are no false alarms.
"""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import longer
from scipy import integrate, stats

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    PlanarShapes,
    Product,
    Rotations,
    Sphere,
    plan,
    private_mean,
)
from geodp.plans import QUANTILES
from geodp.plots import error_against_n
from geodp.privacy.notions import PureDP
from geodp.request import Plan

NORTH = np.array([0.0, 0.0, 1.0])
CAP = Ball(Sphere(2), NORTH, math.pi / 8)
TENSORS = Ball(SPD(2), np.eye(2), 1.5)

BALLS = [
    CAP,
    TENSORS,
    Ball(SPD(3), np.eye(3), 1.0),
    Ball(Euclidean(3), np.zeros(3), 2.0),
    Ball(Hyperbolic(3), [1.0, 0.0, 0.0, 0.0], 1.0),
    Ball(Rotations(3), np.eye(3), 1.0),
    Ball(Grassmann(1, 4), Grassmann(1, 4).origin, 0.5),
    Ball(PlanarShapes(4), PlanarShapes(4).origin, 0.3),
    Ball(Product(Sphere(2), Euclidean(1)), [0.0, 0.0, 1.0, 0.0], 0.5),
]
every_ball = pytest.mark.parametrize("ball", BALLS, ids=lambda ball: repr(ball.manifold))


def mean_on_the_sphere(s: float) -> float:
    """The mean distance of the Laplace law of scale s on the unit sphere, integrated by hand."""
    return 2.0 * s / (1.0 + s * s) + math.pi * math.exp(-math.pi / s) / (1.0 + math.exp(-math.pi / s))


def cdf_on_the_sphere(t: float, s: float) -> float:
    return (1.0 - math.exp(-t / s) * (math.cos(t) + math.sin(t) / s)) / (1.0 + math.exp(-math.pi / s))


# ---------------------------------------------------------------------- forward


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("n", [2, 25, 100, 5000])
def test_on_the_sphere_everything_follows_from_closed_forms(n: int, epsilon: float) -> None:
    """A draw is moved into the cap, so that no error exceeds its diameter."""
    found = plan(CAP, n, epsilon, mechanism="intrinsic")
    scale = 2.0 * math.tan(math.pi / 8) / (n * epsilon)
    most = 2.0 * CAP.radius
    if n == 2:
        scale = min(scale, math.pi / 4 / epsilon)  # both means are in the ball
    assert found.scale == pytest.approx(scale, rel=1e-7)
    capped = integrate.quad(lambda t: 1.0 - cdf_on_the_sphere(t, found.scale), 0.0, most, epsabs=0.0, epsrel=1e-10, limit=200)[0]
    assert found.expected_error == pytest.approx(capped, rel=1e-7)
    assert capped == pytest.approx(mean_on_the_sphere(found.scale), rel=1e-3) or most < 9.0 * found.scale
    assert set(found.quantiles) == set(QUANTILES)
    for q, error in found.quantiles.items():
        if error < most:
            assert cdf_on_the_sphere(error, found.scale) == pytest.approx(q, rel=1e-8)
        else:
            assert error == pytest.approx(most, rel=1e-12)
            assert cdf_on_the_sphere(most, found.scale) < q
    assert (found.n, found.epsilon) == (n, epsilon)
    best = plan(CAP, n, epsilon)
    assert best.expected_error <= found.expected_error, "all mechanisms are looked at, and the best is taken"
    assert found.expected_error in [option.expected_error for option in best.options]


@pytest.mark.parametrize(("n", "expected"), [(25, 0.3623), (50, 0.1803), (100, 0.0900), (250, 0.0360)])
def test_on_two_by_two_matrices_the_expected_error_is_the_known_one(n: int, expected: float) -> None:
    """The radius 1.5 makes the scale 3/n; the values are those of an independent quadrature, to the digits given."""
    found = plan(TENSORS, n, 1.0)
    assert found.scale == pytest.approx(3.0 / n, rel=1e-8)
    assert found.expected_error == pytest.approx(expected, abs=6e-5)


def test_on_two_by_two_matrices_the_quantiles_are_those_of_a_quadrature() -> None:
    """Polar coordinates: eigenvalues (a + b, a - b)/sqrt(2) of the logarithm have density b-part 2 sinh(b/sqrt 2) da db."""
    found = plan(TENSORS, 20, 1.0)

    def mass(radius: float) -> float:
        def on_the_arc(s: float) -> float:
            inner = integrate.quad(lambda angle: math.sinh(s * math.sin(angle) / math.sqrt(2.0)), 0.0, math.pi)[0]
            return s * math.exp(-s / found.scale) * inner

        return integrate.quad(on_the_arc, 0.0, radius, epsabs=0.0, epsrel=1e-10)[0]

    whole = mass(60.0 * found.scale)
    for q, error in found.quantiles.items():
        assert mass(error) / whole == pytest.approx(q, rel=1e-7)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_in_euclidean_space_the_error_has_a_gamma_law(d: int) -> None:
    found = plan(Ball(Euclidean(d), np.zeros(d), 2.0), 80, 0.5)
    scale = 2.0 * 2.0 / (80 * 0.5)
    assert found.expected_error == pytest.approx(d * scale, rel=1e-9)
    for q, error in found.quantiles.items():
        assert error == pytest.approx(stats.gamma(d, scale=scale).ppf(q), rel=1e-8)


@every_ball
def test_a_plan_says_what_the_release_will_say(ball: Ball) -> None:
    found = plan(ball, 60, 2.0)
    x = np.broadcast_to(ball.center, (60, *ball.manifold.point_shape)).copy()
    release = private_mean(x, ball, 2.0, project=False)
    assert (found.scale, found.sensitivity) == (release.scale, release.sensitivity)
    assert found.expected_error + release.tolerance == pytest.approx(release.expected_error(), rel=1e-12)
    assert found.quantiles[0.9] + release.tolerance == pytest.approx(release.error_quantile(0.9), rel=1e-12)


@every_ball
def test_more_records_or_epsilon_or_a_smaller_ball_never_hurt(ball: Ball) -> None:
    for first, then in pairwise([plan(ball, n, 2.0) for n in (30, 31, 100, 1000)]):
        assert then.expected_error < first.expected_error
        assert all(then.quantiles[q] < first.quantiles[q] for q in QUANTILES)
    for first, then in pairwise([plan(ball, 60, epsilon) for epsilon in (1.0, 1.1, 4.0)]):
        assert then.expected_error < first.expected_error
    for first, then in pairwise(
        [plan(Ball(ball.manifold, ball.center, part * ball.radius), 60, 2.0) for part in (1.0, 0.9, 0.2)]
    ):
        assert then.expected_error < first.expected_error
    found = plan(ball, 60, 2.0)
    assert sorted(found.quantiles.values()) == list(found.quantiles.values())


# ---------------------------------------------------------------------- inverses


ERRORS = [(None, 0.05), (0.9, 0.4)]


@every_ball
@pytest.mark.parametrize(("quantile", "error"), ERRORS)
def test_the_number_of_records_found_is_the_smallest_that_reaches_the_error(
    ball: Ball, quantile: float | None, error: float
) -> None:
    def reached(n: int) -> float:
        found = plan(ball, n, 1.3)
        return found.expected_error if quantile is None else found.quantiles[quantile]

    found = plan(ball, epsilon=1.3, error=error, quantile=quantile)
    assert found.epsilon == 1.3
    assert reached(found.n) <= error * (1.0 + 1e-7)
    assert found.n > 1
    assert reached(found.n - 1) > error


@every_ball
@pytest.mark.parametrize(("quantile", "error"), ERRORS)
def test_the_epsilon_found_reaches_the_error_and_no_less_does(ball: Ball, quantile: float | None, error: float) -> None:
    found = plan(ball, 500, error=error, quantile=quantile)
    reached = found.expected_error if quantile is None else found.quantiles[quantile]
    assert reached == pytest.approx(error, rel=1e-7)
    assert plan(ball, 500, 0.999 * found.epsilon).expected_error > found.expected_error


@pytest.mark.parametrize("quantile", [0.3, 0.75, 0.999])
def test_any_quantile_can_be_aimed_at(quantile: float) -> None:
    found = plan(CAP, 40, error=0.2, quantile=quantile)
    assert cdf_on_the_sphere(0.2, found.scale) == pytest.approx(quantile, rel=1e-6)


@pytest.mark.parametrize("error", [1.3, 1.42, 1.5])
def test_the_fewest_records_are_found_where_the_ball_itself_bounds_the_sensitivity(error: float) -> None:
    """In a wide cap 2 tan(r)/n is more than the diameter 2 r of the ball for few records, and the smaller of the two counts."""
    wide = Ball(Sphere(2), NORTH, 1.5)
    fewest = next(n for n in range(1, 1000) if plan(wide, n, 1.0).expected_error <= error)
    assert plan(wide, epsilon=1.0, error=error).n == fewest


@pytest.mark.parametrize("error", [4.0, 30.0, 1e3])
def test_an_error_that_is_easy_to_reach_still_gets_a_law_that_exists(error: float) -> None:
    ball = Ball(SPD(2), np.eye(2), 1.0)
    found = plan(ball, epsilon=1.0, error=error, mechanism="intrinsic")
    assert found.expected_error <= error * (1.0 + 1e-9)
    # with 1 record the scale 2 is past the limit 1.4142 of the law
    fewest = next(n for n in range(2, 1000) if plan(ball, n, 1.0, mechanism="intrinsic").expected_error <= error)
    assert found.n == fewest
    assert plan(ball, 50, error=error, mechanism="intrinsic").expected_error <= error * (1.0 + 1e-9)
    # in the tangent space there is a law for every scale, and no error is above twice the radius
    assert plan(ball, epsilon=1.0, error=error).n == 1
    assert plan(ball, 50, error=error).expected_error <= error * (1.0 + 1e-9)


@pytest.mark.parametrize("error", [4.0, 100.0])
def test_no_error_is_larger_than_the_sphere(error: float) -> None:
    assert plan(CAP, epsilon=1.0, error=error).n == 1
    assert plan(CAP, 10, error=error).epsilon < 1e-3


# ---------------------------------------------------------------------- comparisons


def with_the_bound_of_the_paper(ball: Ball, n: int) -> float:
    """The expected error of the paper's mechanism with the paper's bound."""
    return plan(ball, n, 1.0, bound="reimherr2021", mechanism="intrinsic", law="laplace").expected_error


@pytest.mark.parametrize(
    ("r", "n_delta"), [(math.pi / 16, 0.4357), (math.pi / 8, 1.2146), (math.pi / 6, 2.4169), (0.7, 10.196), (0.7775, 125.0)]
)
def test_the_bound_of_the_paper_gives_its_error_and_ours_a_smaller_one(r: float, n_delta: float) -> None:
    n, ball = 5000, Ball(Sphere(2), NORTH, r)
    paper = with_the_bound_of_the_paper(ball, n)
    assert paper == pytest.approx(mean_on_the_sphere(n_delta / n), rel=2e-3)
    assert plan(ball, n, 1.0).expected_error < paper


def test_without_positive_curvature_the_two_bounds_are_one() -> None:
    assert with_the_bound_of_the_paper(TENSORS, 50) == pytest.approx(plan(TENSORS, 50, 1.0).expected_error, rel=1e-12)


def test_past_the_radius_of_the_paper_there_is_nothing_to_compare_with() -> None:
    with pytest.raises(ValueError, match="Theorem 2"):
        plan(Ball(Sphere(2), NORTH, 0.79), 50, 1.0, bound="reimherr2021")


def test_on_a_sphere_of_another_size_errors_scale_with_it() -> None:
    small = Ball(Sphere(2, curvature=4.0), [0.0, 0.0, 0.5], math.pi / 16)
    assert plan(small, 100, 1.0).expected_error == pytest.approx(0.5 * plan(CAP, 100, 1.0).expected_error, rel=1e-9)


# ---------------------------------------------------------------------- words, numbers, pictures


def test_a_plan_is_written_for_people_and_for_programs() -> None:
    found = plan(CAP, 100, 1.0)
    text = str(found)
    for said in ("Sphere(2)", "n = 100", "epsilon = 1", "95% within", f"{found.expected_error:.4g}"):
        assert said in text
    stored = json.loads(json.dumps(found.to_dict()))
    assert stored["manifold"] == "Sphere(2)"
    assert (stored["n"], stored["epsilon"], stored["radius"]) == (100, 1.0, CAP.radius)
    assert stored["quantiles"]["0.95"] == found.quantiles[0.95]
    assert (stored["expected_error"], stored["scale"]) == (found.expected_error, found.scale)
    assert isinstance(found, Plan)


def test_the_numbers_of_a_plan_stand_below_each_other_and_the_scale_says_what_it_is_made_of() -> None:
    for ball, counts in ((CAP, False), (Ball(SPD(3), np.eye(3), 16.0), True)):
        found = plan(ball, 1000, 10.0)
        lines = str(found).splitlines()
        assert lines[1] == f"  mechanism        {found.noise.name}"
        rows, table = lines[2:10], lines[12:]
        assert [row[2:17].strip() for row in rows][:4] == ["sensitivity", "noise scale", "likely error", "worst case"]
        for row in rows:
            assert re.fullmatch(r"  \S.{14}  [0-9].*", row), row
        assert lines[10] == f"  verdict          {found.verdict()}"
        assert lines[11].startswith("  cost             epsilon 10, rho ")
        assert re.fullmatch(r" +all mechanisms +likely error +worst case +95% within .*", table[0])
        for option, line in zip(found.options, table[1:], strict=True):
            assert option.name in line
            assert ("*" in line[:4]) == (option.name == found.noise.name)
            errors = (option.likely_error, option.expected_error, option.error_95)
            shown = [option.refusal[:30]] if option.refusal else [f"{error:.4g}" for error in errors]
            assert all(part in line for part in shown), line
        assert (2.0 * found.tolerance > 0.01 * found.sensitivity) is counts
        made = re.search(r"sensitivity      (\S+), and 2 \* (\S+) for rounding$", rows[0])
        assert (made is not None) is counts
        if made is not None:
            sensitivity, tolerance = map(float, made.groups())
            assert found.scale == pytest.approx((sensitivity + 2.0 * tolerance) / 10.0, rel=0.02)


SENTENCES: list[tuple[dict[str, Any], str]] = [
    ({}, "two of n, the privacy and error but was given none of them"),
    ({"n": 5}, "two of n, the privacy and error but was given n$"),
    ({"n": 5, "epsilon": 1.0, "error": 0.1}, "was given n and the privacy and error"),
    ({"n": 0, "epsilon": 1.0}, "the number of records n must be at least 1 but is 0"),
    ({"n": -3, "epsilon": 1.0}, "the number of records n must be at least 1 but is -3"),
    ({"n": 2.5, "epsilon": 1.0}, "number of records n"),
    ({"n": 0, "error": 0.1}, "the number of records n must be at least 1 but is 0"),
    ({"n": 5, "epsilon": 0.0}, "epsilon must be positive and finite but is 0"),
    ({"n": 5, "epsilon": math.nan}, "epsilon must be positive and finite but is nan"),
    ({"n": 5, "epsilon": math.inf}, "epsilon must be positive and finite but is inf"),
    ({"epsilon": 0.0, "error": 0.1}, "epsilon must be positive and finite but is 0"),
    ({"epsilon": -1.0, "error": 0.1}, "epsilon must be positive and finite but is -1"),
    ({"n": 5, "error": 0.0}, "the error to reach must be positive and finite but is 0"),
    ({"n": 5, "error": math.nan}, "the error to reach must be positive and finite but is nan"),
    ({"epsilon": 1.0, "error": math.inf}, "the error to reach must be positive and finite but is inf"),
    ({"n": 5, "epsilon": 1.0, "quantile": 0.5}, "a quantile goes with an error"),
    ({"n": 5, "error": 0.1, "quantile": 1.0}, "lies between 0 and 1"),
    ({"n": 5, "error": 0.1, "quantile": math.nan}, "lies between 0 and 1"),
    ({"n": 5, "epsilon": 1.0, "bound": "blunt"}, "sharp, reimherr2021"),
    ({"epsilon": 1e-9, "error": 1e-9}, "no number of records is enough"),
]


@pytest.mark.parametrize(("given", "sentence"), SENTENCES, ids=[str(given) for given, _ in SENTENCES])
def test_bad_input_is_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        plan(CAP, **given)
    assert "\n" not in str(caught.value)


def test_past_the_existence_of_the_law_the_sentence_names_what_works() -> None:
    with pytest.raises(
        ValueError, match=r"noise of scale 2 is too wide to draw on SPD\(3\).*the scale must be below 0\."
    ) as caught:
        plan(Ball(SPD(3), np.eye(3), 1.0), 1, 1.0, mechanism="intrinsic")
    assert "An epsilon above" in str(caught.value)
    assert "mechanism='tangent', which has no such limit" in str(caught.value)


def test_past_the_existence_of_the_law_the_plan_is_for_the_tangent_space_and_says_that_it_says_nothing() -> None:
    found = plan(Ball(SPD(3), np.eye(3), 1.0), 1, 1.0)
    assert found.noise.name == "tangent Laplace"
    assert found.expected_error <= 2.0 * (1.0 + 1e-9), "no two points of the ball are further apart than twice its radius"
    assert "  this release will say nothing about the data: its likely error exceeds the radius of the ball" in str(found)
    assert found.to_dict()["says_nothing"] is True
    refused = {option.name: option.refusal for option in found.options}
    assert "too wide to draw" in refused["Riemannian Laplace"]
    assert refused["tangent Laplace"] is None
    assert re.search(r"Riemannian Laplace .*noise of scale 2 is too wide", str(found))


@pytest.mark.parametrize(
    ("suffix", "start"), longer([(".png", b"\x89PNG\r\n"), (".svg", b"<?xml"), (".pdf", b"%PDF")], [(".svg", b"<?xml")])
)
def test_the_plot_is_written(suffix: str, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"plan{suffix}"
    error_against_n(CAP, PureDP(1.0), 100, path)
    written = path.read_bytes()
    assert written.startswith(start)
    assert len(written) > 5000


@pytest.mark.parametrize("around", longer([1, 3, 10**6], [3]))
def test_the_plot_leaves_out_what_does_not_exist(around: int, tmp_path: Path) -> None:
    error_against_n(Ball(SPD(2), np.eye(2), 1.5), PureDP(0.1), around, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 5000
