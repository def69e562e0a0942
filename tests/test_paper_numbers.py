"""The numbers of the paper's experiments against independent oracles, and what they must show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp, wishart

from geodp import SPD, Ball, Euclidean, Hyperbolic, Laplace, Manifold, Sphere, sensitivity

pytest.importorskip("joblib", reason="the paper's experiments need joblib and pandas: pip install '.[paper]'")
import pandas as pd

from paper import models, utility
from paper.ambient import AmbientLaplace
from paper.bounds import empirical_bound, paper_h, sharp_ingredients
from paper.circle import apart, circle_means, half_turn_pair, published_pair
from paper.experiment import PAPER_COUNTS, QUICK, Rows, Tables, where
from paper.metropolis import eigenvalue_chain, metropolis
from paper.privacy import inside_ball
from paper.rates import fitted_slope


def joined(rows: Rows) -> Tables:
    """The tables of one task of the experiment on utility."""
    tables = {name: pd.DataFrame(each) for name, each in rows.items()}
    return tables | utility.derived(tables)


# ---------------------------------------------------------------------- data


def test_matrices_follow_the_conditioned_wishart_law() -> None:
    """Two-sample tests against SciPy's Wishart sampler. False alarms: 2e-4; one more degree of freedom is rejected."""
    ours = models.wishart_records((4000,), np.random.default_rng(2))
    assert models.MATRICES.contains(ours).all()

    def reference(degrees: int) -> np.ndarray:
        x = wishart(degrees, 0.5 * np.eye(2)).rvs(20_000, random_state=np.random.default_rng(3))
        return x[SPD(2).dist(np.eye(2), x) < 1.5]

    for statistic in (lambda x: x[:, 0, 0] + x[:, 1, 1], lambda x: x[:, 0, 1]):
        assert ks_2samp(statistic(ours), statistic(reference(2))).pvalue > 1e-4
    trace = [x[:, 0, 0] + x[:, 1, 1] for x in (ours, reference(3))]
    assert ks_2samp(*trace).pvalue < 1e-4


def test_draws_about_many_centres_follow_the_law() -> None:
    """The mean distance is that of the law. False alarm: 6e-5."""
    law = Laplace(SPD(2), 0.2)
    centers = models.means(models.MATRICES, models.wishart_records((20, 10), np.random.default_rng(4)))
    draws = models.noisy(law, centers, 500, np.random.default_rng(5))
    radius = law.manifold.dist(centers[:, None], draws).ravel()
    assert abs(radius.mean() - law.mean_radius()) < 4.0 * radius.std() / math.sqrt(len(radius))


# ---------------------------------------------------------------------- bounds and examples


def test_the_empirical_bound_is_the_one_of_the_papers_experiments() -> None:
    assert empirical_bound(math.pi / 8) == pytest.approx(1.02645, abs=1e-5)
    assert paper_h(math.pi / 8) == pytest.approx(math.pi / 4)


def test_the_ingredients_of_the_sharp_bound_are_those_of_a_mean_at_the_centre_and_at_the_boundary() -> None:
    reach, hessian, quotient = sharp_ingredients(0.6, np.array([0.0, 0.6]))
    np.testing.assert_allclose(reach, [1.2, 2.0 * math.tan(0.6)], rtol=1e-12)
    np.testing.assert_allclose(hessian, [0.6 / math.tan(0.6), 1.0], rtol=1e-7)
    np.testing.assert_allclose(quotient, 2.0 * math.tan(0.6), rtol=1e-7)


@pytest.mark.parametrize("angles", [[0.1, 0.5, 2.0], [0.0, 2.0, 4.0, 6.0, 1.0], [3.0, 3.3, -3.2], [0.0, math.pi, 1.0]])
def test_means_on_the_circle_are_the_global_minimum(angles: list[float]) -> None:
    """Against a search over a fine grid."""
    x = np.array(angles)
    grid = np.linspace(0.0, 2.0 * math.pi, 200_001)
    energy = sum(((g - grid + math.pi) % (2.0 * math.pi) - math.pi) ** 2 for g in x)
    assert any(apart(float(grid[np.argmin(energy)]), float(mean)) < 1e-4 for mean in circle_means(x))


@pytest.mark.parametrize("n", [4, 5, 10, 11])
def test_examples_on_the_circle_differ_in_one_record(n: int) -> None:
    for pair in (published_pair(n), half_turn_pair(n)):
        assert (pair[0] != pair[1]).sum() == 1
        assert len(pair[0]) == len(pair[1]) == n


@pytest.mark.parametrize("manifold", [Sphere(2), Euclidean(2), Hyperbolic(2)], ids=repr)
def test_the_probability_of_a_ball_is_the_share_of_draws_in_it(manifold: Manifold) -> None:
    """False alarms: 6e-5 each. The wrong distance, off by a tenth, is rejected."""
    ball, law = Ball(manifold, manifold.origin, 0.8), Laplace(manifold, 0.3)
    coordinates = np.array([0.5, 0.0])
    center = manifold.exp(manifold.origin, manifold.tangent(manifold.origin, coordinates))
    share = ball.contains(law.sample(center, 100_000, np.random.default_rng(6))).mean()
    error = math.sqrt(share * (1.0 - share) / 100_000)
    assert abs(inside_ball(manifold, 0.8, 0.5, 0.3) - share) < 4.0 * error
    assert abs(inside_ball(manifold, 0.8, 0.55, 0.3) - share) > 4.0 * error


