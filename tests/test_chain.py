"""The chain from records to a mean, attacked end to end: ball, coverage, mean; persons; private numbers; labels.

Every attack runs a mechanism many times on two neighbouring data sets and bounds its epsilon from below by events that were fixed
beforehand. Sound mechanisms stay below their claim; false alarms: 1e-4 an attack. Each has a broken twin, which is convicted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from geodp import (
    SPD,
    Ball,
    Dataset,
    Euclidean,
    PureDP,
    Sphere,
    plan_chain,
    private_ball,
    private_coverage,
    private_mean,
)
from geodp.auditing.bounds import least_epsilon
from geodp.inputs import Array
from geodp.records import dataset

#: The chance that an attack accuses a sound mechanism.
LEVEL = 1e-4
LINE = Ball(Euclidean(1), [0.0], 1.0)

#: Numbers that a run on a data set gives, in the order of its generator.
Runs = Callable[[Any, np.random.Generator], list[float]]


def least(run: Runs, first: Any, second: Any, draws: int, thresholds: list[Array]) -> float:
    """A lower bound on epsilon from the events "number i is above t", both ways round, together at the level above."""
    outputs = []
    for seed, x in enumerate((first, second)):
        rng = np.random.default_rng([7, seed])
        outputs.append(np.array([run(x, rng) for _ in range(draws)]))
    events = [(i, t) for i, values in enumerate(thresholds) for t in values]
    level = LEVEL / (4 * len(events))
    bounds = [0.0]
    for i, t in events:
        for sign in (1.0, -1.0):
            hits, others = (int(np.sum(sign * y[:, i] > sign * t)) for y in outputs)
            bounds += [float(least_epsilon(hits, others, draws, level)), float(least_epsilon(others, hits, draws, level))]
    return max(bounds)


# ---------------------------------------------------------------------- a record moved far away

OUTER = Ball(Euclidean(1), [0.0], 1000.0)
NEAR = np.linspace(-1.0, 1.0, 40)[:, None]
FAR = np.append(NEAR[:-1], [[900.0]], axis=0)


def chain(x: Array, rng: np.random.Generator) -> list[float]:
    """Epsilon 3 in all: 1.2 for the ball, 0.3 for coverage, 1.5 for the mean."""
    found = private_ball(x, OUTER, epsilon=1.2, then=PureDP(1.5), simulate=np.random.default_rng(int(rng.integers(2**60))))
    return [found.ball.radius, float(found.ball.center[0]), *_in(found.ball, x, rng)]


def chain_with_the_exact_radius(x: Array, rng: np.random.Generator) -> list[float]:
    """The radius that holds all records: what people would do."""
    ball = Ball(Euclidean(1), [0.0], float(np.abs(x).max()))
    return [ball.radius, 0.0, *_in(ball, x, rng)]


def _in(ball: Ball, x: Array, rng: np.random.Generator) -> list[float]:
    counts = private_coverage(x, ball, epsilon=0.3, simulate=rng)
    mean = private_mean(x, ball, epsilon=1.5, simulate=rng)
    return [float(counts.value[1]), float(mean.value[0])]


CHAIN_EVENTS = [np.array([5.0, 50.0, 500.0]), np.array([-5.0, 0.0, 5.0]), np.array([30.0, 39.5]), np.array([-1.0, 0.0, 1.0])]


@pytest.mark.slow
def test_a_record_that_moves_far_away_is_hidden_by_the_chain() -> None:
    assert least(chain, NEAR, FAR, 500, CHAIN_EVENTS) <= 3.0


@pytest.mark.slow
def test_the_exact_radius_is_convicted() -> None:
    assert least(chain_with_the_exact_radius, NEAR, FAR, 500, CHAIN_EVENTS) > 3.0


# ---------------------------------------------------------------------- a person with many records

MANY = 60


def persons(side: float) -> Dataset:
    """Five persons, of whom the first has sixty records on one side."""
    x = np.concatenate([np.full((MANY, 1), side), np.zeros((4, 1))])
    return Dataset(x, unit=np.append(np.zeros(MANY, dtype=int), [1, 2, 3, 4]))


def mean_of_persons(data: Dataset, rng: np.random.Generator) -> list[float]:
    return [float(private_mean(data, LINE, epsilon=2.0, simulate=rng).value[0])]


def persons_counted_as_records(data: Dataset, rng: np.random.Generator) -> list[float]:
    return [float(private_mean(data.x, LINE, epsilon=2.0, simulate=rng).value[0])]


@pytest.mark.slow
def test_all_records_of_a_person_are_hidden() -> None:
    found = least(mean_of_persons, persons(1.0), persons(-1.0), 1000, [np.array([-0.2, 0.0, 0.2])])
    assert 1.2 <= found <= 2.0


@pytest.mark.slow
def test_persons_counted_as_records_are_convicted() -> None:
    events = [np.array([-0.2, 0.0, 0.2])]
    assert least(persons_counted_as_records, persons(1.0), persons(-1.0), 400, events) > 2.0


# ---------------------------------------------------------------------- a number that is private

ONE, OTHER = np.array([[1.0]]), np.array([[-1.0]])


def mean_of_a_private_number(x: Array, rng: np.random.Generator, epsilon: float = 2.0) -> list[float]:
    """The mean where at least four are said to be there: rare events are the interesting ones."""
    release = private_mean(x, LINE, epsilon=epsilon, neighbours="add-remove", simulate=rng)
    assert release.n is not None
    assert release.count is not None
    return [float(release.value[0]) * (release.n >= 4), float(release.n), float(release.count.value[0])]


NUMBER_EVENTS = [np.array([-0.3, 0.0, 0.3]), np.array([1.5, 4.5]), np.array([0.5, 5.0])]


@pytest.mark.parametrize("pair", [(ONE, OTHER), (ONE, np.empty((0, 1))), (np.append(ONE, ONE, axis=0), ONE)], ids=["r", "0", "2"])
@pytest.mark.slow
def test_adding_removing_and_replacing_a_record_is_hidden(pair: tuple[Array, Array]) -> None:
    assert least(mean_of_a_private_number, *pair, 2000, NUMBER_EVENTS) <= 2.0


@pytest.mark.slow
def test_forgotten_padding_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of records that are no points, the first record again and again: noise for many records hides one."""
    right = dataset.select_records

    def wrong(x: Any, manifold: Any, count: int, keep: Any, padding: int = 0) -> Any:
        return np.concatenate([right(x, manifold, count, keep), np.repeat(x[:1], padding, axis=0)])

    monkeypatch.setattr(dataset, "select_records", wrong)
    assert least(partial(mean_of_a_private_number, epsilon=0.5), ONE, OTHER, 3000, NUMBER_EVENTS) > 0.5


