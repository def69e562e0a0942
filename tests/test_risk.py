"""What a release means to a person. Oracles: closed forms for Gaussian noise and randomised response, the exact law of the loss
of Gaussian noise, every event of a small mechanism, and riskcal on privacy loss distributions. Nothing is random."""

from __future__ import annotations

import json
import math
import re
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from geodp import SPD, Ball, Ledger, Risk, private_ball, private_mean, risk
from geodp.cli import app
from geodp.privacy.cost import ApproximateCost, Cost, GaussianCost, LaplaceCost, PureCost, compose

NORMAL = NormalDist()
COSTS: list[Cost] = [PureCost(0.7), GaussianCost(0.8), LaplaceCost(1.0, 1), LaplaceCost(1.0, 3), ApproximateCost(0.5, 1e-3)]


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.3])
def test_true_positive_rates_are_those_of_the_best_test(rate: float) -> None:
    # Neyman and Pearson: for N(0, 1) against N(mu, 1), and for randomised response, the best tests are known
    gaussian = NORMAL.cdf(NORMAL.inv_cdf(rate) + 0.8)
    assert gaussian <= Risk((GaussianCost(0.8),)).true_positive_rate(rate) <= gaussian * (1 + 1e-6) + 1e-12
    flips = 1 / (1 + math.exp(0.7))
    response = math.exp(0.7) * rate if rate <= flips else 1 - math.exp(-0.7) * (1 - rate)
    assert response <= Risk((PureCost(0.7),)).true_positive_rate(rate) <= response * (1 + 1e-6) + 1e-12


def test_no_test_of_a_small_mechanism_does_better_than_the_bound_and_one_attains_it() -> None:
    # randomised response among two answers and a coin that reveals everything: every event, under either data set
    epsilon, slack = 0.5, 0.1
    truth = (1 - slack) * math.exp(epsilon) / (1 + math.exp(epsilon))
    first, second = [slack, 0.0, truth, 1 - slack - truth], [0.0, slack, 1 - slack - truth, truth]
    found = Risk((ApproximateCost(epsilon, slack),))
    best = 0.0
    for size in range(5):
        for event in combinations(range(4), size):
            accused, right = sum(second[i] for i in event), sum(first[i] for i in event)
            assert right <= found.true_positive_rate(accused) + 1e-9
            best = max(best, right - accused)
    assert best == pytest.approx(found.advantage, rel=1e-9)
    assert found.accuracy == pytest.approx(0.5 + 0.5 * best)


@pytest.mark.parametrize("chance", [1e-3, 1e-5])
@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_losses_are_passed_with_no_higher_chance_and_the_bound_is_not_far_off(mu: float, chance: float) -> None:
    # the loss of Gaussian noise is N(mu^2/2, mu^2)
    exact = 0.5 * mu**2 + mu * NORMAL.inv_cdf(1 - chance)
    found = Risk((GaussianCost(mu),)).loss(chance)
    assert exact <= found <= 1.25 * exact


def test_posteriors_are_bayes_rule_with_the_largest_loss() -> None:
    found = Risk((PureCost(1.0),))
    for prior in (0.001, 0.3, 0.5, 0.9):
        odds = prior / (1 - prior) * math.e
        assert found.posterior(prior) == pytest.approx(odds / (1 + odds), rel=1e-12)
        assert found.posterior(prior) >= odds / (1 + odds)
        assert found.posterior(prior, chance=0.1) <= found.posterior(prior)
    assert (found.posterior(0.0), found.posterior(1.0)) == (0.0, 1.0)
    assert Risk((GaussianCost(1.0),)).posterior(0.5) == 1.0, "no pure epsilon, no certainty"


def test_several_true_bounds_give_the_best_of_each() -> None:
    pure, gaussian = PureCost(1.0), GaussianCost(0.6)
    both = Risk((pure, gaussian))
    for rate in (1e-6, 0.01, 0.4):
        assert both.true_positive_rate(rate) == min(Risk((each,)).true_positive_rate(rate) for each in (pure, gaussian))
    assert both.advantage == gaussian.advantage
    assert both.loss() == 1.0


@pytest.mark.parametrize("cost", COSTS, ids=repr)
def test_riskcal_agrees_on_the_loss_distribution_of_the_same_cost(cost: Cost) -> None:
    pytest.importorskip("dp_accounting")
    analysis = pytest.importorskip("riskcal.analysis", reason="riskcal is not installed")
    from geodp.integrations.accounting import loss_distribution

    distribution, ours = loss_distribution(cost), Risk((cost,))
    assert analysis.get_advantage_from_pld(distribution) == pytest.approx(ours.advantage, rel=1e-4)
    for rate in (0.001, 0.05, 0.3, 0.8):
        theirs = 1 - float(np.asarray(analysis.get_beta_from_pld(distribution, alpha=rate)))
        assert theirs == pytest.approx(ours.true_positive_rate(rate), rel=2e-4, abs=1e-6)


