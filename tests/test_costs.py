"""Costs: every number of a privacy curve against an independent oracle, and always on the safe side of it.

Oracles: the privacy loss of Laplace noise as a two-dimensional integral over radius and angle (the library has one dimension
and a closed normaliser), closed forms on a line, Monte Carlo, and the privacy loss distributions of dp-accounting. Monte Carlo
tests use fixed seeds and five standard errors: a false alarm has probability below 1e-6.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from cases import longer
from dp_accounting.pld import common, privacy_loss_distribution
from scipy.integrate import quad
from scipy.special import gammaln, ive, kve
from scipy.stats import norm

from geodp.privacy.cost import (
    ApproximateCost,
    ConcentratedCost,
    Cost,
    GaussianCost,
    LaplaceCost,
    PureCost,
    compose,
    concentrated_rho,
    cost_from_dict,
    cost_of,
    gaussian_shift,
    laplace_ratio,
    pure_epsilon,
)
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP, privacy_of

COSTS: list[Cost] = [
    PureCost(0.7),
    LaplaceCost(0.3, 1),
    LaplaceCost(1.0, 2),
    LaplaceCost(2.2, 3),
    LaplaceCost(1.3, 21),
    LaplaceCost(4.8, 406),
    GaussianCost(0.4),
    GaussianCost(2.0),
    ConcentratedCost(0.05),
    ApproximateCost(1.0, 1e-5),
    compose([LaplaceCost(0.5, 6), GaussianCost(0.3), PureCost(0.2)]),
]
every_cost = pytest.mark.parametrize("cost", COSTS, ids=str)


def delta_in_two_dimensions(t: float, d: int, epsilon: float) -> float:
    """``E (1 - exp(epsilon - L))_+`` for ``L = |s theta - t e| - s``, as an integral over ``s`` and ``cos``."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    # radius: Gamma(d); beyond these ends there is less than 1e-16 of it
    spread = math.sqrt(d)
    low, high = max(d - 12.0 * spread, 0.0), d + 12.0 * spread + 40.0
    s = low + (high - low) * 0.5 * (nodes + 1.0)
    radial = np.exp((d - 1.0) * np.log(s) - s - gammaln(d)) * 0.5 * (high - low) * weights
    # cos = cos(a), with density sin(a)^(d-2); half a turn in panels, since the integrand has a kink along a curve
    edges = np.linspace(0.0, math.pi, 61)
    fine, fine_weights = np.polynomial.legendre.leggauss(24)
    a = (edges[:-1, None] + np.diff(edges)[:, None] * 0.5 * (fine + 1.0)).ravel()
    angular = (np.diff(edges)[:, None] * 0.5 * fine_weights).ravel() * np.sin(a) ** (d - 2)
    angular /= angular.sum()
    loss = np.sqrt(np.maximum(s[:, None] ** 2 - 2.0 * t * s[:, None] * np.cos(a) + t * t, 0.0)) - s[:, None]
    return float(radial @ np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0) @ angular)


# ---------------------------------------------------------------------- Laplace noise


@pytest.mark.parametrize(
    ("t", "d", "epsilon"), [(1.0, 2, 0.0), (2.0, 2, 0.5), (1.0, 3, 0.3), (1.3, 6, 0.4), (3.0, 10, 1.0), (2.2, 21, 0.2)]
)
def test_the_curve_of_laplace_noise_is_the_two_dimensional_integral(t: float, d: int, epsilon: float) -> None:
    assert LaplaceCost(t, d).delta_at(epsilon) == pytest.approx(delta_in_two_dimensions(t, d, epsilon), rel=2e-4)


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("t", [80.0, 105.04, 150.0])
def test_laplace_noise_is_known_as_well_where_the_series_of_its_bessel_functions_cancel(t: float, d: int) -> None:
    """In the plane at a ratio of 105.04 there was no enclosure, and the bound on rho was half as large again as the ratio."""
    cost = LaplaceCost(t, d)
    half, order = 0.5 * t, 0.5 * d  # the scaled functions' factors exp(-t/2) and exp(t/2) cancel in the products
    mean_loss = t * half * (ive(order, half) * kve(order, half) + ive(order + 1, half) * kve(order - 1, half))
    assert cost.rho == pytest.approx(mean_loss, rel=1e-12)
    epsilon = t - 3.0
    assert cost.delta_at(epsilon) == pytest.approx(delta_in_two_dimensions(t, d, epsilon), rel=2e-3)
    assert cost.delta_at(epsilon + 0.01) < delta_in_two_dimensions(t, d, epsilon) * (1 - 2e-3), "0.01 more would be noticed"


