"""The Gamma law at single points against SciPy and against more digits."""

from __future__ import annotations

import mpmath
import pytest
from scipy.special import gammainc, gammaincc, gammaincinv

from geodp.arithmetic.gamma import gamma_probabilities, gamma_quantile

SHAPES = [0.5, 1.0, 2.5, 6.0, 39.0, 203.0, 2080.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_probabilities_of_the_gamma_law_are_those_of_scipy(shape: float) -> None:
    for x in (1e-9, 0.1, 0.9 * shape, shape, 1.5 * shape + 3.0):
        below, above = gamma_probabilities(shape, x)
        assert below == pytest.approx(float(gammainc(shape, x)), rel=1e-11, abs=1e-300)
        assert above == pytest.approx(float(gammaincc(shape, x)), rel=1e-11, abs=1e-300)
    assert gamma_probabilities(shape, 0.0) == (0.0, 1.0)
    assert gamma_probabilities(shape, float("inf")) == (1.0, 0.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("q", [1e-18, 1e-6, 0.01, 0.5, 0.7, 0.9999, 1.0 - 1e-12])
def test_quantiles_of_the_gamma_law_are_those_of_scipy(shape: float, q: float) -> None:
    assert gamma_quantile(shape, q) == pytest.approx(float(gammaincinv(shape, q)), rel=1e-12)


def test_a_far_quantile_has_its_probability_to_more_digits() -> None:
    with mpmath.workdps(40):
        found = mpmath.gammainc(6, 0, gamma_quantile(6.0, 1e-10), regularized=True)
        assert abs(found / mpmath.mpf(1e-10) - 1) < 1e-13