def test_slopes_are_those_of_weighted_least_squares() -> None:
    rng = np.random.default_rng(7)
    x, se = np.arange(6.0), rng.uniform(0.1, 0.5, 6)
    y = 3.0 - 2.0 * x + se * rng.normal(size=6)
    (slope, _), covariance = np.polyfit(x, y, 1, w=1.0 / se, cov="unscaled")
    assert fitted_slope(x, y, se) == pytest.approx((slope, math.sqrt(covariance[0, 0])), rel=1e-9)


# ---------------------------------------------------------------------- the paper's chains


@pytest.mark.slow
def test_the_published_chain_is_right_at_small_n_and_frozen_at_large_n() -> None:
    """400 chains: the mean distance has a standard error of 3%. False alarm: 6e-5 for the first."""
    for n, lowest, highest in ((100, 0.88, 1.12), (20_000, 4.0, 8.0)):
        law = Laplace(SPD(2), 6.0 / n)
        x = eigenvalue_chain(SPD(2), law.sigma, np.eye(2), 400, np.random.default_rng(8))
        assert lowest < law.manifold.dist(np.eye(2), x).mean() / law.mean_radius() < highest


@pytest.mark.slow
def test_drawing_again_after_a_rejection_biases_the_chain() -> None:
    """6,000 chains: a standard error of 0.9% against a bias of 4%. False alarms below 1%."""
    law = Laplace(Sphere(2), 0.01)
    ratio = {}
    for redraw in (False, True):
        x = metropolis(law, [0.0, 0.0, 1.0], 6000, np.random.default_rng(9), steps=150, redraw=redraw)
        ratio[redraw] = law.manifold.dist([0.0, 0.0, 1.0], x).mean() / law.mean_radius()
    assert abs(ratio[False] - 1.0) < 0.027
    assert 1.015 < ratio[True] < 1.065


# ---------------------------------------------------------------------- what the experiments must show


def test_quadrature_of_projected_ambient_noise_agrees_with_draws_and_with_its_limit() -> None:
    """False alarm: 6e-5. For small noise a projected draw keeps pi/4 of its length, the mean sine of a uniform direction."""
    noise = AmbientLaplace(models.CAP, 25, 1.0)
    means = np.broadcast_to(models.NORTH, (200_000, 3))
    errors = np.linalg.vector_norm(noise.nearest(noise.sample(means, np.random.default_rng(10))) - models.NORTH, axis=-1)
    exact = utility.exact_projected_chord(noise.scale)
    assert abs(errors.mean() - exact) < 4.0 * errors.std() / math.sqrt(len(errors))
    assert utility.exact_projected_chord(1e-5) == pytest.approx(3.0e-5 * math.pi / 4.0, rel=1e-4)


def test_quadrature_of_the_chord_is_the_closed_form_of_the_arc_for_small_noise() -> None:
    for sigma in (0.05, 0.005):
        arc = 2.0 * sigma / (1.0 + sigma**2) + math.pi / (math.exp(math.pi / sigma) + 1.0)
        assert utility.exact_chord(sigma) < arc == pytest.approx(Laplace(Sphere(2), sigma).mean_radius(), rel=1e-9)
        assert utility.exact_chord(sigma) == pytest.approx(arc, rel=2.0 * sigma**2)


def test_gains_on_the_sphere_are_those_the_experiments_must_show() -> None:
    """No draws: integrals at every n of the paper."""
    for n in PAPER_COUNTS:
        ambient = 3.0 * AmbientLaplace(models.CAP, n, 1.0).scale
        empirical = 1.0 - utility.exact_chord(empirical_bound(models.CAP.radius) / n) / ambient
        sharp = 1.0 - utility.exact_chord(sensitivity(models.CAP, n)) / ambient
        assert 0.1225 < empirical < 0.1255
        assert 0.28 < sharp < 0.31


@pytest.mark.slow
def test_shares_and_errors_on_matrices_are_those_the_experiments_must_show() -> None:
    """400 means with 250 draws each: shares have a standard error below 0.5%, errors one of 0.6%."""
    for n, share in ((20, 0.33), (30, 0.15), (40, 0.07)):
        tables = joined(utility.work(np.random.default_rng(n), "SPD(2)", n, replicates=400, draws=100_000, releases=2))
        found = where(tables["not_definite"], calibration=utility.SINGLE)
        assert found["ambient"][0] == pytest.approx(share, abs=0.02)
        assert found["intrinsic"][0] == 0.0
        assert where(tables["reductions"], calibration=utility.SINGLE)["ratio"][0] <= 0.40
        assert tables["releases"]["not_on_manifold"][0] == 0


@pytest.mark.slow
def test_the_error_on_matrices_is_at_most_two_fifths_of_the_ambient_one_at_every_n() -> None:
    for index, task in enumerate(utility.tasks(QUICK)):
        if task["space"] == "SPD(2)":
            tables = joined(utility.work(np.random.default_rng(index), **(task | {"releases": 1})))
            assert where(tables["reductions"], calibration=utility.SINGLE)["ratio"][0] <= 0.40
