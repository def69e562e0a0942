"""What a review with fresh eyes refuted, each as a test that failed on the code it was found in."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geodp
from geodp import SPD, Ball, Hyperbolic, Ledger, LedgerError, Release, Rotations, private_mean, private_summary
from geodp.privacy.cost import ConcentratedCost, GaussianCost, LaplaceCost, PureCost, SumCost


def test_two_arrays_that_stand_for_one_rotation_get_the_same_noise() -> None:
    """Arrays a millionth off the group stand for the rotation next to them; the sampler took another one, 1e-6 away."""
    off = np.zeros((3, 3))
    off[0, 1] = off[1, 0] = 4.9e-7
    first, second = np.eye(3) + off, np.eye(3) - off
    assert Rotations(3).dist(first, second) == 0.0
    values = [
        [private_summary(x, Rotations(3), sensitivity=1e-8, epsilon=1.0).value[1, 0] for _ in range(40)] for x in (first, second)
    ]
    # by the sign of one entry they were told apart every time; now a difference this large has a chance of 2^-30
    assert abs(np.mean(np.array(values[0]) > 0.0) - np.mean(np.array(values[1]) > 0.0)) < 0.9


@pytest.mark.parametrize("distance", [1.5, 355.6])
def test_a_value_outside_the_claimed_ball_is_refused_and_never_moved_to_its_centre(distance: float, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    value = [math.cosh(distance), math.sinh(distance), 0.0]
    with pytest.raises(ValueError, match=r"not within 1 of the base point, as was claimed"):
        private_summary(
            value, Hyperbolic(2), sensitivity=0.1, epsilon=0.5, delta=1e-6, radius=1.0, ledger=ledger, dataset="study"
        )
    assert ledger.spent("study") == 0


def test_a_matrix_that_is_positive_definite_in_floats_only_is_refused_before_the_charge(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    manifold = SPD(2)
    while True:  # a matrix of condition 1e16 that passes a Cholesky factorisation in floats and has a negative determinant
        a, b = rng.uniform(1.0, 2.0, 2)
        matrix = np.array([[a, b], [b, np.nextafter(b * b / a, rng.choice([0.0, 4.0]))]])
        exact = Fraction(matrix[0, 0]) * Fraction(matrix[1, 1]) - Fraction(b) ** 2
        if exact <= 0 and manifold.valid(matrix):
            break
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    with pytest.raises(ValueError, match=r"the value is not a point of SPD\(2\)"):
        private_summary(matrix, manifold, sensitivity=0.1, epsilon=0.5, ledger=ledger, dataset="study")
    assert ledger.spent("study") == 0


EDITS: list[dict[str, Any]] = [
    {"cost": {"kind": "sum", "parts": []}},
    {"cost": {"kind": "pure", "bound": 1e-9}},
    {"cost": {"kind": "pure", "bound": -3.0}},
    {"epsilon": 0.01, "cost": {"kind": "pure", "bound": 0.01}},
    {"sensitivity": 1e-9},
    {"scale": 1e-6},
    {"n": 10},
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
@pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"rho": 0.1}, {"epsilon": 1.0, "mechanism": "tangent"}], ids=str)
def test_a_receipt_that_contradicts_itself_does_not_load(edit: dict[str, Any], given: dict[str, Any]) -> None:
    release = private_mean(np.tile(np.eye(3), (500, 1, 1)), Ball(SPD(3), np.eye(3), 1.0), **given)
    stored = json.loads(release.to_json())
    assert Release.from_json(json.dumps(stored)).cost == release.cost
    with pytest.raises(ValueError, match="this is not the JSON text of a release"):
        Release.from_json(json.dumps(stored | edit))


def test_a_cost_of_nothing_or_less_is_no_cost_and_no_charge(tmp_path: Path) -> None:
    for make in (
        lambda: PureCost(-1.0),
        lambda: GaussianCost(0.0),
        lambda: LaplaceCost(math.nan, 3),
        lambda: LaplaceCost(1.0, 0),
    ):
        with pytest.raises(ValueError, match="must be positive and finite"):
            make()
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    with pytest.raises(LedgerError, match="must spend something"):
        ledger.charge("study", rho=0.1, cost=SumCost(()), what="nothing")
    assert ledger.spent("study") == 0
    assert ledger.history("study") == []


def test_trade_offs_are_rounded_down_and_rhos_up() -> None:
    rng = np.random.default_rng(0)
    for epsilon, alpha in zip(rng.uniform(0.01, 4.0, 300), rng.uniform(0.0, 1.0, 300), strict=True):
        true = max(1 - Fraction(math.exp(epsilon)) * Fraction(alpha), Fraction(math.exp(-epsilon)) * (1 - Fraction(alpha)), 0)
        assert Fraction(PureCost(float(epsilon)).tradeoff(float(alpha))) <= true + Fraction(1, 10**16)
    assert PureCost(1e-170).rho > 0.0
    assert math.isinf(GaussianCost(1e200).rho)
    assert LaplaceCost(1e300, 3).rho == 1e300
    assert LaplaceCost(1e300, 3).delta_at(1.0) == 1.0
    assert ConcentratedCost(1e-3).tradeoff(0.5) < 0.5


def test_a_claim_about_other_neighbours_is_not_charged_to_a_budget_about_these(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    with pytest.raises(geodp.LedgerError, match="neighbours"):
        private_summary(
            np.eye(2), SPD(2), sensitivity=0.1, epsilon=0.5, neighbours="add or remove one record", ledger=ledger, dataset="study"
        )
    assert ledger.spent("study") == 0


def test_linear_algebra_that_gives_up_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> None:
        raise np.linalg.LinAlgError("record 8675309 is singular")

    monkeypatch.setattr("geodp.statistics.mean.FrechetMean.compute", give_up)
    with pytest.raises(RuntimeError, match="LinAlgError") as caught:
        private_mean(np.tile(np.eye(2), (50, 1, 1)), Ball(SPD(2), np.eye(2), 1.0), epsilon=1.0)
    assert "8675309" not in str(caught.value)
