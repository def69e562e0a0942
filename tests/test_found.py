"""A ball and what is released in it: one request, one charge before the first draw, one receipt that replays."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geodp import SPD, Ball, Dataset, GroupedRelease, Ledger, Request, Sphere
from geodp.inputs import Array
from geodp.noise.mechanism import Noise
from geodp.noise.selection import Choice
from geodp.privacy.cost import compose, cost_of
from geodp.programs.ball import BallRelease
from geodp.programs.found import InFoundBall, start_of
from geodp.programs.kmeans import KMeans
from geodp.receipt import ChainRelease, receipt_from_json
from geodp.statistics.covariance import SecondMoment
from geodp.statistics.mean import Mean

WIDE = Ball(SPD(2), np.eye(2), 20.0)
STEPS = SPD(2).tangent(np.eye(2), 0.3 * np.random.default_rng(0).normal(size=(900, 3)))
X = 5.0 * SPD(2).exp(np.eye(2), STEPS)
NAMES = np.array(["east", "west", "north"])[np.arange(900) % 3]

GIVEN: list[dict[str, float]] = [{"epsilon": 4.0}, {"epsilon": 2.0, "delta": 1e-6}, {"rho": 0.3}, {"mu": 0.8}]
WHO: dict[str, dict[str, Any]] = {
    "records": {},
    "persons": {"unit": np.arange(900) // 2},
    "private number": {"neighbours": "add-remove"},
    "public groups": {"by": NAMES},
    "private groups": {"by": NAMES, "groups": ["east", "west"], "labels": "private"},
    "private groups and number": {"by": NAMES, "groups": ["east", "west"], "labels": "private", "neighbours": "add-remove"},
    "persons in all groups": {"by": NAMES, "unit": np.arange(900) // 7, "unit_in": "all groups"},
}


def asked(given: dict[str, float], who: dict[str, Any], **more: Any) -> Request:
    data = {"unit": "person" if "unit" in who else "record", "labels": "public" if "by" in who else None}
    return Request(
        InFoundBall(WIDE, Mean(WIDE), 0.3), **given, **more, **data | {k: who[k] for k in ("neighbours", "labels") if k in who}
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "given"), [*((name, GIVEN[0]) for name in WHO), *(("public groups", given) for given in GIVEN[1:])], ids=str
)
def test_a_chain_is_one_charge_and_one_receipt_within_what_was_asked(name: str, given: dict[str, float], tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    request = asked(given, WHO[name])
    ledger.open("study", neighbours=request.protects, **given)
    made = request.release(X, ledger=ledger, dataset="study", **WHO[name])
    (charge,) = ledger.history("study")
    assert charge.receipt == made.to_json()
    assert charge.cost == made.cost
    assert made.cost.meets(request.privacy)
    again = receipt_from_json(charge.receipt)
    assert isinstance(again, ChainRelease)
    assert again == made
    search, last = made.steps
    assert isinstance(search, BallRelease)
    assert isinstance(last, GroupedRelease) == ("by" in WHO[name])
    means = list(last.values()) if isinstance(last, GroupedRelease) else [last]
    assert all(mean.ball == search.ball for mean in means)
    assert compose([cost_of(step.privacy) for step in made.steps]).meets(request.privacy)
    for size, value in given.items():
        if all(hasattr(step.privacy, size) for step in made.steps):
            power = 2 if size == "mu" else 1
            assert sum(getattr(step.privacy, size) ** power for step in made.steps) <= value**power
    with pytest.raises(ValueError, match="left"):
        request.release(X, ledger=ledger, dataset="study", **WHO[name])


def edited(change: Callable[[dict[str, Any]], Any], made: ChainRelease) -> str:
    stored = json.loads(made.to_json())
    change(stored)
    return json.dumps(stored)


FORGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a step less": lambda stored: stored["releases"].pop(),
    "no steps": lambda stored: stored["releases"].clear(),
    "a step twice": lambda stored: stored["releases"].append(copy.deepcopy(stored["releases"][-1])),
    "the other order": lambda stored: stored["releases"].reverse(),
    "another part": lambda stored: stored["request"]["statistic"].update(find=0.2),
    "less privacy": lambda stored: stored.update(epsilon=1.0),
    "a smaller cost": lambda stored: stored.update(cost=stored["releases"][0]["cost"]),
    "another charge of a step": lambda stored: stored["releases"][0].update(dataset="study", charge=3),
    "another charge": lambda stored: stored.update(dataset="study", charge=3),
    "another ball": lambda stored: stored["releases"][1]["request"]["statistic"]["ball"].update(radius=3.0),
    "another version of a step": lambda stored: stored["releases"][1].update(geodp="9.9"),
    "a wider start": lambda stored: stored["request"]["statistic"]["start"].update(radius=25.0),
    "a number of records": lambda stored: stored["releases"][0].update(n=901),
    "not private": lambda stored: stored.update(private=False),
    "a further field": lambda stored: stored.update(note="x"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_receipt_of_a_chain_is_refused(name: str) -> None:
    made = asked(GIVEN[0], {}).release(X)
    with pytest.raises(ValueError, match=r"^this is not the JSON text of a release: "):
        receipt_from_json(edited(FORGED[name], made))


def test_a_receipt_of_a_search_for_other_numbers_of_records_is_refused() -> None:
    """The search of one fit and the mean of another, each of them true."""
    few, many = (asked(GIVEN[0], {}).release(x) for x in (X[:400], X))
    stored = json.loads(few.to_json())
    stored["releases"][1] = json.loads(many.to_json())["releases"][1]
    with pytest.raises(ValueError, match="its steps must be those of its request"):
        receipt_from_json(json.dumps(stored))


def test_the_charge_comes_before_the_first_draw_of_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=4)
    charges: list[int] = []
    draws = Choice.draws

    def watched(*given: Any) -> list[Array]:
        charges.append(len(ledger.history("study")))
        return draws(*given)

    monkeypatch.setattr(Choice, "draws", watched)
    asked(GIVEN[0], {}).release(X, ledger=ledger, dataset="study")
    assert set(charges) == {1}
    assert issubclass(Choice, Noise)


@pytest.mark.parametrize("place", [WIDE, Sphere(2)], ids=repr)
def test_any_statistic_of_a_ball_can_be_in_a_found_one_with_its_coverage(place: Any) -> None:
    start = start_of(place)
    x = (
        X
        if place is WIDE
        else Sphere(2).project(np.array([0.6, 0.0, 0.8]) + 0.1 * np.random.default_rng(1).normal(size=(900, 3)))
    )
    for statistic in (SecondMoment(start), KMeans(start, 2)):
        made = Request(InFoundBall(place, statistic), epsilon=6.0).release(x)
        assert made.steps[1].statistic == type(statistic)(made.steps[0].ball, *((2,) if isinstance(statistic, KMeans) else ()))
        assert receipt_from_json(made.to_json()) == made
    made = Request(InFoundBall(place, Mean(start)), epsilon=6.0, coverage=0.05).release(x)
    assert made.coverage.valid == pytest.approx(900, abs=60)
    # a twentieth of all the privacy, not of what the search leaves
    assert made.steps[1].request.covering.privacy.epsilon == pytest.approx(0.05 * 6.0)
    assert made.value.shape == start.manifold.point_shape
    assert made.error_quantile(0.95) > made.expected_error() > 0.0
    assert str(made).startswith("PRIVATE MEAN")
    assert "found ball  with epsilon = 1.2" in str(made)
    assert made.notation.length(made.total_error(0.95)) in str(made)
    assert f"radius      {made.steps[0].ball.radius:.6g}" in str(made)


def test_only_balls_are_found_in_which_every_group_has_its_release() -> None:
    """One record in a group of its own, and so little privacy that noise exists in small balls alone."""
    request = Request(InFoundBall(WIDE, Mean(WIDE), 0.3), epsilon=0.02, mechanism="intrinsic", labels="public")
    data = Dataset(X[:31], by=["a"] * 30 + ["b"])
    for _ in range(3):
        search, means = request.release(data).steps
        assert means["b"].n == 1
        assert search.request.statistic.sizes == (1, 30)


def test_a_plan_says_what_will_be_done_and_costs_what_was_asked_for() -> None:
    plan = asked(GIVEN[0], {}).plan(900)
    search = "a ball by median -> radius, together epsilon = 1.2"
    assert str(plan) == f"{search}; then the mean of the clipped records in it, epsilon = 2.8"
    assert plan.cost.epsilon == pytest.approx(4.0)


def test_what_cannot_be_is_said_without_data() -> None:
    with pytest.raises(ValueError, match=r"must be from 0 to 0\.9 but is 0\.95"):
        InFoundBall(WIDE, Mean(WIDE), 0.95)
    with pytest.raises(ValueError, match="must be in the ball that the search starts from"):
        InFoundBall(WIDE, Mean(Ball(SPD(2), np.eye(2), 1.0)))
    with pytest.raises(ValueError, match="Gaussian noise has no pure epsilon"):
        Request(InFoundBall(WIDE, Mean(WIDE)), epsilon=1.0, mechanism="tangent", law="gaussian").plan(100).check()
