"""Costs as privacy loss distributions of the real dp-accounting: never below the truth, close to it, and theirs in our ledgers.

Oracles: the exact curve of composed Gaussians; binomial sums for randomised response (Kairouz, Oh and Viswanath 2015); repeated
convolution of the density of the loss, on a grid fine enough for five digits; dp-accounting's own distributions. Nothing is
random.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import longer
from scipy.signal import fftconvolve
from scipy.special import kv

dp_accounting = pytest.importorskip("dp_accounting", reason="dp-accounting is an extra: pip install 'geodp[accounting]'")

from dp_accounting import dp_event  # noqa: E402
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution  # noqa: E402
from dp_accounting.rdp import RdpAccountant  # noqa: E402

from geodp import SPD, Ball, Ledger, LedgerError, private_ball, private_mean  # noqa: E402
from geodp.integrations.accounting import charge, event_of, loss_distribution  # noqa: E402
from geodp.privacy.cost import (  # noqa: E402
    ApproximateCost,
    ConcentratedCost,
    Cost,
    GaussianCost,
    LaplaceCost,
    PureCost,
    SelectionCost,
    SumCost,
    compose,
)

ADD, REPLACE = "add or remove one record", "replace one record"
COSTS: list[Cost] = [
    PureCost(0.3),
    GaussianCost(0.5),
    LaplaceCost(0.5, 1),
    LaplaceCost(0.8, 2),
    LaplaceCost(1.3, 21),
    SelectionCost(0.2),
    ApproximateCost(0.3, 1e-7),
    ConcentratedCost(0.02),
]


@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_one_distribution_is_never_below_the_curve_and_close_to_it(cost: Cost) -> None:
    found = loss_distribution(cost, 1e-3)
    for epsilon in np.linspace(0.0, 1.2, 25):
        true = cost.delta_at(float(epsilon))
        below = cost.delta_at(max(0.0, float(epsilon) - 2e-3)) * (1 + 1e-6) + 2e-15
        above = found.get_delta_for_epsilon(float(epsilon))
        assert above <= below
        # a bound from rho is not the curve of any pair, and its convex hull may lie below it
        assert isinstance(cost, ConcentratedCost) or above >= true * (1 - 1e-12)


def test_a_distribution_of_a_smaller_cost_would_be_noticed() -> None:
    exact = GaussianCost(0.5).delta_at(0.5)
    assert loss_distribution(GaussianCost(0.4999), 1e-3).get_delta_for_epsilon(0.5) < exact
    assert exact <= loss_distribution(GaussianCost(0.5), 1e-3).get_delta_for_epsilon(0.5) < exact * (1 + 1e-4)


@pytest.mark.slow
def test_composed_gaussians_bound_the_exact_curve_within_a_part_in_a_thousand() -> None:
    theirs = privacy_loss_distribution.from_gaussian_mechanism(2.0)  # mu = 0.5
    for shifts in ([0.3, 0.4], [0.1] * 9):
        whole = loss_distribution(SumCost(tuple(map(GaussianCost, shifts)))).compose(theirs)
        exact = GaussianCost(math.sqrt(sum(shift**2 for shift in shifts) + 0.25))
        for delta in (1e-4, 1e-6, 1e-9):
            assert exact.epsilon_at(delta) <= whole.get_epsilon_for_delta(delta) <= 1.001 * exact.epsilon_at(delta)


def composed_response(epsilon: float, k: int, at: float) -> float:
    """The delta of randomised response, k times: the loss is a random walk of k steps."""
    total = 0.0
    for up in range(k + 1):
        chance = math.comb(k, up) * math.exp(epsilon * up) / (1 + math.exp(epsilon)) ** k
        total += chance * max(0.0, 1 - math.exp(at - (2 * up - k) * epsilon))
    return total


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 30), (0.25, 8), (1.0, 3)])
def test_composed_pure_costs_bound_the_binomial_sum(epsilon: float, k: int) -> None:
    found = loss_distribution(compose([PureCost(epsilon)] * k))
    for at in (0.0, 0.5 * epsilon * math.sqrt(k), epsilon * math.sqrt(k)):
        exact = composed_response(epsilon, k, at)
        assert exact * (1 - 1e-9) <= found.get_delta_for_epsilon(at) <= exact * 1.001


def laplace_losses(ratio: float, dim: int, width: float) -> np.ndarray:
    """The law of the loss of Laplace noise, as chances of cells about multiples of the width (maths of prolate coordinates)."""
    spread = 1 + 2 * (dim - 1) / ratio * kv(dim / 2, ratio / 2) / kv(dim / 2 - 1, ratio / 2)
    fine = 64
    reach = round(ratio / width)
    eta = (np.arange(-reach * fine, reach * fine) + 0.5) / (reach * fine)
    density = np.exp(ratio * eta / 2) * (1 - eta**2) ** ((dim - 3) / 2) * (spread - eta**2)
    cells = np.concatenate([np.zeros(fine // 2), density, np.zeros(fine // 2)]).reshape(-1, fine).sum(axis=1)
    return cells / cells.sum()


@pytest.mark.parametrize(("ratio", "dim", "k"), [(0.5, 3, 2), (0.5, 6, 5), (1.25, 21, 3)])
def test_composed_laplace_noise_in_several_dimensions_bounds_the_convolved_density(ratio: float, dim: int, k: int) -> None:
    width = ratio / 1000
    law = one = laplace_losses(ratio, dim, width)
    for _ in range(k - 1):
        law = fftconvolve(law, one)
    losses = (np.arange(len(law)) - len(law) // 2) * width
    found = loss_distribution(compose([LaplaceCost(ratio, dim)] * k))
    for epsilon in (0.0, 0.3 * ratio * math.sqrt(k), 0.8 * ratio):
        exact = float((law * np.maximum(0.0, -np.expm1(epsilon - losses))).sum())
        assert exact * (1 - 2e-5) <= found.get_delta_for_epsilon(epsilon) <= exact * (1 + 1e-3)


@pytest.mark.parametrize("bound", [0.1, 0.7, 3.0])
def test_the_curve_of_selections_is_attained_by_an_exponential_mechanism_and_by_none_passed(bound: float) -> None:
    # two answers with scores 0 and s: every chance is off by factors within an interval of length bound; search over s
    cost = SelectionCost(bound)
    for epsilon in (0.0, 0.3 * bound, 0.9 * bound):
        worst = 0.0
        for top in np.linspace(0.0, bound, 4001)[1:-1]:
            chance = (math.exp(bound) - math.exp(top)) / math.expm1(bound)  # of the loss top; top - bound otherwise
            worst = max(worst, chance * max(0.0, -math.expm1(epsilon - top)))
        assert worst * (1 - 1e-12) <= cost.delta_at(epsilon) <= worst * (1 + 1e-5) + 1e-12
        assert cost.delta_at(epsilon) <= PureCost(bound).delta_at(epsilon)


def test_a_whole_ledger_composes_with_other_peoples_training(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("cohort", epsilon=10, delta=1e-5)
    x = np.tile(np.eye(2), (500, 1, 1))
    outer = Ball(SPD(2), np.eye(2), 4.0)
    private_ball(x, outer, epsilon=1.0, ledger=ledger, dataset="cohort")
    for _ in range(3):
        private_mean(x, Ball(SPD(2), np.eye(2), 1.0), epsilon=0.5, delta=1e-6, ledger=ledger, dataset="cohort")
    budget = ledger.budget("cohort")
    ours = loss_distribution(budget.cost, 1e-3)
    assert ours.get_epsilon_for_delta(1e-6) <= budget.epsilon_at(1e-6)
    training = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=0.01, value_discretization_interval=1e-3
    ).self_compose(200)
    both = ours.compose(training).get_epsilon_for_delta(1e-6)
    alone = [each.get_epsilon_for_delta(1e-6) for each in (ours, training)]
    assert max(alone) < both < sum(each.get_epsilon_for_delta(5e-7) for each in (ours, training))


def test_an_interval_that_is_none_is_refused() -> None:
    for interval in (0.0, -1.0, 2.0, math.nan):
        with pytest.raises(ValueError, match="interval"):
            loss_distribution(PureCost(1.0), interval)


# ---------------------------------------------------------------------- events


@pytest.mark.parametrize("cost", [cost for cost in COSTS if math.isfinite(cost.mu) or math.isfinite(cost.epsilon)], ids=repr)
@pytest.mark.parametrize("times", longer([1, 10], [1]))
def test_events_give_their_accountants_no_smaller_epsilon_than_the_truth(cost: Cost, times: int) -> None:
    accountant = PLDAccountant()
    accountant.compose(event_of(compose([cost] * times)))
    exact = loss_distribution(compose([cost] * times)).get_epsilon_for_delta(1e-6)
    assert accountant.get_epsilon(1e-6) >= exact * (1 - 1e-3)
    if isinstance(cost, GaussianCost | PureCost) or cost == LaplaceCost(0.5, 1):
        assert accountant.get_epsilon(1e-6) <= exact * (1 + 1e-3)
    renyi = RdpAccountant()
    renyi.compose(event_of(compose([cost] * times), "rdp"))
    assert renyi.get_epsilon(1e-6) >= exact * (1 - 1e-3)


def test_what_has_no_event_is_said() -> None:
    with pytest.raises(ValueError, match="approximate privacy has no event"):
        event_of(ApproximateCost(1.0, 1e-6))
    with pytest.raises(ValueError, match="concentrated privacy has no event for their privacy loss"):
        event_of(ConcentratedCost(0.1))
    assert event_of(ConcentratedCost(0.1), "rdp") == dp_event.ZCDpEvent(0.1)
    with pytest.raises(ValueError, match="'pld' or 'rdp'"):
        event_of(PureCost(1.0), "other")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- theirs in our ledgers


def opened(tmp_path: Path, neighbours: str = ADD, **total: Any) -> Ledger:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("cohort", neighbours=neighbours, **total)
    return ledger


@pytest.mark.slow
def test_training_is_charged_what_their_accountant_says_at_the_delta(tmp_path: Path) -> None:
    ledger = opened(tmp_path, epsilon=5, delta=1e-5)
    step = dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.1))
    training = dp_event.SelfComposedDpEvent(step, 300)
    entry = charge(ledger, "cohort", training, what="a classifier", neighbours=ADD, delta=1e-6)
    accountant = PLDAccountant()
    accountant.compose(training)
    wanted = accountant.get_epsilon(1e-6)
    assert entry.epsilon is not None
    assert wanted <= float(entry.epsilon) <= wanted * 1.001
    assert entry.delta is not None
    assert float(entry.delta) == 1e-6
    assert entry.cost.delta_at(float(entry.epsilon)) <= 1e-6
    # as a distribution, it is the same
    theirs = privacy_loss_distribution.from_gaussian_mechanism(1.1, sampling_prob=0.02).self_compose(300)
    again = charge(ledger, "cohort", theirs, what="the same", neighbours=ADD, delta=1e-6)
    assert float(again.epsilon or 0) == pytest.approx(float(entry.epsilon), rel=1e-6)


def test_events_with_a_cost_of_their_own_are_charged_in_every_unit(tmp_path: Path) -> None:
    gaussian, laplace = dp_event.GaussianDpEvent(4.0), dp_event.LaplaceDpEvent(5.0)
    four = dp_event.SelfComposedDpEvent(gaussian, 4)
    for folder, total, event, name, wanted in (
        ("a", {"rho": 1}, four, "rho", 4 / 32),
        ("b", {"mu": 1}, four, "mu", 0.5),
        ("c", {"epsilon": 1}, laplace, "epsilon", 0.2),
        ("d", {"rho": 1}, dp_event.ZCDpEvent(0.3), "rho", 0.3),
        ("e", {"epsilon": 1, "delta": 1e-5}, laplace, "epsilon", 0.2),
        ("f", {"rho": 1}, dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), gaussian]), "rho", 1 / 32),
    ):
        (tmp_path / folder).mkdir()
        ledger = opened(tmp_path / folder, **total)
        entry = charge(ledger, "cohort", event, what="somebody else's", neighbours=ADD)
        charged = float(getattr(entry, name))
        assert wanted <= charged <= wanted * (1 + 1e-9)


def test_the_count_of_randomised_response_is_not_lost(tmp_path: Path) -> None:
    # PLDAccountant composes it once, whatever the count: that epsilon would be too small
    ledger = opened(tmp_path, REPLACE, epsilon=30, delta=1e-4)
    once = dp_event.RandomizedResponseDpEvent(noise_parameter=0.9, num_buckets=2)
    epsilon = math.log((1 - 0.9 + 0.45) / 0.45)
    entry = charge(ledger, "cohort", dp_event.SelfComposedDpEvent(once, 20), what="survey", neighbours=REPLACE, delta=1e-6)
    assert entry.epsilon is not None
    assert composed_response(epsilon, 20, float(entry.epsilon)) <= 1e-6
    trapped = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    trapped.compose(dp_event.SelfComposedDpEvent(once, 20))
    assert composed_response(epsilon, 20, trapped.get_epsilon(1e-6)) > 1e-6


def test_replacing_is_removing_and_adding(tmp_path: Path) -> None:
    ledger = opened(tmp_path, REPLACE, mu=10)
    entry = charge(ledger, "cohort", dp_event.GaussianDpEvent(4.0), what="a sum", neighbours=REPLACE)
    assert float(entry.mu or 0) == pytest.approx(0.5)
    assert entry.cost.delta_at(0.3) >= privacy_loss_distribution.from_gaussian_mechanism(
        4.0, sensitivity=2.0, pessimistic_estimate=False
    ).get_delta_for_epsilon(0.3)


def test_what_cannot_be_charged_is_refused_with_a_sentence(tmp_path: Path) -> None:
    ledger = opened(tmp_path, rho=1)
    step = dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(1.1))
    with pytest.raises(ValueError, match="give delta"):
        charge(ledger, "cohort", step, what="training", neighbours=ADD)
    with pytest.raises(LedgerError, match="rho"):
        charge(ledger, "cohort", step, what="training", neighbours=ADD, delta=1e-6)
    with pytest.raises(LedgerError, match="neighbours"):
        charge(ledger, "cohort", dp_event.GaussianDpEvent(1.0), what="training", neighbours=REPLACE)
    with pytest.raises(ValueError, match="neighbours must be"):
        charge(ledger, "cohort", step, what="training", neighbours="somebody", delta=1e-6)
    with pytest.raises(ValueError, match="nothing to charge"):
        charge(ledger, "cohort", dp_event.NoOpDpEvent(), what="training", neighbours=ADD)
    with pytest.raises(TypeError, match="DpEvent"):
        charge(ledger, "cohort", 3, what="training", neighbours=ADD)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="make one yourself"):
        charge(ledger, "cohort", dp_event.UnsupportedDpEvent(), what="training", neighbours=ADD, delta=1e-6)
    with pytest.raises(ValueError, match="no epsilon"):
        charge(ledger, "cohort", dp_event.NonPrivateDpEvent(), what="training", neighbours=ADD, delta=1e-6)
    with pytest.raises(ValueError, match="at least 1e-11"):
        charge(ledger, "cohort", step, what="training", neighbours=ADD, delta=1e-15)
    assert ledger.history("cohort") == []