@pytest.mark.parametrize(("t", "d"), [(1.0, 1), (1.0, 2), (2.0, 3), (1.5, 8)])
def test_the_curve_of_laplace_noise_is_what_draws_show(t: float, d: int) -> None:
    rng, size = np.random.default_rng(1), 400_000
    z = rng.standard_normal((size, d))
    z *= (rng.gamma(d, 1.0, size) / np.linalg.vector_norm(z, axis=1))[:, None]
    shifted = z.copy()
    shifted[:, 0] -= t
    loss = np.linalg.vector_norm(shifted, axis=1) - np.linalg.vector_norm(z, axis=1)
    cost = LaplaceCost(t, d)
    for epsilon in (0.0, 0.3 * t, 0.7 * t):
        seen = np.maximum(-np.expm1(epsilon - loss), 0.0)
        assert cost.delta_at(epsilon) == pytest.approx(seen.mean(), abs=5.0 * seen.std() / math.sqrt(size))
    assert cost.rho == pytest.approx(loss.mean(), abs=5.0 * loss.std() / math.sqrt(size))
    wrong = LaplaceCost(1.03 * t, d)
    assert abs(wrong.rho - loss.mean()) > 5.0 * loss.std() / math.sqrt(size), "three per cent more would be noticed"


@pytest.mark.parametrize("t", [1e-3, 0.5, 1.0, 4.0, 30.0])
def test_on_a_line_everything_is_closed(t: float) -> None:
    cost = LaplaceCost(t, 1)
    assert cost.rho == pytest.approx(t + math.expm1(-t), rel=1e-12)
    for epsilon in (0.0, 0.4 * t, 0.99 * t):
        assert cost.delta_at(epsilon) == pytest.approx(-math.expm1(0.5 * (epsilon - t)), rel=1e-12)
    assert cost.delta_at(t) == cost.delta_at(2.0 * t) == 0.0


def test_rho_at_epsilon_one_in_many_dimensions() -> None:
    found = [LaplaceCost(1.0, d).rho for d in (1, 2, 3, 6, 10, 21, 78)]
    assert found == pytest.approx([0.3678, 0.2283, 0.1606, 0.0827, 0.0499, 0.0238, 0.0064], abs=1e-4)


@pytest.mark.parametrize("d", longer([1, 2, 3, 7, 40], [1, 7]))
@pytest.mark.parametrize("t", [0.2, 1.0, 5.0])
def test_no_order_of_renyi_divergence_exceeds_rho_and_none_is_needed_but_the_first(t: float, d: int) -> None:
    cost = LaplaceCost(t, d)
    assert cost.rho <= min(t * t / (2.0 * d), t * math.tanh(0.5 * t)) * (1.0 + 1e-12)
    ratios = [renyi(t, d, order) / order for order in (1.001, 1.5, 2.0, 4.0, 16.0)]
    assert all(ratio <= cost.rho * (1.0 + 1e-9) for ratio in ratios)
    assert all(later <= earlier * (1.0 + 1e-9) for earlier, later in pairwise(ratios))
    assert ratios[0] == pytest.approx(cost.rho, rel=5e-3)