def test_releases_of_every_sort_and_budgets_have_a_risk(tmp_path: Path) -> None:
    x, ball = np.tile(np.eye(2), (400, 1, 1)), Ball(SPD(2), np.eye(2), 1.0)
    mean = private_mean(x, ball, epsilon=0.5)
    assert risk(mean).advantage == mean.cost.advantage
    groups = private_mean(x, ball, epsilon=0.5, by=["a", "b"] * 200)
    assert risk(groups).loss() == pytest.approx(0.5)
    assert risk(private_ball(x, Ball(SPD(2), np.eye(2), 5.0), epsilon=0.5)).loss() <= 0.5
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("cohort", epsilon=2)
    assert risk(ledger.budget("cohort")).advantage == 0.0
    assert risk(ledger.budget("cohort")).posterior(0.25) == pytest.approx(0.25)
    private_mean(x, ball, epsilon=0.5, ledger=ledger, dataset="cohort")
    private_mean(x, ball, epsilon=0.5, ledger=ledger, dataset="cohort")
    budget = ledger.budget("cohort")
    assert risk(budget).advantage == budget.advantage == pytest.approx(compose([mean.cost] * 2).advantage)
    assert risk(budget).loss() == pytest.approx(1.0)
    with pytest.raises(TypeError, match="takes a release, a budget or a cost"):
        risk(x)  # type: ignore[arg-type]


def test_the_words_say_who_is_protected_and_round_up() -> None:
    words = {
        neighbours: Risk((PureCost(1.0),), neighbours).sentences(prior=0.1)
        for neighbours in (
            "replace one record",
            "replace one person",
            "add or remove one person",
            "add, remove or replace one record",
        )
    }
    assert "which of two possible records" in words["replace one record"][0]
    assert "which of two possible sets of records" in words["replace one person"][0]
    assert "whether a person's records are among the data" in words["add or remove one person"][0]
    assert "whether a person's record is among the data" in words["add, remove or replace one record"][0]
    # e/(9 + e) is 23.197%
    assert words["replace one record"][1] == "someone who is 10% sure of it may become at most 23.2% sure"
    assert Risk((GaussianCost(3.0),)).sentences()[1].endswith("% sure, except with probability 1e-05")
    assert "99.9955% sure" in Risk((PureCost(10.0),)).sentences()[1]


def test_where_the_chance_is_no_larger_than_delta_the_words_say_that_nothing_is_bounded() -> None:
    found = Risk((ApproximateCost(1.0, 1e-5),))
    assert found.sentences()[1] == "with probability 1e-05 someone may become certain of it: a larger probability has a bound"
    assert found.sentences(chance=1e-4)[1].endswith("sure, except with probability 0.0001")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda r: r.posterior(1.5), "the prior must be from 0 to 1 but is 1.5"),
        (lambda r: r.posterior(0.5, chance=1.0), "the chance must be from 0 to below 1 but is 1"),
        (lambda r: r.true_positive_rate(-0.1), "the false-positive rate must be from 0 to 1 but is -0.1"),
    ],
)
def test_numbers_that_are_no_chances_are_refused(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call(Risk((PureCost(1.0),)))


def test_the_command_says_it_in_plain_words_and_draws_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("sqlite:///budget.db")
    ledger.open("cohort", epsilon=1)
    ledger.charge("cohort", "0.5", what="a mean")
    run = CliRunner().invoke(app, ["budget", "risk", "cohort", "--ledger", "budget.db", "--plot", "curve.png"])
    assert run.exit_code == 0, run.output
    # 1/(1 + exp(-1/2)) is 62.25%, and 1/(1 + exp(-1)) is 73.11%
    so_far, ever = run.stdout.split("at most, ever:")
    assert "someone who is 50% sure of it may become at most 62.3% sure" in so_far
    assert "someone who is 50% sure of it may become at most 73.2% sure" in ever
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    options = ["--prior", "0.1", "--false-positives", "0.05", "--chance", "1e-3", "--json"]
    found = json.loads(CliRunner().invoke(app, ["budget", "risk", "cohort", "--ledger", "budget.db", *options]).stdout)
    assert found["ever"]["posterior"] == pytest.approx(math.e / (9 + math.e))
    assert found["so_far"]["true_positive_rate"] == pytest.approx(0.05 * math.exp(0.5))
    assert CliRunner().invoke(app, ["budget", "risk", "nobody", "--ledger", "budget.db"]).exit_code == 2
    assert CliRunner().invoke(app, ["budget", "risk", "cohort", "--ledger", "budget.db", "--prior", "2"]).exit_code == 2
    assert CliRunner().invoke(app, ["budget", "risk", "cohort", "--ledger", "budget.db", "--plot", "x.txt"]).exit_code == 2


def test_the_table_of_the_ethics_page_is_what_risk_says_rounded_up() -> None:
    text = (Path(__file__).parent.parent / "docs" / "guides" / "ethics.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| [\d.]+ \|", line)]
    assert len(rows) == 6
    for epsilon, *shown in rows:
        found = risk(PureCost(float(epsilon)))
        true = [found.accuracy, found.posterior(0.1), found.posterior(0.01), found.true_positive_rate(0.01)]
        assert shown == [f"{math.ceil(1000.0 * number - 1e-9) / 10.0:.1f}%" for number in true]
