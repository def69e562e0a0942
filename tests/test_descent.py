"""The descent to a private median: what one record can change, what it costs, when it ends, and where it arrives.

Answers are simulated with float noise. Seeds are fixed. Each accuracy test compares a median of independent runs with a
limit that a single run meets with a probability of more than 0.95, so a false alarm has probability below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from geodp import HPD, SPD, Ball, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, Sphere, Torus
from geodp.inputs import Array
from geodp.programs.descent import (
    MOST_REQUESTS,
    Check,
    Descent,
    Gradient,
    Median,
    Scale,
    Shape,
    Start,
    closeness,
    counted,
    lifted,
    logarithms,
    on_grid,
)
from geodp.testing import random_points

SPACES: list[Manifold] = [
    Euclidean(1),
    SPD(3),
    Hyperbolic(3),
    Sphere(2),
    Rotations(3),
    Grassmann(2, 5),
    Product(Sphere(2), Euclidean(2)),
]
every_space = pytest.mark.parametrize("manifold", SPACES, ids=str)
both_laws = pytest.mark.parametrize("pure", [False, True], ids=["gaussian", "laplace"])


def wild(manifold: Manifold, size: int, rng: np.random.Generator) -> Array:
    """Records near and far, and some that are no points at all."""
    x = random_points(manifold, size, rng, spread=2.0)
    x[0], x[1], x[2], x[3] = np.nan, np.inf, 1e300, 0.0
    return x


def noise(sensitivity: float, dim: int, cost: float, pure: bool, rng: np.random.Generator) -> Array:
    z = rng.standard_normal(dim)
    if pure:
        return z / np.linalg.norm(z) * rng.gamma(dim) * sensitivity / cost
    return z * sensitivity / math.sqrt(2.0 * cost)


def play(descent: Descent, x: Array, rng: np.random.Generator) -> tuple[Median, list[Any]]:
    """The result of a descent to records, with float noise, and its requests."""
    n, pure, manifold = descent.n, descent.pure, descent.manifold
    program, requests = descent.run(), []
    request = next(program)
    while True:
        requests.append(request)
        answer: Any
        match request:
            case Gradient(point, threshold, cost) | Check(point, threshold, cost):
                rows = lifted if isinstance(request, Gradient) else counted
                total = rows(manifold, point, threshold, n, x).sum(axis=0)
                answer = (total + noise(2.0, len(total), cost, pure, rng)) / n
            case Scale(point, _, cost):
                scores = np.floor(closeness(manifold, point, request.radii, x).sum(axis=0))
                rate = cost if pure else math.sqrt(8.0 * cost)
                answer = float(request.radii[np.argmax(0.5 * rate * scores + rng.gumbel(size=len(scores)))])
            case Start(cost):
                space = manifold.embedding
                assert space is not None
                mean = space.write(x).mean(axis=0)
                answer = space.nearest(mean + noise(space.diameter / n, space.dim, cost, pure, rng))
        try:
            request = program.send(answer)
        except StopIteration as end:
            return end.value, requests


def cloud(manifold: Manifold, center: Array, spread: float, n: int, rng: np.random.Generator) -> Array:
    v = rng.standard_normal((n, manifold.dim)) * spread / math.sqrt(manifold.dim)
    return manifold.raw_project(manifold.raw_exp(center, manifold.raw_tangent(center, v)))


def away(manifold: Manifold, distance: float, rng: np.random.Generator) -> Array:
    u = rng.standard_normal(manifold.dim)
    step = manifold.raw_tangent(manifold.origin, distance * u / np.linalg.norm(u))
    return manifold.raw_project(manifold.raw_exp(manifold.origin, step))


def mean_of(manifold: Manifold, x: Array, guess: Array) -> Array:
    for _ in range(60):
        step = manifold.raw_coordinates(guess, manifold.raw_log(guess, x)).mean(axis=0)
        guess = manifold.raw_project(manifold.raw_exp(guess, manifold.raw_tangent(guess, step)))
    return guess


# ---------------------------------------------------------------------- rows


@every_space
@pytest.mark.parametrize("n", [5, 300, 10**7])
def test_rows_are_on_the_grid_and_no_longer_than_one_in_exact_arithmetic(manifold: Manifold, n: int) -> None:
    rng = np.random.default_rng(1)
    point, x = random_points(manifold, 1, rng)[0], wild(manifold, 60, rng)
    cells = 2 ** min(40, 52 - (n - 1).bit_length())
    for threshold in (1e-12, 0.3, 1e12):
        for row in (*lifted(manifold, point, threshold, n, x), *counted(manifold, point, threshold, n, x)):
            exact = [Fraction(float(entry)) for entry in row]
            assert all((cells * entry).denominator == 1 for entry in exact)
            assert sum(entry**2 for entry in exact) <= 1


@pytest.mark.parametrize(
    "manifold", [*SPACES, SPD(2), SPD(5), Hyperbolic(2), Grassmann(2, 8), PlanarShapes(5), Torus(3), HPD(3)], ids=str
)
def test_other_records_do_not_change_a_row_by_a_single_bit(manifold: Manifold) -> None:
    """Else replacing one record could move the rows of others. Compared before the grid hides most differences."""
    rng = np.random.default_rng(7)
    point = random_points(manifold, 1, rng)[0]
    near = manifold.raw_exp(point, manifold.raw_tangent(point, 1e-3 * rng.standard_normal((60, manifold.dim))))
    x = np.concatenate([wild(manifold, 61, rng), manifold.raw_project(near)])
    found = logarithms(manifold, point, x)
    for others in (wild(manifold, 121, rng), np.broadcast_to(point, x.shape), np.full(x.shape, np.nan), x[::-1]):
        for share in (0.1, 0.9):
            kept = rng.random(len(x)) > share
            mixed = np.where(kept.reshape(-1, *(1,) * (x.ndim - 1)), x, others)
            assert np.array_equal(logarithms(manifold, point, mixed)[kept], found[kept], equal_nan=True)


def test_linear_algebra_that_fails_for_one_record_fails_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    manifold, rng = SPD(5), np.random.default_rng(8)
    x = random_points(manifold, 20, rng)
    expected, log = logarithms(manifold, x[0], x), SPD.raw_log

    def fails(self: SPD, p: Array, q: Array) -> Array:
        if (q == x[7]).all(axis=(-1, -2)).any():
            raise np.linalg.LinAlgError
        return log(self, p, q)

    monkeypatch.setattr(SPD, "raw_log", fails)
    expected[7] = np.nan
    assert np.array_equal(logarithms(manifold, x[0], x), expected, equal_nan=True)


def test_rows_that_are_too_long_count_as_nothing() -> None:
    rows = np.array([[1.0 + 1e-6, 0.0], [np.nan, 0.0], [0.8, 0.7], [0.6, 0.8]])
    assert on_grid(rows, 10)[:3].tolist() == [[0.0, 0.0]] * 3
    assert on_grid(rows, 10)[3] == pytest.approx([0.6, 0.8], abs=1e-8)


def test_sums_of_rows_are_exact_in_any_order() -> None:
    rng = np.random.default_rng(2)
    rows = lifted(Euclidean(3), np.zeros(3), 1.0, 5000, rng.standard_normal((5000, 3)))
    exact = [float(sum(Fraction(float(entry)) for entry in column)) for column in rows.T]
    for order in (np.arange(5000), rng.permutation(5000)):
        assert rows[order].sum(axis=0).tolist() == exact
        assert sum(part.sum(axis=0) for part in np.array_split(rows[order], 7)).tolist() == exact


@every_space
def test_replacing_a_record_moves_the_sum_by_at_most_two_and_nearly_reaches_it(manifold: Manifold) -> None:
    rng = np.random.default_rng(3)
    worst = 0.0
    for threshold in (1e-9, 0.1, 3.0):
        point = random_points(manifold, 1, rng)[0]
        # pairs of opposite records, and a search among wild ones
        v = rng.standard_normal((20, manifold.dim))
        v *= 0.4 / np.linalg.norm(v, axis=1, keepdims=True)
        ends = [manifold.raw_project(manifold.raw_exp(point, manifold.raw_tangent(point, s * v))) for s in (1.0, -1.0)]
        x = np.concatenate([*ends, wild(manifold, 40, rng)])
        for rows in (lifted(manifold, point, threshold, 100, x), counted(manifold, point, threshold, 100, x)):
            worst = max(worst, float(np.linalg.norm(rows[:, None] - rows, axis=2).max()))
    assert 2.0 - 1e-6 < worst <= 2.0


@every_space
def test_replacing_a_record_changes_no_score_of_a_scale_by_more_than_one(manifold: Manifold) -> None:
    rng = np.random.default_rng(4)
    point, x = random_points(manifold, 1, rng)[0], wild(manifold, 60, rng)
    fits = closeness(manifold, point, Scale(point, 10.0, 1.0).radii, x)
    assert ((fits >= 0.0) & (fits <= 1.0) & (16.0 * fits == np.round(16.0 * fits))).all()
    assert not fits[:3].any()
    assert fits[4:].max() == 1.0


@pytest.mark.parametrize("dim", [1, 2, 6, 36])
@pytest.mark.parametrize("threshold", [1.0, 2.0])
def test_nearness_and_slope_are_those_of_gaussian_records(dim: int, threshold: float) -> None:
    """Against a simulation of a million coordinates; five standard errors."""
    shape, size = Shape(dim, threshold), 10**6 // dim
    v = np.random.default_rng(5).standard_normal((size, dim))
    distance = np.linalg.norm(v, axis=1)
    h = threshold * shape.median
    assert np.mean(distance < shape.median) == pytest.approx(0.5, abs=2.5 / math.sqrt(size))
    height = np.sqrt(np.maximum(1.0 - (distance / h) ** 2, 0.0))
    assert shape.nearness == pytest.approx(height.mean(), abs=5.0 * height.std() / math.sqrt(size) + 1e-4)
    moved = v + 0.01 * h * np.eye(dim)[0]
    slopes = [w[:, 0] / np.maximum(np.linalg.norm(w, axis=1), h) for w in (v, moved)]
    difference = (slopes[1] - slopes[0]) / 0.01
    assert shape.slope == pytest.approx(difference.mean(), abs=5.0 * difference.std() / math.sqrt(size) + 2e-3)


# ---------------------------------------------------------------------- costs and rounds


def answers(kind: str) -> Callable[[Any, Descent, np.random.Generator], Any]:
    """Answers that mean to make the program last, spend or fail."""

    def answer(request: Any, descent: Descent, rng: np.random.Generator) -> Any:
        d = descent.manifold.dim
        match request:
            case Scale():
                return float(request.radii[{"huge": 0, "zero": -1}.get(kind, int(rng.integers(len(request.radii))))])
            case Start():
                return random_points(descent.manifold, 1, rng)[0]
        vector = rng.standard_normal(d + 1)
        if kind == "huge":
            return 1e12 * vector
        return 0.0 * vector if kind == "zero" else vector / np.linalg.norm(vector) * (1.0 if kind == "far" else rng.random())

    return answer


@pytest.mark.parametrize("kind", ["huge", "zero", "far", "random"])
@both_laws
@every_space
def test_no_answers_make_it_pass_the_budget_or_ask_too_often(manifold: Manifold, pure: bool, kind: str) -> None:
    rng = np.random.default_rng(6)
    place = Ball(manifold, manifold.origin, 1.5 if manifold.curvature else 20.0) if manifold.embedding is None else manifold
    for n, budget, guarantee in ((30, 0.1, 0.0), (10**6, 1.0, 0.15)):
        descent = Descent(place, n, budget, pure, guarantee=guarantee)
        program, spent, count = descent.run(), Fraction(0), 1
        request = next(program)
        try:
            while True:
                assert request.cost > 0.0
                spent += Fraction(request.cost)
                count += 1
                request = program.send(answers(kind)(request, descent, rng))
        except StopIteration as end:
            result: Median = end.value
        assert spent <= Fraction(budget)
        assert float(spent) == pytest.approx(budget)
        assert count <= MOST_REQUESTS
        assert manifold.valid(result.point[None]).all()
        assert result.scale > 0.0
        assert result.error_quantile() > 0.0


# ---------------------------------------------------------------------- accuracy, in float simulation

#: Space, outer radius, distance of the records, spread, number, pure, and the limit: those of the plan of this program.
CASES: list[tuple[Manifold, float, float, float, int, bool, float]] = [
    (SPD(3), 30.0, 8.0, 0.5, 300, False, 0.09),
    (SPD(3), 30.0, 8.0, 0.5, 1000, False, 0.02),
    (SPD(8), 30.0, 8.0, 1.0, 300, False, 0.6),
    (Euclidean(10), 1000.0, 300.0, 6.3, 300, False, 1.3),
    (Sphere(2), math.inf, 1.0, 0.25, 300, False, 0.04),
    (SPD(3), 30.0, 8.0, 0.5, 1000, True, 0.04),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[4]}-{'laplace' if case[5] else 'gaussian'}")
def test_few_records_are_enough(case: tuple[Manifold, float, float, float, int, bool, float]) -> None:
    manifold, outer, distance, spread, n, pure, limit = case
    place = manifold if math.isinf(outer) else Ball(manifold, manifold.origin, outer)
    errors = []
    descent = Descent(place, n, 1.0 if pure else 0.0244, pure)
    for seed in range(9):
        rng = np.random.default_rng(seed)
        center = away(manifold, distance, rng)
        x = cloud(manifold, center, spread, n, rng)
        result, _ = play(descent, x, rng)
        errors.append(float(manifold.raw_dist(result.point, mean_of(manifold, x, center))))
    assert np.median(errors) < limit
    assert 0.4 < np.median(errors) / descent.expected_error(spread) < 1.6


@both_laws
@pytest.mark.parametrize("manifold", [Euclidean(1), SPD(3)], ids=str)
def test_enough_records_are_enough_and_a_third_of_them_is_not(manifold: Manifold, pure: bool) -> None:
    """Of 12 walks, nine in ten are to arrive; fewer than 8 would with probability below 0.005, and seeds are fixed."""
    place, budget, spread = Ball(manifold, manifold.origin, 30.0), 1.0 if pure else 0.0244, 0.5

    def near(n: int) -> int:
        found = 0
        for seed in range(12):
            rng = np.random.default_rng(seed)
            center = away(manifold, 8.0, rng)
            result, _ = play(Descent(place, n, budget, pure), cloud(manifold, center, spread, n, rng), rng)
            found += manifold.raw_dist(result.point, center) < spread
        return found

    enough = int(Descent(place, 1, budget, pure).enough(spread))
    assert Descent(place, 10**6, budget, pure).enough(spread) == pytest.approx(enough, abs=1)
    assert near(enough) >= 8
    assert near(enough // 3) < 8


def test_outliers_hardly_move_it() -> None:
    manifold, spread, n = SPD(3), 0.5, 1000
    errors = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        center = away(manifold, 8.0, rng)
        good = cloud(manifold, center, spread, n - n // 10, rng)
        aside = manifold.raw_exp(center, manifold.raw_tangent(center, 6.0 * spread * np.eye(6)[0]))
        bad = cloud(manifold, aside, 0.1, n // 10, rng)
        x = np.concatenate([good, bad])
        result, _ = play(Descent(Ball(manifold, manifold.origin, 30.0), n, 0.0244, pure=False), x, rng)
        errors.append(float(manifold.raw_dist(result.point, center)) / spread)
    assert np.median(errors) < 0.2


def test_a_wider_threshold_is_nearer_to_the_mean_of_skewed_records() -> None:
    manifold, n = Euclidean(3), 3000
    errors: dict[float, list[float]] = {1.0: [], 3.0: []}
    for threshold, found in errors.items():
        for seed in range(9):
            rng = np.random.default_rng(seed)
            x = rng.standard_normal((n, 3)) + 5.0
            x[:, 0] += 2.0 * rng.exponential(size=n)
            descent = Descent(Ball(manifold, np.zeros(3), 100.0), n, 0.0244, pure=False, threshold=threshold)
            result, _ = play(descent, x, rng)
            assert result.arrived
            found.append(float(np.linalg.norm(result.point - x.mean(axis=0))))
    assert np.median(errors[3.0]) < 0.6 * np.median(errors[1.0])


def test_invalid_records_alone_are_nowhere() -> None:
    manifold, n = SPD(3), 300
    x = np.full((n, 3, 3), np.nan)
    for seed in range(10):
        descent = Descent(Ball(manifold, np.eye(3), 30.0), n, 0.0244, pure=False)
        assert not play(descent, x, np.random.default_rng(seed))[0].arrived


def huber(manifold: Manifold, x: Array, h: float, guess: Array) -> Array:
    """The Huber location of the records, by Weiszfeld's iteration."""
    for _ in range(40):
        v = manifold.raw_coordinates(guess, manifold.raw_log(guess, x))
        weights = 1.0 / np.maximum(np.linalg.norm(v, axis=1), h)
        guess = manifold.raw_project(manifold.raw_exp(guess, manifold.raw_tangent(guess, weights @ v / weights.sum())))
    return guess