# ---------------------------------------------------------------------- a label that changes

VALUES = np.array([[1.0], [-1.0], [1.0]])


def two_groups(labels: str) -> Runs:
    def run(by: Any, rng: np.random.Generator) -> list[float]:
        release = private_mean(VALUES, LINE, epsilon=2.0, by=by, groups=["a", "b"], labels=labels, simulate=rng)
        a, b = release["a"], release["b"]
        return [float(a.value[0]), float(b.value[0]), float(a.n), float(b.n), float(a.value[0] - b.value[0])]

    return run


LABEL_EVENTS = [np.array([-0.3, 0.3]), np.array([-0.3, 0.3]), np.array([1.5, 2.5]), np.array([1.5]), np.array([-0.5, 0.5])]


@pytest.mark.slow
def test_a_private_label_that_changes_is_hidden() -> None:
    assert least(two_groups("private"), ["a", "b", "a"], ["a", "b", "b"], 1000, LABEL_EVENTS) <= 2.0


@pytest.mark.slow
def test_private_labels_treated_as_public_ones_are_convicted() -> None:
    assert least(two_groups("public"), ["a", "b", "a"], ["a", "b", "b"], 400, LABEL_EVENTS) > 2.0


# ---------------------------------------------------------------------- planning


@pytest.mark.parametrize(
    ("outer", "spread"),
    [
        (Ball(Euclidean(2), [0.0, 0.0], 100.0), 1.0),
        pytest.param(Sphere(2), 0.3, marks=pytest.mark.slow),
        pytest.param(Ball(SPD(2), np.eye(2), 30.0), 0.5, marks=pytest.mark.slow),
    ],
    ids=lambda value: repr(value.manifold if isinstance(value, Ball) else value),
)
def test_a_planned_chain_errs_about_as_much_as_it_says(outer: Any, spread: float) -> None:
    """Records normal with the spread that was guessed; the median of nine releases is within a factor of two and a half."""
    manifold = outer.manifold if isinstance(outer, Ball) else outer
    plan = plan_chain(outer, n=4000, epsilon=1.0, spread=spread)
    rng = np.random.default_rng(3)
    away = np.zeros(manifold.dim)
    away[0] = 3.0 if isinstance(outer, Ball) else 1.0
    center = manifold.raw_exp(manifold.origin, manifold.raw_tangent(manifold.origin, away))
    errors = []
    for seed in range(9):
        steps = rng.normal(0.0, spread / np.sqrt(manifold.dim), (4000, manifold.dim))
        x = manifold.raw_exp(center, manifold.raw_tangent(center, steps))
        found = private_ball(x, outer, epsilon=plan.find, then=PureDP(1.0 - plan.find), simulate=np.random.default_rng(seed))
        release = private_mean(x, found.ball, epsilon=1.0 - plan.find, simulate=rng)
        errors.append(float(manifold.dist(release.value, center)))
    # the records' own mean is that far from the centre they were drawn about
    sampling = spread / np.sqrt(4000)
    assert np.median(errors) <= 2.5 * (plan.expected_error + sampling)
    assert np.median(errors) >= (plan.expected_error + sampling) / 2.5