def renyi(t: float, d: int, order: float) -> float:
    """The Rényi divergence of Laplace noise in ``R^d``, in 30 digits, from the law of the loss in prolate coordinates."""
    with mpmath.workdps(30):
        if d == 1:
            moment = (mpmath.exp((order - 1) * t) + mpmath.exp(-order * t)) / 2 + mpmath.quad(
                lambda x: mpmath.exp(-x + (order - 1) * (t - 2 * x)) / 2, [0, t]
            )
            return float(mpmath.log(moment) / (order - 1))
        half = mpmath.mpf(t) / 2
        spread = 1 + 2 * (d - 1) / mpmath.mpf(t) * mpmath.besselk(mpmath.mpf(d) / 2, half) / mpmath.besselk(
            mpmath.mpf(d) / 2 - 1, half
        )

        def density(a: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(half * mpmath.sin(a)) * mpmath.cos(a) ** (d - 2) * (spread - mpmath.sin(a) ** 2)

        ends = [-mpmath.pi / 2, 0, mpmath.pi / 2]
        mass = mpmath.quad(density, ends)
        moment = mpmath.quad(lambda a: density(a) * mpmath.exp((order - 1) * t * mpmath.sin(a)), ends) / mass
        return float(mpmath.log(moment) / (order - 1))


def test_the_worst_pair_is_the_farthest_one() -> None:
    for d in (1, 2, 5, 30):
        for epsilon in (0.0, 0.5, 1.0):
            curve = [LaplaceCost(t, d).delta_at(epsilon) for t in (0.4, 0.8, 1.2, 1.6, 2.0)]
            assert all(near <= far for near, far in pairwise(curve))


def test_advantages_at_epsilon_one() -> None:
    assert [LaplaceCost(1.0, d).advantage for d in (1, 2, 3, 6)] == pytest.approx([0.394, 0.296, 0.242, 0.168], abs=6e-4)
    assert PureCost(1.0).advantage == pytest.approx(math.tanh(0.5))


# ---------------------------------------------------------------------- calibration


@pytest.mark.parametrize(
    ("d", "t"), [(2, 1.000), (3, 1.002), (6, 1.025), (10, 1.091), (21, 1.314), (36, 1.592), (78, 2.2053), (406, 4.819)]
)
def test_the_calibration_at_one_and_a_millionth(d: int, t: float) -> None:
    found = laplace_ratio(ApproximateDP(1.0, 1e-6), d)
    assert found == pytest.approx(t, abs=6e-4)
    assert LaplaceCost(found, d).delta_at(1.0) <= 1e-6 < LaplaceCost(found * (1.0 + 1e-8), d).delta_at(1.0)


def test_the_claim_holds_and_not_nearly() -> None:
    assert LaplaceCost(2.205, 78).meets(ApproximateDP(1.0, 1e-6))
    assert not LaplaceCost(2.206, 78).meets(ApproximateDP(1.0, 1e-6))


@pytest.mark.parametrize("d", [1, 2, 3, 50, 1000])
@pytest.mark.parametrize(
    "privacy",
    [
        PureDP(0.3),
        ApproximateDP(1.0, 1e-6),
        ApproximateDP(0.01, 0.01),
        ApproximateDP(8.0, 1e-10),
        ApproximateDP(1.0, 0.9),
        ZeroConcentratedDP(1e-6),
        ZeroConcentratedDP(0.05),
        ZeroConcentratedDP(10.0),
    ],
    ids=str,
)
def test_calibrated_laplace_noise_keeps_its_privacy_and_no_less_noise_would(privacy: Privacy, d: int) -> None:
    ratio = laplace_ratio(privacy, d)
    assert ratio is not None
    assert LaplaceCost(ratio, d).meets(privacy)
    assert not LaplaceCost(ratio * (1.0 + 1e-6), d).meets(privacy)
    if not isinstance(privacy, ZeroConcentratedDP):
        assert ratio >= privacy.size, "never worse than pure"


@pytest.mark.parametrize(
    "privacy", [ApproximateDP(1.0, 1e-6), ApproximateDP(0.1, 0.01), ZeroConcentratedDP(0.3), GaussianDP(0.7)], ids=str
)
def test_calibrated_gaussian_noise_keeps_its_privacy_and_no_less_noise_would(privacy: Privacy) -> None:
    shift = gaussian_shift(privacy)
    assert shift is not None
    assert GaussianCost(shift).meets(privacy)
    assert not GaussianCost(shift * (1.0 + 1e-6)).meets(privacy)


def test_the_analytic_gaussian_agrees_with_an_integral_over_the_loss() -> None:
    for mu, epsilon in ((0.5, 0.2), (1.0, 1.0), (3.0, 2.0)):

        def integrand(x: float, mu: float = mu, epsilon: float = epsilon) -> float:
            return max(0.0, norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x))

        start = epsilon / mu + mu / 2.0
        assert GaussianCost(mu).delta_at(epsilon) == pytest.approx(
            quad(integrand, start, start + 40.0, epsabs=0, limit=400)[0], rel=1e-8
        )


