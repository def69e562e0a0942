"""The one-dimensional sampler against closed forms and brute-force integrals, and its quadrature against known ones.

Every goodness-of-fit test below has a false-alarm probability of ``LEVEL``; the seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats

from geodp.inputs import Array
from geodp.noise.radial import LogConcave, Piecewise

LEVEL = 1e-4
DIMENSIONS = [1, 2, 3, 10, 100, 1000, 10_000]


def brute_force_cdf(log_density: Callable[[Array], Array], low: float, high: float) -> Callable[[Array], Array]:
    """A cumulative midpoint sum over a million cells: crude, and sharing nothing with the code under test."""
    edges = np.linspace(low, high, 1_000_001)
    with np.errstate(all="ignore"):
        values = log_density(0.5 * (edges[1:] + edges[:-1]))
    mass = np.append(0.0, np.cumsum(np.exp(values - values.max())))
    return lambda s: np.interp(s, edges, mass / mass[-1])


def radial(dim: int, sigma: float) -> LogConcave:
    return LogConcave(lambda s: (dim - 1) * np.log(s) - s / sigma if dim > 1 else -s / sigma, math.inf)


@pytest.mark.parametrize("sigma", [1e-12, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("dim", DIMENSIONS)
def test_the_flat_radius_is_gamma(dim: int, sigma: float) -> None:
    draws = radial(dim, sigma).sample(20_000, np.random.default_rng(dim))
    assert stats.kstest(draws / sigma, stats.gamma(dim).cdf).pvalue > LEVEL


@pytest.mark.parametrize("dim", DIMENSIONS)
def test_a_scale_three_percent_off_is_rejected(dim: int) -> None:
    draws = radial(dim, 1.03).sample(100_000, np.random.default_rng(1))
    assert stats.kstest(draws, stats.gamma(dim).cdf).pvalue < LEVEL


@pytest.mark.parametrize("fraction", [1e-12, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("dim", DIMENSIONS[1:])
def test_the_hyperbolic_radius_follows_its_density_up_to_the_existence_limit(dim: int, fraction: float) -> None:
    sigma = fraction / (dim - 1)

    def log_density(s: Array) -> Array:
        return (dim - 1) * (s + np.log(-np.expm1(-2.0 * s))) - s / sigma

    law = LogConcave(log_density, math.inf)
    draws = law.sample(20_000, np.random.default_rng(dim))
    assert stats.kstest(draws, brute_force_cdf(log_density, *law.span(40.0))).pvalue > LEVEL


@pytest.mark.parametrize("sigma", [1e-12, 1e-3, 0.1, 1.0, 1e3])
@pytest.mark.parametrize("dim", DIMENSIONS)
def test_the_spherical_radius_follows_its_density(dim: int, sigma: float) -> None:
    def log_density(s: Array) -> Array:
        return (dim - 1) * np.log(np.sin(s)) - s / sigma if dim > 1 else -s / sigma

    law = LogConcave(log_density, math.pi)
    draws = law.sample(20_000, np.random.default_rng(dim))
    assert (draws >= 0.0).all()
    assert (draws <= math.pi).all()
    assert stats.kstest(draws, brute_force_cdf(log_density, *law.span(40.0))).pvalue > LEVEL


DENSITIES = {
    "uniform": (lambda s: 0.0 * s, 1.0),
    "almost uniform": (lambda s: -1e-13 * s, 1.0),
    "rising": (lambda s: 40.0 * s, 1.0),
    "falling": (lambda s: -40.0 * s, 1.0),
    "exponential": (lambda s: -s, math.inf),
    "two slopes": (lambda s: np.minimum(s, 5.0 - 30.0 * s), math.inf),
    "a needle": (lambda s: -1e9 * np.abs(s - 0.3), 1.0),
    "a plateau": (lambda s: -1e6 * np.maximum(np.abs(s - 0.5) - 0.2, 0.0), 1.0),
    "Gaussian": (lambda s: -0.5 * (s - 3.0) ** 2, math.inf),
    "triangle": (lambda s: np.log(s), 1.0),
    "cliff": (lambda s: -((s / 0.9) ** 50.0), 1.0),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_rejection_is_bounded_for_every_log_concave_density(name: str) -> None:
    log_density, end = DENSITIES[name]
    law = LogConcave(log_density, end)
    low, high = law.span(50.0)
    mass = Piecewise.fit(lambda s: np.exp(law(s) - law.peak), [low, law.mode, high], 1e-10).integral()
    assert mass / np.exp(law._hat.log_areas()).sum() > (math.e - 1.0) / (math.e + 1.0)
    draws = law.sample(20_000, np.random.default_rng(0))
    assert stats.kstest(draws, brute_force_cdf(log_density, low, high)).pvalue > LEVEL


def test_the_hat_lies_above_the_density() -> None:
    law = radial(50, 0.7)
    pieces = law._hat
    for anchor, direction, rate, width, height in zip(*pieces, strict=True):
        offsets = np.linspace(0.0, min(width, 100.0), 1001)
        assert (law(anchor + direction * offsets) - law.peak <= height - rate * offsets + 1e-12).all()


def test_the_mode_is_found_at_either_end_and_inside() -> None:
    assert LogConcave(lambda s: -s, math.inf).mode == 0.0
    assert LogConcave(lambda s: s, 2.0).mode == 2.0
    assert LogConcave(lambda s: 4.0 * np.log(s) - s, math.inf).mode == pytest.approx(4.0, rel=1e-6)


def test_draws_are_reproducible_from_the_generator() -> None:
    first, second = (radial(3, 1.0).sample(100, np.random.default_rng(7)) for _ in range(2))
    assert (first == second).all()
    assert radial(3, 1.0).sample(0, np.random.default_rng(7)).shape == (0,)


def test_quadrature_meets_its_own_error_estimate() -> None:
    for shape in (1.5, 3.0, 40.0):
        fit = Piecewise.fit(lambda s, a=shape: np.exp((a - 1.0) * np.log(s) - s), [0.0, 1.0, 10.0, 400.0], 1e-13)
        exact = special.gamma(shape)
        assert abs(fit.integral() - exact) <= 1e-13 * exact + fit.error
        s = np.array([0.0, 0.3, 2.0, 30.0, 50.0])
        np.testing.assert_allclose(fit.integral_to(s) / exact, special.gammainc(shape, s), atol=1e-11)
        inside = fit.solve_integral(np.array([0.1, 0.5, 0.9]) * exact)
        np.testing.assert_allclose(inside, stats.gamma(shape).ppf([0.1, 0.5, 0.9]), rtol=1e-10)


def test_quadrature_refuses_what_is_not_finite() -> None:
    with pytest.raises(FloatingPointError, match="not finite"):
        Piecewise.fit(lambda s: np.full_like(s, np.nan), [0.0, 1.0], 1e-10)