@pytest.mark.parametrize("tails", ["gaussian", "heavy"])
def test_error_bars_cover_the_huber_location(tails: str) -> None:
    """Both are for 95%; of 20 runs fewer than 15 would be covered with probability below 3e-4."""
    manifold, n = Hyperbolic(3), 1000
    approximate = guaranteed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        center = away(manifold, 4.0, rng)
        v = rng.standard_normal((n, 3)) * 0.3
        if tails == "heavy":
            v /= np.sqrt(rng.chisquare(3, size=(n, 1)) / 3.0)
        x = manifold.raw_project(manifold.raw_exp(center, manifold.raw_tangent(center, v)))
        descent = Descent(Ball(manifold, manifold.origin, 12.0), n, 0.0244, pure=False, guarantee=0.15)
        result, _ = play(descent, x, rng)
        assert result.arrived
        assert result.check is not None
        target = huber(manifold, x, result.scale, center)
        approximate += manifold.raw_dist(result.point, target) <= result.error_quantile(0.95)
        exact = float(manifold.raw_dist(result.point, huber(manifold, x, result.check.threshold, center)))
        guaranteed += exact <= result.guaranteed(0.95)
        assert result.guaranteed(0.95) < 1.0
    assert approximate >= 15
    assert guaranteed >= 15


def test_too_few_records_are_noticed() -> None:
    manifold = SPD(3)
    arrived = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        center = away(manifold, 20.0, rng)
        result, _ = play(
            Descent(Ball(manifold, manifold.origin, 30.0), 60, 0.0244, pure=False), cloud(manifold, center, 0.1, 60, rng), rng
        )
        near = float(manifold.raw_dist(result.point, center)) < 1.0
        arrived.append(result.arrived and not near)
    assert sum(arrived) <= 3