def test_concentrated_budgets_for_one_and_a_millionth() -> None:
    rho = concentrated_rho(ApproximateDP(1.0, 1e-6))
    assert rho == pytest.approx(0.02436, abs=6e-6)
    assert ConcentratedCost(rho).delta_at(1.0) <= 1e-6


def test_what_a_pure_epsilon_implies() -> None:
    for privacy in (ZeroConcentratedDP(0.2), GaussianDP(1.0), ApproximateDP(1.0, 1e-3)):
        epsilon = pure_epsilon(privacy)
        assert PureCost(epsilon).meets(privacy)
        assert not PureCost(epsilon * (1.0 + 1e-6)).meets(privacy)
    with mpmath.workdps(30):
        assert float(mpmath.log((mpmath.e + mpmath.mpf("1e-3")) / (1 - mpmath.mpf("1e-3")))) == pytest.approx(
            pure_epsilon(ApproximateDP(1.0, 1e-3)), rel=1e-9
        )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_gaussian_privacy_follows_from_a_pure_epsilon(epsilon: float) -> None:
    """The trade-off function of randomised response is nowhere below that of the normal laws, and touches it."""
    mu = PureCost(epsilon).mu
    alphas = np.linspace(1e-4, 1.0 - 1e-4, 400)
    response = np.maximum(1.0 - math.exp(epsilon) * alphas, math.exp(-epsilon) * (1.0 - alphas))
    gaps = response - norm.cdf(norm.ppf(1.0 - alphas) - mu)
    assert gaps.min() > -1e-12
    assert norm.cdf(-0.5 * mu) == pytest.approx(1.0 / (1.0 + math.exp(epsilon)), rel=1e-9)


# ---------------------------------------------------------------------- what every cost must do


@every_cost
def test_curves_fall_and_their_two_directions_agree(cost: Cost) -> None:
    epsilons = np.linspace(0.0, min(cost.epsilon, 6.0), 9)
    deltas = [cost.delta_at(float(epsilon)) for epsilon in epsilons]
    assert all(later <= earlier for earlier, later in pairwise(deltas))
    assert all(0.0 <= delta <= 1.0 for delta in deltas)
    assert cost.delta_at(0.0) == cost.advantage
    for delta in (0.02, 1e-4):
        epsilon = cost.epsilon_at(delta)
        assert cost.delta_at(epsilon) <= delta
        assert epsilon == 0.0 or cost.delta_at(epsilon * (1.0 - 1e-6)) > delta


@pytest.mark.parametrize("cost", longer(COSTS, COSTS[::3]), ids=str)
def test_trade_off_functions_are_convex_and_say_what_the_curve_says(cost: Cost) -> None:
    alphas = np.linspace(0.0, 1.0, 21)
    missed = np.array([cost.tradeoff(float(alpha)) for alpha in alphas])
    assert (np.diff(missed) <= 1e-9).all()
    assert (np.diff(missed, 2) >= -1e-7).all()
    assert (missed <= 1.0 - alphas + 1e-12).all()
    assert (1.0 - alphas - missed).max() <= cost.advantage + 1e-12
    for epsilon in (0.0, 0.5, 1.0):
        assert (missed >= 1.0 - cost.delta_at(epsilon) - math.exp(epsilon) * alphas - 1e-7).all()


def test_the_trade_off_of_gaussian_noise_is_that_of_normal_laws() -> None:
    for alpha in (1e-4, 0.01, 0.3, 0.9):
        assert GaussianCost(1.2).tradeoff(alpha) == pytest.approx(norm.cdf(norm.ppf(1.0 - alpha) - 1.2), rel=1e-6)


def test_the_trade_off_of_laplace_noise_on_a_line_is_closed() -> None:
    t = 1.0
    for alpha in (0.01, 0.2, 0.4, 0.7):
        low, high = math.exp(-t) / 2.0, 0.5
        exact = (
            1.0 - math.exp(t) * alpha
            if alpha < low
            else math.exp(-t) / (4.0 * alpha)
            if alpha < high
            else math.exp(-t) * (1.0 - alpha)
        )
        assert LaplaceCost(t, 1).tradeoff(alpha) == pytest.approx(exact, rel=1e-6)


