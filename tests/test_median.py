"""Private medians as releases: what one record can change, what is charged and when, receipts, and where they arrive.

Seeds are fixed. An audit accuses a sound release with a probability below 1e-4; accuracy is the median of eleven independent
runs, each below its limit with a probability above 0.95.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geodp import SPD, Ball, Euclidean, Hyperbolic, Ledger, Manifold, Rotations, Session, Sphere, data, private_median
from geodp.auditing.bounds import least_mu
from geodp.inputs import Array
from geodp.privacy.cost import GaussianCost, PureCost
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP
from geodp.programs.descent import Check, Gradient, Scale
from geodp.programs.median import FrechetMedian, MedianGradient, MedianRelease, MedianScale, descents
from geodp.receipt import receipt_from_json
from geodp.request import Flow, Plan, Request
from geodp.testing import random_points
from tests.test_descent import away, cloud, mean_of

NOTIONS: list[Privacy] = [PureDP(1.0), ApproximateDP(1.0, 1e-6), ZeroConcentratedDP(0.05), GaussianDP(0.3)]
every_notion = pytest.mark.parametrize("privacy", NOTIONS, ids=lambda privacy: type(privacy).__name__)
PLACES: list[Ball | Manifold] = [Ball(SPD(3), np.eye(3), 30.0), Sphere(2), Ball(Euclidean(2), [0.0, 0.0], 100.0)]
every_place = pytest.mark.parametrize("place", PLACES, ids=["SPD", "Sphere", "Euclidean"])


def on(place: Ball | Manifold) -> Manifold:
    return place.manifold if isinstance(place, Ball) else place


def some(place: Ball | Manifold, n: int = 400, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return cloud(on(place), random_points(on(place), 1, rng)[0], 0.3, n, rng)


# ---------------------------------------------------------------------- what one record can change


@pytest.mark.parametrize("manifold", [SPD(3), Sphere(2), Hyperbolic(3), Euclidean(1), Rotations(3)], ids=str)
@pytest.mark.parametrize("kind", [Gradient, Check])
def test_neighbours_change_a_sum_by_two_at_most_and_opposite_records_by_two(manifold: Manifold, kind: Any) -> None:
    rng = np.random.default_rng(3)
    point = random_points(manifold, 1, rng)[0]
    u = rng.standard_normal(manifold.dim)
    step = 0.5 * u / np.linalg.norm(u)
    ends = [manifold.raw_project(manifold.raw_exp(point, manifold.raw_tangent(point, sign * step))) for sign in (1.0, -1.0)]
    x, y = (np.concatenate([random_points(manifold, 30, np.random.default_rng(4)), end[None]]) for end in ends)
    statistic = MedianGradient(manifold, kind(point, 0.4, 1.0))
    apart = np.linalg.norm(statistic.compute(x, 31) - statistic.compute(y, 31))
    assert 1.999999 < apart <= 2.0
    for _ in range(40):
        threshold = float(10.0 ** rng.uniform(-6, 6))
        statistic = MedianGradient(manifold, kind(point, threshold, 1.0))
        x = random_points(manifold, 20, rng, spread=float(10.0 ** rng.uniform(-3, 0.5)))
        x[0] = np.nan
        y = x.copy()
        y[rng.integers(20)] = rng.choice(np.array([1e300, np.inf, 0.0, -1.0])) if rng.random() < 0.5 else x[-1]
        first, second = ([Fraction(float(entry)) for entry in statistic.compute(each, 20)] for each in (x, y))
        assert sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) <= 4


def test_neighbours_change_the_scores_of_a_scale_by_one_at_most() -> None:
    manifold, rng = SPD(2), np.random.default_rng(5)
    statistic = MedianScale(manifold, Scale(manifold.origin, 60.0, 1.0))
    for _ in range(40):
        x = random_points(manifold, 15, rng, spread=float(10.0 ** rng.uniform(-3, 1)))
        y = x.copy()
        y[3] = rng.choice(np.array([np.nan, 1e300, 1.0])) * np.eye(2)
        scores = np.array([statistic.compute(each, 15) for each in (x, y)])
        assert np.abs(scores[0] - scores[1]).max() <= 1
        assert all(isinstance(score, int) for score in statistic.compute(x, 15))


def test_persons_are_averaged_and_stay_on_the_grid() -> None:
    """A person with the records of two is between them, and one with a thousand copies is the person with one."""
    x, rng = some(PLACES[0], 60), np.random.default_rng(1)
    people = np.arange(60) // 2
    found = private_median(x, PLACES[0], epsilon=5.0, unit=people, simulate=rng)
    assert found.n == 30
    assert found.unit == "person"
    from geodp.records.dataset import Dataset

    statistic = MedianGradient(SPD(3), Gradient(np.eye(3), 0.4, 1.0))
    once = statistic.compute(Dataset(x, unit=np.arange(60)).open(SPD(3)).source, 60)
    often = statistic.compute(Dataset(np.repeat(x, 7, axis=0), unit=np.repeat(np.arange(60), 7)).open(SPD(3)).source, 60)
    # the average of equal rows is on the same grid, but may round one step towards zero
    assert np.allclose(once, often, rtol=0.0, atol=60 * 2.0**-28)
    for total in (once, often):
        assert all((2**40 * Fraction(float(entry))).denominator == 1 for entry in total)


# ---------------------------------------------------------------------- what it costs


def steps(flow: Flow, rng: np.random.Generator, size: float) -> list[Plan]:
    """The plans of a flow whose answers are made up: anything that the noise can give."""
    plans: list[Plan] = []
    asked: Any = next(flow)
    while True:
        plans += asked
        drawn = []
        for plan in asked:
            if isinstance(plan.statistic, MedianScale):
                drawn.append(np.array([float(rng.integers(100))]))
            else:
                dim = plan.statistic.codomain.dim
                drawn.append(size * rng.standard_normal(dim) * rng.choice([0.0, 1.0, plan.n], size=dim))
        try:
            asked = flow.send(drawn)
        except StopIteration:
            return plans


@every_place
@every_notion
def test_no_answers_make_a_walk_pass_its_total(place: Ball | Manifold, privacy: Privacy) -> None:
    rng = np.random.default_rng(11)
    for n in (1, 300, 10**6):
        for guarantee in (0.0, 0.15):
            request = Request(FrechetMedian(place, 2.0 if n == 300 else 1.0, guarantee), privacy)
            total = request.cost(n)
            assert total.meets(privacy)
            for size in (0.0, 1e-3, 1.0, 1e6):
                plans = steps(request.flow(n), rng, size)
                costs = [plan.own_cost for plan in plans]
                if math.isfinite(total.epsilon):
                    assert sum(Fraction(cost.epsilon) for cost in costs) <= Fraction(total.epsilon)
                else:
                    assert sum(Fraction(cost.mu) ** 2 for cost in costs) <= Fraction(total.mu) ** 2
                    assert all(isinstance(cost, GaussianCost) for cost in costs)


def test_approximate_privacy_is_not_split_and_the_better_noise_is_taken() -> None:
    """In few dimensions one Laplace draw at epsilon 1 beats a Gaussian one, but a walk has many draws."""
    few = descents(PLACES[0], 300, ApproximateDP(1.0, 1e-6))[1]
    assert isinstance(few, GaussianCost)
    assert few.meets(ApproximateDP(1.0, 1e-6))
    assert few.rho > 0.028
    tiny = descents(PLACES[0], 300, ApproximateDP(20.0, 1e-300))[1]
    assert isinstance(tiny, PureCost)
    assert tiny.meets(ApproximateDP(20.0, 1e-300))


@every_notion
def test_a_median_is_charged_once_for_its_whole_total(privacy: Privacy, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", **privacy.parameters())
    found = private_median(some(Sphere(2)), Sphere(2), **privacy.parameters(), ledger=ledger, dataset="study")
    (charge,) = ledger.history("study")
    assert found.charge == charge.id
    assert charge.what == "median on Sphere(2)"
    assert found.cost.meets(privacy)
    assert receipt_from_json(charge.receipt or "") == found


def test_the_charge_comes_before_the_first_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from geodp import release

    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    drawn: list[int] = []

    def draw(plan: Any, value: Any, simulate: Any) -> Array:
        drawn.append(len(ledger.history("study")))
        return original(plan, value, simulate)

    original = release._draw
    monkeypatch.setattr(release, "_draw", draw)
    private_median(some(Sphere(2)), Sphere(2), epsilon=1.0, ledger=ledger, dataset="study")
    assert len(drawn) > 3
    assert set(drawn) == {1}


# ---------------------------------------------------------------------- audits


@pytest.mark.parametrize("honest", [True, False])
def test_an_audit_of_the_whole_program_convicts_half_of_the_noise(honest: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All answers together, weighed by the likelihood ratio of the worst pair: opposite records beyond every threshold.

    Given the answers so far, the means of an answer for the two data sets are known, so the total of the log ratios is the best
    statistic that there is.
    """
    place, mu, runs = Ball(Euclidean(1), [0.0], 4.0), 1.0, 900
    x = np.array([[1e9], [0.1], [0.0], [-0.1]])
    y = np.concatenate([[[-1e9]], x[1:]])
    if not honest:
        monkeypatch.setattr(MedianGradient, "sensitivity", lambda self, n: 1.0)
    request = Request(FrechetMedian(place), mu=mu)

    def loss(release: MedianRelease) -> float:
        flow, total = request.flow(4), 0.0
        asked: Any = next(flow)
        for drawn in release.draws:
            (plan,) = asked
            if isinstance(plan.statistic, MedianGradient):
                means = [plan.statistic.compute(each, 4) for each in (x, y)]
                total += float(plan.noise.privacy_loss(*means, drawn))
            try:
                asked = flow.send([drawn])
            except StopIteration:
                break
        return total

    rng = np.random.default_rng(5)
    losses = [
        np.array([loss(private_median(each, place, mu=mu, simulate=rng, anyway=True)) for _ in range(runs)]) for each in (x, y)
    ]
    cut = np.quantile(losses[0][: runs // 3], 0.6)
    held = [each[runs // 3 :] >= cut for each in losses]
    found = float(least_mu(held[0].sum(), held[1].sum(), len(held[0]), 1e-4))
    assert (found > mu) != honest, found


# ---------------------------------------------------------------------- receipts


@every_place
@every_notion
def test_receipts_are_read_by_making_them_again(place: Ball | Manifold, privacy: Privacy) -> None:
    found = private_median(some(place), place, **privacy.parameters(), guaranteed=True)
    again = receipt_from_json(found.to_json())
    assert isinstance(again, MedianRelease)
    assert again == found
    assert str(again) == str(found)
    assert np.array_equal(again.value, found.value)
    assert again.error_quantile(0.9) == found.error_quantile(0.9)
    stored = json.loads(found.to_json())
    for field in ("value", "distance", "arrived", "approximate_error", "verdict", "steps", "cost"):
        forged = json.dumps({**stored, field: 0.5})
        with pytest.raises(ValueError, match=field):
            receipt_from_json(forged)
    forged = stored | {"draws": [*stored["draws"][:-2], [each + 1.0 for each in stored["draws"][-2]], stored["draws"][-1]]}
    with pytest.raises(ValueError, match="follow"):
        receipt_from_json(json.dumps(forged))


def test_private_numbers_groups_sessions_and_simulations_go_through_the_core() -> None:
    x, place = some(PLACES[0]), PLACES[0]
    hidden = private_median(x, place, epsilon=4.0, neighbours="add-remove")
    assert hidden.count is not None
    assert hidden.n <= 420
    assert receipt_from_json(hidden.to_json()) == hidden
    groups = private_median(x, place, epsilon=2.0, by=["a", "b"] * 200, simulate=np.random.default_rng(0))
    assert {name: each.n for name, each in groups.items()} == {"a": 200, "b": 200}
    assert groups.cost.epsilon == 2.0
    secret = private_median(x, place, rho=1.0, by=[1, 2] * 200, groups=[1, 2], labels="private", unit=np.arange(400) // 2)
    assert receipt_from_json(secret.to_json()) == secret
    session = Session(x, SPD(3), epsilon=2)
    found = session.median(epsilon=1.5, threshold=2.0)
    assert session.left == 0.5
    assert session.releases == [found]
    assert not private_median(x, place, epsilon=1.0, simulate=np.random.default_rng(0)).private


def test_the_same_median_in_memory_in_parts_in_a_file_and_in_dask(tmp_path: Path) -> None:
    dask_array = pytest.importorskip("dask.array")
    x, place = some(PLACES[2], 1000), PLACES[2]
    np.save(tmp_path / "x.npy", x)
    pieces = [x[:300], x[300:301], x[301:]]
    sources = [x, lambda: iter(pieces), str(tmp_path / "x.npy"), dask_array.from_array(x, chunks=(270, 2))]
    found = [private_median(each, place, rho=0.1, simulate=np.random.default_rng(2)).value for each in sources]
    assert all(np.array_equal(found[0], each) for each in found)


def test_empty_wild_and_tiny_data_give_a_release_and_a_verdict() -> None:
    for x in (np.full((5, 3), np.nan), np.zeros((1, 3)), np.full((40, 3), 1e300)):
        found = private_median(x, Sphere(2), epsilon=1.0, anyway=True, simulate=np.random.default_rng(0))
        assert receipt_from_json(found.to_json()) == found
        assert "did not arrive" in found.verdict() or "next to nothing" in found.verdict()
    with pytest.raises(ValueError, match="nothing was released or charged"):
        private_median(np.zeros((5, 3)), Sphere(2), epsilon=0.01)


def test_privacy_without_noise_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(ValueError, match="is too much privacy to spend here"):
        private_median(np.zeros((50, 1)), Ball(Euclidean(1), [0.0], 30.0), epsilon=2.9e140)


def test_misuse_is_refused_in_a_sentence() -> None:
    x = some(Sphere(2), 50)
    for wrong, words in (
        ({"threshold": 0.5}, "from 1"),
        ({"threshold": 99.0}, "nearly the mean"),
        ({"outer": 30.0}, "needs no outer radius"),
    ):
        with pytest.raises(ValueError, match=words):
            private_median(x, Sphere(2), epsilon=1.0, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give outer="):
        private_median(np.zeros((50, 2)), Euclidean(2), epsilon=1.0)
    with pytest.raises(TypeError, match="wide Ball"):
        private_median(x, 30.0, epsilon=1.0)  # type: ignore[call-overload]


# ---------------------------------------------------------------------- accuracy

RHO, PURE = {"rho": 0.0244}, {"epsilon": 1.0}
JUDGED = [
    (SPD(3), 300, 30.0, 8.0, 0.5, RHO, 0.09),
    (SPD(3), 1000, 30.0, 8.0, 0.5, RHO, 0.02),
    (SPD(3), 300, 30.0, 8.0, 0.5, {"epsilon": 1.0, "delta": 1e-6}, 0.09),
    (Euclidean(10), 300, 1000.0, 300.0, 6.3, RHO, 1.3),
    (Sphere(2), 300, None, 0.0, 0.25, RHO, 0.04),
    (SPD(3), 1000, 30.0, 8.0, 0.5, PURE, 0.04),
]


@pytest.mark.parametrize(("manifold", "n", "outer", "distance", "spread", "privacy", "most"), JUDGED)
def test_few_records_are_enough(
    manifold: Manifold, n: int, outer: float | None, distance: float, spread: float, privacy: dict[str, float], most: float
) -> None:
    errors = []
    for seed in range(11):
        rng = np.random.default_rng(seed)
        center = away(manifold, distance, rng) if distance else random_points(manifold, 1, rng)[0]
        x = cloud(manifold, center, spread, n, rng)
        options: Any = {} if outer is None else {"outer": outer}
        found = private_median(x, manifold, **privacy, **options, simulate=rng)
        errors.append(float(manifold.dist(found.value, mean_of(manifold, x, center))))
        assert found.arrived
    assert np.median(errors) < most


def test_one_record_in_ten_at_six_spreads_hardly_moves_it() -> None:
    manifold, spread, off = SPD(3), 0.5, []
    for seed in range(11):
        rng = np.random.default_rng(seed)
        center = away(manifold, 8.0, rng)
        x = cloud(manifold, center, spread, 1000, rng)
        u = rng.standard_normal(6)
        far = manifold.raw_exp(center, manifold.raw_tangent(center, 6.0 * spread * u / np.linalg.norm(u)))
        inner = mean_of(manifold, x, center)
        x[:100] = cloud(manifold, manifold.raw_project(far), 0.1, 100, rng)
        off.append(float(manifold.dist(private_median(x, manifold, **RHO, simulate=rng).value, inner)))
    assert np.median(off) < 0.2 * spread


def test_the_median_of_shipped_arrivals_and_tensors_is_released() -> None:
    arrivals = private_median(data.load("icu_arrivals"), Sphere(1), epsilon=1.0, delta=1e-6)
    tensors = private_median(data.load("dti_tensors"), SPD(3), epsilon=1.0, delta=1e-6)
    assert arrivals.n == 254
    assert tensors.arrived
    assert tensors.error_quantile() < 0.3 * tensors.scale
    assert replace(tensors, made=None).value.shape == (3, 3)
