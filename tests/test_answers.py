"""Errors mean what people read: noise and clipping together, from the release itself; and nothing is spent on nothing.

False alarms: every random test has a fixed seed. Where coverage is counted, a correct bar fails with a probability below 1e-4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Ledger,
    Manifold,
    Release,
    Rotations,
    Sphere,
    frechet_mean,
    plan,
    private_coverage,
    private_mean,
    private_variance,
)
from geodp.inputs import Array
from geodp.receipt import receipt_from_json
from geodp.statistics.coverage import Coverage
from geodp.statistics.mean import Mean


def about(manifold: Manifold, center: Array, spread: float, n: int, seed: int) -> Array:
    """Normal records about a point; the spread is the root of their mean squared distance."""
    steps = np.random.default_rng(seed).normal(size=(n, manifold.dim)) * spread / math.sqrt(manifold.dim)
    return manifold.exp(center, manifold.tangent(center, steps))


def at_most(hits: int, runs: int, probability: float) -> bool:
    """Whether so few hits, or fewer, are not absurd for this probability."""
    return bool(stats.binom.cdf(hits, runs, probability) > 1e-4)


BALLS = [
    Ball(SPD(3), np.diag([1.0, 2.0, 0.5]), 1.0),
    Ball(Hyperbolic(2), Hyperbolic(2).origin, 0.8),
    Ball(Sphere(2), [0.0, 0.0, 1.0], 0.7),
    Ball(Rotations(3), np.eye(3), 1.5),
    Ball(Euclidean(2), [1.0, 2.0], 3.0),
]


# ---------------------------------------------------------------------- clipping


@pytest.mark.parametrize("ball", BALLS, ids=lambda ball: repr(ball.manifold))
def test_no_record_moves_the_coverage_farther_than_its_sensitivity_and_some_reach_it(ball: Ball) -> None:
    manifold, coverage = ball.manifold, Coverage(ball)
    x = np.concatenate([about(manifold, ball.center, s * ball.radius, 40, 1) for s in (0.1, 1.0, 1.3, 2.0)])
    x = np.concatenate([x, np.full((1, *manifold.point_shape), np.nan)])
    alone = np.stack([coverage.compute(each[None], 1) for each in x])
    apart = np.linalg.vector_norm(alone[:, None] - alone[None], axis=-1)
    assert apart.max() <= coverage.sensitivity(1)
    assert np.linalg.vector_norm(alone, axis=-1).max() <= coverage.sensitivity(1)  # adding or removing one
    assert apart.max() > 0.999, "an invalid record is as far from one inside as can be"
    together = coverage.compute(x, len(x))
    assert together.tobytes() == coverage.compute(x[::-1].copy(), len(x)).tobytes() == alone.sum(axis=0).tobytes()


@pytest.mark.parametrize("ball", BALLS, ids=lambda ball: repr(ball.manifold))
def test_clipping_moves_a_mean_by_no_more_than_is_claimed(ball: Ball) -> None:
    manifold, coverage = ball.manifold, Coverage(ball)
    wide = Ball(manifold, ball.center, coverage.outer)
    assert ball.radius < coverage.outer < ball.max_radius
    for seed in range(20):
        x = wide.clip(about(manifold, ball.center, 1.2 * ball.radius, 7, seed))
        moved = np.maximum(np.asarray(manifold.dist(ball.center, x)) - ball.radius, 0.0).mean()
        apart = float(manifold.dist(frechet_mean(x, wide).point, frechet_mean(x, ball).point))
        assert apart <= moved * coverage.amplification * (1.0 + 1e-9) + 1e-9


def test_the_claim_is_reached_where_all_records_are_on_one_side() -> None:
    ball = Ball(Euclidean(1), [0.0], 1.0)
    x = np.full((5, 1), Coverage(ball).outer)
    assert abs(frechet_mean(x, Ball(Euclidean(1), [0.0], 9.0)).point[0] - frechet_mean(x, ball).point[0]) == pytest.approx(0.4)


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("ball", BALLS[:3], ids=lambda ball: repr(ball.manifold))
def test_the_total_error_holds_the_mean_of_the_records(ball: Ball, spread: float) -> None:
    manifold, runs = ball.manifold, 150
    x = about(manifold, ball.center, spread * ball.radius, 1500, 5)
    x = np.concatenate([x, about(manifold, x[0], 0.2 * ball.radius, 700, 6)])  # more of them to one side
    truth = frechet_mean(x, Ball(manifold, ball.center, Coverage(ball).outer)).point
    held = noise_alone = 0
    for seed in range(runs):
        release = private_mean(x, ball, epsilon=1.0, coverage=0.05, simulate=np.random.default_rng(seed))
        away, total = float(manifold.dist(truth, release.value)), release.total_error(0.95)
        assert total is not None
        assert total >= release.error_quantile(0.95)
        held += away <= total
        noise_alone += away <= release.error_quantile(0.95)
    assert at_most(held, runs, 0.95)
    if spread == 2.0:
        assert not at_most(noise_alone, runs, 0.95), "bars that count noise alone do not hold it"


def test_without_coverage_nothing_is_claimed_about_clipping() -> None:
    release = private_mean(np.tile(np.eye(2), (900, 1, 1)), Ball(SPD(2), 2.0 * np.eye(2), 1.5), epsilon=1.0)
    assert (release.clipping, release.total_error(0.95), release.coverage) == (None, None, None)
    assert "noise only; clipping unknown" in str(release)
    assert "precise" not in release.verdict()
    assert "was not measured" in release.verdict()


def test_invalid_records_are_counted() -> None:
    x = np.tile(np.eye(2), (1000, 1, 1))
    x[:400] = np.nan
    release = private_coverage(x, Ball(SPD(2), np.eye(2), 1.0), epsilon=2.0)
    assert abs(release.valid - 600) < 20
    assert "check which columns were read" in release.verdict()


# ---------------------------------------------------------------------- errors from the release itself


@pytest.mark.parametrize("manifold", [SPD(4), Hyperbolic(3), SPD(2)], ids=repr)
@pytest.mark.parametrize("away", [0.0, 0.3, 0.9])
def test_the_error_that_follows_from_a_release_holds_its_value(manifold: Manifold, away: float) -> None:
    ball = Ball(manifold, manifold.origin, 3.0)
    noise = plan(ball, 200, rho=0.05, mechanism="tangent").noise
    direction = np.random.default_rng(2).normal(size=manifold.dim)
    step = 3.0 * away * direction / np.linalg.vector_norm(direction)
    value, runs = manifold.exp(ball.center, manifold.tangent(ball.center, step)), 2000
    drawn = noise.floats(value, runs, np.random.default_rng(3))
    errors = np.asarray(manifold.dist(value, noise.finish(drawn)))
    for q in (0.5, 0.95):
        bars = np.array([noise.quantile_at(each, q) for each in drawn])
        assert at_most(int((errors <= bars).sum()), runs, q)
        assert np.all(bars <= noise.error_quantile(q))
        if away == 0.0:
            assert np.median(bars) < 0.75 * noise.error_quantile(q), "near the centre it is much less than the worst case"
    assert not at_most(int((errors <= 0.5 * bars).sum()), runs, 0.95)


@pytest.mark.parametrize("manifold", [SPD(3), Hyperbolic(4), Sphere(3), Grassmann(2, 5), Rotations(3)], ids=repr)
def test_the_typical_stretch_is_that_of_small_steps(manifold: Manifold) -> None:
    rng, distance, small = np.random.default_rng(4), 0.8, 1e-5
    squares = []
    for _ in range(300):
        start, step = rng.normal(size=(2, manifold.dim))
        start *= distance / np.linalg.vector_norm(start)
        step *= small / np.linalg.vector_norm(step)
        ends = [manifold.exp(manifold.origin, manifold.tangent(manifold.origin, u)) for u in (start, start + step)]
        squares.append((float(manifold.dist(*ends)) / small) ** 2)
    assert math.sqrt(np.mean(squares)) == pytest.approx(manifold.typical_stretch(distance), rel=0.04)


CHOICES: list[tuple[Ball, int, dict[str, float]]] = [
    (Ball(SPD(8), np.eye(8), 6.0), 1000, {"rho": 0.05}),
    (Ball(SPD(6), np.eye(6), 4.0), 500, {"epsilon": 1.0, "delta": 1e-6}),
    (Ball(SPD(3), np.eye(3), 2.0), 300, {"epsilon": 1.0}),
    (Ball(SPD(2), np.eye(2), 1.0), 100, {"epsilon": 1.0}),
    (Ball(Hyperbolic(3), Hyperbolic(3).origin, 2.0), 400, {"epsilon": 1.0}),
    (Ball(Sphere(2), [0.0, 0.0, 1.0], 0.6), 200, {"rho": 0.05}),
    (Ball(Rotations(3), np.eye(3), 1.0), 300, {"epsilon": 1.0}),
    (Ball(Grassmann(2, 5), Grassmann(2, 5).origin, 0.5), 400, {"rho": 0.1}),
    (Ball(Euclidean(5), np.zeros(5), 2.0), 300, {"epsilon": 1.0, "delta": 1e-6}),
]


@pytest.mark.parametrize(("ball", "n", "privacy"), CHOICES, ids=lambda part: str(part)[:30])
def test_the_chosen_mechanism_errs_little_more_than_the_best_near_the_centre(
    ball: Ball, n: int, privacy: dict[str, float]
) -> None:
    manifold, rng = ball.manifold, np.random.default_rng(7)
    step = rng.normal(size=manifold.dim)
    step *= 0.4 * ball.radius / np.linalg.vector_norm(step)
    value = manifold.exp(ball.center, manifold.tangent(ball.center, step))
    planned = plan(ball, n, **privacy)

    def error(noise: Any) -> float:
        return float(np.mean(manifold.dist(value, noise.simulate(value, 400, np.random.default_rng(8)))))

    found = {each.name: error(each.mechanism) for each in planned.candidates() if each.refusal is None}
    assert found[planned.noise.name] <= 1.2 * min(found.values())


# ---------------------------------------------------------------------- nothing is spent on nothing


def test_what_can_say_nothing_is_refused_before_anything_is_charged(tmp_path: Any) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    x, ball = np.tile(np.eye(3), (10, 1, 1)), Ball(SPD(3), np.eye(3), 1.0)
    with pytest.raises(ValueError, match=r"^nothing was released or charged, .*anyway=True"):
        private_mean(x, ball, epsilon=0.1, ledger=ledger, dataset="study")
    assert ledger.remaining("study") == 1
    release = private_mean(x, ball, epsilon=0.1, ledger=ledger, dataset="study", anyway=True)
    assert release.says_nothing
    assert "says nothing" in release.verdict()


def test_a_release_of_a_private_number_says_afterwards_that_it_says_nothing() -> None:
    release = private_mean(
        np.tile(np.eye(3), (10, 1, 1)),
        Ball(SPD(3), np.eye(3), 1.0),
        epsilon=0.1,
        neighbours="add-remove",
        simulate=np.random.default_rng(1),
    )
    assert release.says_nothing


# ---------------------------------------------------------------------- one call


def test_a_manifold_in_place_of_a_ball_finds_one_with_one_charge(tmp_path: Any) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", epsilon=1)
    x = about(SPD(2), np.diag([1e-3, 2e-3]), 0.4, 4000, 1)
    release: Any = private_mean(x, SPD(2), epsilon=1.0, ledger=ledger, dataset="study")
    assert len(ledger.history("study")) == 1
    assert release.cost.epsilon <= 1.0
    assert release.coverage is not None
    assert receipt_from_json(release.to_json()) == release
    assert float(
        SPD(2).dist(release.value, frechet_mean(x, Ball(SPD(2), np.diag([1e-3, 2e-3]), 9.0)).point)
    ) <= release.total_error(0.95)


def test_where_nothing_is_known_a_radius_is_asked_for() -> None:
    with pytest.raises(ValueError, match="give outer="):
        private_mean(np.zeros((100, 2)), Euclidean(2), epsilon=1.0)
    with pytest.raises(ValueError, match="give the manifold in place of the ball"):
        private_mean(np.zeros((100, 2)), Ball(Euclidean(2), [0.0, 0.0], 1.0), epsilon=1.0, outer=3.0)


# ---------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("radius", "epsilon", "center", "caution"),
    [
        (1.5, 1.0, np.eye(2), "which is the default one"),
        (1e-5, 1.0, 2.0 * np.eye(2), "as if no record could be read"),
        (1.5, 12.0, 2.0 * np.eye(2), "protects hardly anyone"),
    ],
)
def test_a_verdict_starts_with_careful_where_care_is_due(radius: float, epsilon: float, center: Array, caution: str) -> None:
    release: Release = private_mean(np.tile(2.0 * np.eye(2), (5000, 1, 1)), Ball(SPD(2), center, radius), epsilon=epsilon)
    assert release.verdict().startswith("careful: ")
    assert caution in release.verdict()


def test_the_first_rows_of_a_receipt_are_the_answer_and_what_it_means() -> None:
    x = np.tile(2.0 * np.eye(2), (3000, 1, 1))
    rows = private_mean(x, Ball(SPD(2), 2.0 * np.eye(2), 1.0), epsilon=1.0, coverage=0.05).rows()
    names = [name for name, _ in rows if name]
    assert names[:4] == ["value", "error", "verdict", "protects"]
    assert "noise and clipping" in dict(rows)["error"]
    rule = next(i for i, (name, _) in enumerate(rows) if name.startswith("---"))
    assert {"mechanism", "sensitivity", "cost"} <= {name for name, _ in rows[rule:]}


def test_other_statistics_say_nothing_of_clipping() -> None:
    release = private_variance(np.tile(np.eye(2), (500, 1, 1)), Ball(SPD(2), np.eye(2), 1.0), epsilon=1.0)
    assert release.total_error(0.95) is None
    assert Mean(release.ball).cover is not None if release.ball else False