@every_cost
def test_costs_survive_their_dictionaries(cost: Cost) -> None:
    assert cost_from_dict(cost.to_dict()) == cost


# ---------------------------------------------------------------------- composition, beside dp-accounting


def test_single_costs_agree_with_privacy_loss_distributions() -> None:
    """dp-accounting rounds losses up, so its curve is a little above the true one."""
    laplace = privacy_loss_distribution.from_laplace_mechanism(1.0, sensitivity=0.8, value_discretization_interval=1e-4)
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4)
    for epsilon in (0.0, 0.3, 0.6):
        assert LaplaceCost(0.8, 1).delta_at(epsilon) == pytest.approx(laplace.get_delta_for_epsilon(epsilon), rel=1e-3)
        assert GaussianCost(0.5).delta_at(epsilon) == pytest.approx(gaussian.get_delta_for_epsilon(epsilon), rel=1e-3)


def test_sums_of_costs_bound_what_the_composed_losses_show_and_not_by_far() -> None:
    response = privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(0.1, 0.0))
    gaussian = privacy_loss_distribution.from_gaussian_mechanism(10.0, value_discretization_interval=1e-3)
    for true, ours in (
        (response.self_compose(30), compose([PureCost(0.1)] * 30)),
        (gaussian.self_compose(30), compose([GaussianCost(0.1)] * 30)),
    ):
        epsilon = ours.epsilon_at(1e-6)
        # the accountant rounds losses up, by about a part in ten thousand
        assert (1.0 - 1e-4) * true.get_epsilon_for_delta(1e-6) <= epsilon <= 1.35 * true.get_epsilon_for_delta(1e-6)


def test_the_sum_of_costs_is_exact_and_rounded_up() -> None:
    total = compose([LaplaceCost(0.1, 2)] * 10)
    assert Fraction(total.epsilon) >= 10 * Fraction(0.1)
    assert total.epsilon == pytest.approx(1.0, abs=1e-15)
    assert compose([GaussianCost(0.3)]) == GaussianCost(0.3), "one alone keeps its own curve"
    assert math.isinf(compose([GaussianCost(0.3), PureCost(1.0)]).epsilon)


# ---------------------------------------------------------------------- asking for privacy


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "give the privacy to spend: exactly one of epsilon, epsilon and delta, rho, or mu"),
        ({"epsilon": 1.0, "rho": 1.0}, "given were epsilon and rho"),
        ({"epsilon": 1.0, "delta": 1e-6, "mu": 1.0}, "given were epsilon, delta and mu"),
        ({"delta": 1e-6}, "a delta goes with an epsilon"),
        (
            {"epsilon": 1.0, "delta": 0.0},
            "delta must be above 0 and below 1 but is 0: for pure differential privacy leave it out",
        ),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be above 0 and below 1 but is 1"),
        ({"epsilon": 0.0}, "epsilon must be positive and finite but is 0.0"),
        ({"rho": -1.0}, "rho must be positive and finite but is -1.0"),
        ({"mu": math.nan}, "mu must be positive and finite but is nan"),
        ({"mu": math.inf}, "mu must be positive and finite but is inf"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta must be above 0 and below 1 but is nan"),
    ],
)
def test_privacy_is_asked_for_in_exactly_one_way(given: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        privacy_of(**given)


def test_what_is_no_number_is_no_privacy() -> None:
    with pytest.raises(TypeError, match="rho must be a number"):
        privacy_of(rho=object())


@pytest.mark.parametrize("privacy", [PureDP(1.0), ApproximateDP(1.0, 1e-6), ZeroConcentratedDP(0.1), GaussianDP(0.5)], ids=str)
def test_a_mechanism_of_which_only_the_claim_is_known_costs_the_claim(privacy: Privacy) -> None:
    assert privacy_of(**privacy.parameters()) == privacy
    cost = cost_of(privacy)
    assert cost.meets(privacy)
    weaker = type(privacy)(**{name: 0.99 * value for name, value in privacy.parameters().items()})
    assert not cost.meets(weaker)