def test_a_plan_says_from_how_many_records_on_the_search_arrives() -> None:
    manifold, arrived = SPD(3), []
    outer = Ball(manifold, np.eye(3), 30.0)
    enough = int(plan_chain(outer, n=1000, epsilon=1.0, spread=0.5, find=0.5).enough)
    assert 500 < enough < 1500
    for n in (enough, enough // 4):
        found = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            steps = rng.normal(0.0, 0.5 / np.sqrt(6), (n, 6)) + np.array([5.0, 0.0, 0.0, 0.0, 0.0, 0.0])
            x = manifold.raw_exp(manifold.origin, manifold.raw_tangent(manifold.origin, steps))
            ball = private_ball(x, outer, epsilon=0.5, simulate=rng).ball
            found.append(ball.contains(x).mean() > 0.5 and ball.radius < 2.0)
        arrived.append(sum(found))
    assert arrived[0] >= 6
    assert arrived[1] <= 3


def test_no_plan_expects_more_than_the_ball_is_wide() -> None:
    for n in (10, 100, 1000):
        chain = plan_chain(Ball(SPD(3), np.eye(3), 30.0), n=n, epsilon=1.0, spread=0.5)
        assert chain.expected_error <= 2.0 * chain.radius


def test_a_ball_named_without_looking_is_better_up_to_the_radius_that_a_plan_says() -> None:
    from geodp import plan

    chain = plan_chain(Ball(Euclidean(3), [0.0, 0.0, 0.0], 100.0), n=2000, epsilon=1.0, spread=1.0)
    for factor, better in ((0.99, True), (1.01, False)):
        guess = plan(Ball(Euclidean(3), [0.0, 0.0, 0.0], factor * chain.guess), n=2000, epsilon=1.0)
        assert (guess.expected_error < chain.expected_error) == better


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"spread": 0.0}, "the spread must be positive and finite but is 0"),
        ({"spread": 1.0, "find": 1.0}, "the part of the privacy for the ball must be from 0.001 to 0.999 but is 1"),
    ],
)
def test_bad_plans_are_one_sentence(options: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        plan_chain(Sphere(2), n=100, epsilon=1.0, **options)
