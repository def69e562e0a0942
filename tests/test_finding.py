"""A ball found privately, coverage and projected means: exact choices, sensitivities, errors, and what a neighbour can change.

Random tests fix their seeds. Frequencies are compared with five standard errors: a false alarm has probability below 1e-6.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import longer, planned

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Ledger,
    Manifold,
    PlanarShapes,
    Product,
    PureDP,
    Release,
    Rotations,
    Sphere,
    Torus,
    ZeroConcentratedDP,
    plan_chain,
    private_ball,
    private_coverage,
    private_mean,
    private_projected_mean,
)
from geodp.arithmetic.choosing import choose
from geodp.arithmetic.entropy import NotPrivate
from geodp.inputs import Array
from geodp.noise.selection import Selection
from geodp.privacy.cost import SelectionCost
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy
from geodp.privacy.splitting import split
from geodp.programs.ball import BallRelease, plan_search, possible_radii
from geodp.statistics.average import Average, averaging_space
from geodp.statistics.counts import NormalCoordinates, beyond
from geodp.statistics.coverage import Coverage
from geodp.statistics.mean import Mean
from geodp.testing import random_points

COMPACT: list[Manifold] = [
    Sphere(1),
    Sphere(2),
    Sphere(3, curvature=4.0),
    Rotations(2),
    Rotations(3),
    Rotations(4),
    Grassmann(1, 3),
    Grassmann(2, 5),
    PlanarShapes(4),
    Torus(2),
    Product(Sphere(2), Rotations(3)),
]
every_compact = pytest.mark.parametrize("manifold", COMPACT, ids=str)
NOTIONS: list[Privacy] = [PureDP(0.4), ApproximateDP(0.4, 1e-6), ZeroConcentratedDP(0.02), GaussianDP(0.2)]


def cluster(manifold: Manifold, center: Array, spread: float, n: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((n, manifold.dim)) * spread / math.sqrt(manifold.dim)
    return manifold.exp(center, manifold.tangent(center, v))


def far_point(manifold: Manifold, distance: float, seed: int = 0) -> Array:
    v = np.random.default_rng(seed).standard_normal(manifold.dim)
    return manifold.exp(manifold.origin, manifold.tangent(manifold.origin, v * distance / np.linalg.vector_norm(v)))


# ---------------------------------------------------------------------- exact choices


def test_choices_have_exactly_their_chances() -> None:
    source, size = NotPrivate(3), 20_000
    scores, rate = [0, -1, -6, 0], Fraction(1, 2)
    draws = np.bincount([choose(scores, rate, source) for _ in range(size)], minlength=4) / size
    chances = np.exp([0.5 * score for score in scores])
    chances /= chances.sum()
    error = np.sqrt(chances * (1.0 - chances) / size)
    assert (np.abs(draws - chances) < 5.0 * error).all()
    wrong = np.exp([0.6 * score for score in scores])
    assert (np.abs(draws - wrong / wrong.sum()) > 5.0 * error).any(), "a fifth more epsilon would be noticed"


def test_weights_multiply_chances() -> None:
    scores, weights, rate, draws = [0, -3, -1], [1, 20, 2], Fraction(1, 2), 20_000
    masses = [weight * math.exp(rate * score) for weight, score in zip(weights, scores, strict=True)]
    source = NotPrivate(2)
    seen = [choose(scores, rate, source, weights) for _ in range(draws)]
    for i, mass in enumerate(masses):
        chance = mass / sum(masses)
        assert abs(seen.count(i) - draws * chance) < 5.0 * math.sqrt(draws * chance * (1.0 - chance))


def test_a_choice_with_huge_and_tiny_weights_is_exact() -> None:
    assert choose([-(10**6), 10**6], Fraction(1), NotPrivate(0)) == 1
    assert choose([5], Fraction(1), NotPrivate(0)) == 0


def test_the_exponential_mechanism_keeps_its_privacy_on_the_worst_pair_of_scores() -> None:
    """Exact ratios of chances for neighbouring scores, against the claim in epsilon and in rho."""
    epsilon = Selection(PureDP(0.8)).epsilon
    first, second = np.array([0, -3, -5, -4]), np.array([-1, -2, -4, -5])
    p, q = (np.exp(0.5 * epsilon * scores) for scores in (first, second))
    p, q = p / p.sum(), q / q.sum()
    assert np.abs(np.log(p / q)).max() <= 0.8
    for order in (1.5, 2.0, 8.0):
        divergence = math.log(float((p**order * q ** (1.0 - order)).sum())) / (order - 1.0)
        assert divergence / order <= SelectionCost(0.8).rho


@pytest.mark.parametrize("privacy", NOTIONS, ids=str)
def test_parts_of_a_privacy_keep_it_together(privacy: Privacy) -> None:
    from geodp.privacy.cost import compose

    parts = split(privacy, [0.3, 0.5, 0.2])
    assert compose(Selection(part).cost for part in parts).meets(privacy)
    more = split(privacy, [0.4, 0.7, 0.3])
    assert not compose(Selection(part).cost for part in more).meets(privacy)


# ---------------------------------------------------------------------- what one record can change


def neighbours(manifold: Manifold, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = random_points(manifold, 40, rng, spread=1.5)
    y = x.copy()
    y[7] = random_points(manifold, 1, rng, spread=3.0)[0] if seed % 3 else np.nan
    return x, y


@pytest.mark.parametrize("manifold", [*COMPACT, SPD(2), SPD(3), Hyperbolic(2), Euclidean(3)], ids=str)
def test_one_record_changes_every_count_by_at_most_one(manifold: Manifold) -> None:
    limit = Ball(manifold, manifold.origin, 1e-3).max_radius
    ball = Ball(manifold, manifold.origin, min(1.0, 0.9 * limit))
    radii = ball.radius * 0.8 ** np.arange(12.0)
    for seed in range(6):
        x, y = neighbours(manifold, seed)
        assert np.abs(np.subtract(beyond(x, ball, radii, len(x)), beyond(y, ball, radii, len(y)))).max() <= 1
        counts = [Coverage(ball).compute(data, 40) for data in (x, y)]
        assert np.abs(counts[0] - counts[1]).max() <= 1.0


@every_compact
def test_one_record_moves_the_mean_vector_by_no_more_than_the_diameter_over_n(manifold: Manifold) -> None:
    statistic, n = Average(manifold), 40
    for seed in range(8):
        x, y = neighbours(manifold, seed)
        means = [statistic.compute(data, n) for data in (x, y)]
        assert np.linalg.vector_norm(means[0] - means[1]) <= statistic.sensitivity(n) + 2.0 * statistic.tolerance()


@every_compact
def test_the_diameter_of_an_embedding_is_reached_and_not_passed(manifold: Manifold) -> None:
    embedding = averaging_space(manifold)
    rng = np.random.default_rng(1)
    reach = min(4.0, 0.999 * manifold.diameter)
    v = rng.standard_normal((4000, manifold.dim))
    v *= (reach * rng.uniform(0.2, 1.0, 4000) / np.linalg.vector_norm(v, axis=1))[:, None]
    points = manifold.raw_exp(manifold.origin, manifold.raw_tangent(manifold.origin, v))
    vectors = embedding.write(points)
    assert vectors.shape == (4000, embedding.dim)
    apart = np.linalg.vector_norm(vectors[:2000] - vectors[2000:], axis=1)
    assert apart.max() <= embedding.diameter * (1.0 + 1e-12)
    assert apart.max() > 0.6 * embedding.diameter
    near = embedding.nearest(vectors[0])
    assert manifold.raw_dist(points[0], near) < 1e-7, "the nearest point to a point is that point"


@every_compact
def test_nearest_points_turn_no_further_than_is_said(manifold: Manifold) -> None:
    embedding, rng = averaging_space(manifold), np.random.default_rng(2)
    center = far_point(manifold, 0.7, seed=3)
    vector = embedding.write(cluster(manifold, center, 0.6, 200)).mean(axis=0)
    for q in (0.02, 0.1, 0.2):
        bound = embedding.turn(vector, q)
        shifts = rng.standard_normal((200, embedding.dim))
        shifts *= q / np.linalg.vector_norm(shifts, axis=1, keepdims=True)
        base = embedding.nearest(vector)
        moved = max(float(manifold.raw_dist(base, embedding.nearest(vector + shift))) for shift in shifts)
        assert moved <= bound * (1.0 + 1e-9)
    assert embedding.turn(vector, 100.0) == math.inf


# ---------------------------------------------------------------------- releases


@pytest.mark.parametrize(
    ("manifold", "given"),
    longer([*((manifold, {"epsilon": 1.0}) for manifold in COMPACT),
            *((Sphere(2), privacy) for privacy in ({"rho": 0.2}, {"mu": 0.7}, {"epsilon": 1.0, "delta": 1e-6}))],
           [(manifold, {"epsilon": 1.0}) for manifold in COMPACT[::3]]),
    ids=str,
)  # fmt: skip
def test_a_projected_mean_is_a_point_near_the_records_with_a_true_error_bar(manifold: Manifold, given: dict[str, float]) -> None:
    center = far_point(manifold, 1.0, seed=5)
    x = cluster(manifold, center, 0.3, 3000)
    release = private_projected_mean(x, manifold, **given)
    assert manifold.check_point(release.value) is None
    true = Average(manifold).space.nearest(Average(manifold).compute(x, 3000))
    # with probability 1 - 1e-9 a release is within this
    assert manifold.raw_dist(true, release.value) <= release.error_quantile(1.0 - 1e-9)
    again = Release.from_json(release.to_json())
    assert again.to_json() == release.to_json()


def test_records_that_point_everywhere_have_no_direction_and_the_receipt_says_so() -> None:
    angles = np.linspace(0.0, 2.0 * math.pi, 200, endpoint=False)
    release = private_projected_mean(
        np.stack([np.cos(angles), np.sin(angles)], axis=-1), Sphere(1), epsilon=0.5, simulate=np.random.default_rng(1)
    )
    assert release.says_nothing
    assert "cannot tell any direction" in str(release)


def test_coverage_tells_a_column_that_was_read_wrongly() -> None:
    ball = Ball(SPD(2), np.eye(2), 1.0)
    x = np.tile(np.eye(2), (2000, 1, 1))
    x[:700] = -1.0
    x[700:1000] *= 1e6
    release = private_coverage(x, ball, epsilon=0.5)
    reach = release.error_quantile(1.0 - 1e-9)
    assert abs(release.valid - 1300) <= 4.0 * release.valid_margin <= 200
    gap = release.statistic.outer - ball.radius
    assert abs(release.moved - 300 / 2000 * gap) <= reach / 2000 * gap, "those far away count as on the second radius"
    assert reach < 200
    assert "check which columns were read" in release.verdict()
    assert Release.from_json(release.to_json()).to_json() == release.to_json()


TARGETS = [
    (SPD(3), 8.0, 30.0, 0.5),
    (Hyperbolic(3), 4.0, 12.0, 0.4),
    (Euclidean(10), 300.0, 1000.0, 2.0),
]


@pytest.mark.parametrize(("manifold", "distance", "outer", "spread"), TARGETS, ids=lambda value: str(value))
def test_a_ball_is_found_far_from_the_centre_of_a_wide_one(
    manifold: Manifold, distance: float, outer: float, spread: float
) -> None:
    center = far_point(manifold, distance)
    x = cluster(manifold, center, spread, 10_000)
    found = private_ball(x, Ball(manifold, manifold.origin, outer), epsilon=0.3, simulate=np.random.default_rng(1))
    assert not found.private
    assert found.ball.contains(x).mean() > 0.9
    assert found.ball.radius < 5.0 * spread
    assert manifold.dist(found.ball.center, center) < spread


@every_compact
def test_on_compact_spaces_a_ball_is_found_from_nothing(manifold: Manifold) -> None:
    center = far_point(manifold, 1.0, seed=4)
    x = cluster(manifold, center, 0.2, 5000)
    found = private_ball(x, manifold, epsilon=0.5, simulate=np.random.default_rng(2))
    assert found.ball.contains(x).mean() > 0.8
    release = private_mean(x, found.ball, epsilon=1.0)
    assert manifold.dist(release.value, center) < 0.2


@pytest.mark.parametrize("privacy", NOTIONS, ids=str)
def test_a_search_spends_what_was_asked_for_in_every_notion(privacy: Privacy, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("study", **privacy.parameters())
    x = cluster(SPD(2), np.eye(2), 0.4, 5000)
    found = private_ball(x, Ball(SPD(2), np.eye(2), 30.0), **privacy.parameters(), ledger=ledger, dataset="study")
    assert found.cost.meets(privacy)
    assert found.private
    entry = ledger.history("study")[0]
    assert entry.id == found.charge
    again = BallRelease.from_json(found.to_json())
    assert again.ball == found.ball
    assert again.cost == found.cost
    with pytest.raises(ValueError, match=r"has .* left"):
        private_ball(x, Ball(SPD(2), np.eye(2), 30.0), **privacy.parameters(), ledger=ledger, dataset="study")


def test_only_radii_of_balls_with_a_mean_are_on_the_grid() -> None:
    for manifold, center in (
        (Sphere(2), Sphere(2).origin),
        (SPD(3), np.diag([1e-4, 1.0, 1e3])),
        (SPD(3), np.diag([1e-5, 1.0, 1e5])),  # where rounding is larger than the smallest radii
        (Grassmann(2, 5), Grassmann(2, 5).origin),
    ):
        radii = possible_radii(manifold, center, 1e3)
        assert all(small < large for large, small in pairwise(radii))
        x = np.tile(center, (50, *(1,) * len(manifold.point_shape)))
        for radius in (radii[0], radii[-1]):
            private_mean(x, Ball(manifold, center, radius), epsilon=1.0, anyway=True)  # nothing fails later


@pytest.mark.parametrize("n", [1, 2, 10, 100])
@pytest.mark.parametrize("start", [Ball(SPD(3), np.eye(3), 30.0), Sphere(2), Ball(Euclidean(1), [0.0], 1e6)], ids=repr)
def test_few_records_give_some_ball_and_never_fail(start: Ball | Manifold, n: int) -> None:
    manifold = start.manifold if isinstance(start, Ball) else start
    x = np.tile(manifold.origin, (n, *(1,) * len(manifold.point_shape)))
    x[0] = np.nan
    found = private_ball(x, start, epsilon=0.1)
    private_mean(x, found.ball, epsilon=0.1, anyway=True)


@pytest.mark.parametrize("epsilon", [1e3, 1e100])
def test_more_privacy_than_anybody_spends_makes_no_search_fail(epsilon: float) -> None:
    """Exponents of such numbers would not fit into any memory."""
    found = private_ball(np.tile(np.eye(2), (50, 1, 1)), Ball(SPD(2), np.eye(2), 30.0), epsilon=epsilon)
    assert found.ball.contains(np.eye(2))


def test_what_the_search_does_depends_on_public_numbers_alone() -> None:
    outer = Ball(SPD(3), np.eye(3), 30.0)
    few, many = (plan_search(outer, n, PureDP(0.2)) for n in (965, 10_000))
    assert [step.what for step in few.steps] == ["median"]
    assert [step.what for step in many.steps] == ["median", "radius"]
    assert few.cost.epsilon <= 0.2
    assert many.cost.epsilon <= 0.2


@pytest.mark.parametrize(("manifold", "distance", "outer", "spread", "most"), [
    (SPD(3), 8.0, 30.0, 0.5, 0.065), (Euclidean(10), 300.0, 1000.0, 6.3, 1.2), (Hyperbolic(3), 4.0, 12.0, 0.4, 0.045)
], ids=str)  # fmt: skip
def test_three_hundred_records_are_enough_for_a_mean_in_a_ball_that_is_found(
    manifold: Manifold, distance: float, outer: float, spread: float, most: float
) -> None:
    """At (1, 1e-6) from nothing: three times the error in the best ball of an oracle; it was 22 to 62 times."""
    errors = []
    for seed in range(11):
        x = cluster(manifold, far_point(manifold, distance, seed), spread, 300, seed)
        rng = np.random.default_rng(seed)
        found = private_mean(x, manifold, epsilon=1.0, delta=1e-6, outer=outer, coverage=0.0, simulate=rng)
        errors.append(float(manifold.dist(found.value, karcher(manifold, x))))
        assert found.cost.meets(ApproximateDP(1.0, 1e-6))
    assert np.median(errors) < most


@pytest.mark.parametrize(
    "given", [{}, {"law": "laplace"}, {"law": "gaussian"}, {"mechanism": "intrinsic"}, {"coverage": 0.1}], ids=str
)
def test_a_chain_under_epsilon_and_delta_keeps_them_with_every_noise(given: dict[str, Any]) -> None:
    x = cluster(SPD(2), np.eye(2), 0.4, 1000)
    asked = ApproximateDP(1.0, 1e-6)
    found = private_mean(x, SPD(2), **asked.parameters(), **given)
    assert found.cost.meets(asked)
    assert found.request.price(found.sizes).meets(asked)
    assert type(found).from_json(found.to_json()) == found


def test_bad_input_gets_one_sentence() -> None:
    x = np.tile([0.0, 0.0, 1.0], (50, 1))
    with pytest.raises(ValueError, match=r"float64 resolves no mean of .* near this centre"):
        private_ball(np.tile(np.eye(3), (50, 1, 1)), Ball(SPD(3), np.diag([1e-6, 1.0, 1e6]), 30.0), epsilon=1.0)
    with pytest.raises(ValueError, match="no ball is needed to start from: give the manifold itself"):
        private_ball(x, Ball(Sphere(2), Sphere(2).origin, 1.0), epsilon=1.0)
    with pytest.raises(ValueError, match="start from a wide ball"):
        private_ball(np.tile(np.eye(2), (50, 1, 1)), SPD(2), epsilon=1.0)
    with pytest.raises(TypeError, match="outer must be a wide Ball or a compact manifold"):
        private_ball(x, 30.0, epsilon=1.0)
    with pytest.raises(ValueError, match="exactly one of epsilon"):
        private_ball(x, Sphere(2))
    with pytest.raises(ValueError, match="this is not the JSON text of a release"):
        BallRelease.from_json(json.dumps({"summary": "ball"}))


def test_normal_coordinates_treat_every_record_by_itself() -> None:
    """The bits of one record's coordinates do not depend on its company: a wide ball has no tolerance for that."""
    rng = np.random.default_rng(0)
    ball = Ball(SPD(3), np.eye(3), 30.0)
    x = np.stack([np.diag(np.exp(rng.uniform(-20.0, 20.0, 3))) for _ in range(200)])
    x[5], x[17, 0, 0] = np.nan, -1.0
    coordinates = NormalCoordinates(ball, 200)
    together = coordinates(x.copy())
    alone = np.concatenate([coordinates(x[i : i + 1].copy()) for i in range(200)])
    assert together.tobytes() == alone.tobytes()
    assert (np.linalg.vector_norm(together, axis=1) <= 30.0).all()


# ---------------------------------------------------------------------- how good the found ball is


def best_ball_error(manifold: Manifold, x: Array, mean: Array, seed: int) -> float:
    """The median error of a pure release with epsilon 1 in the best ball about the true mean, over quantiles of the distances."""
    distance, rng = np.asarray(manifold.dist(mean, x)), np.random.default_rng(seed)
    errors = []
    for q in (0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0):
        ball = Ball(manifold, mean, float(np.quantile(distance, q)) * 1.0001)
        noise = planned(Mean(ball), len(x), PureDP(1.0)).noise
        draws = noise.simulate(Mean(ball).compute(x, len(x)), 200, rng)
        errors.append(float(np.median(manifold.dist(mean, draws))))
    return min(errors)


def karcher(manifold: Manifold, x: Array) -> Array:
    mean = x[0]
    for _ in range(30):
        mean = manifold.raw_exp(mean, manifold.raw_log(mean, x).mean(axis=0))
    return mean


CHAINS = [*TARGETS, (Sphere(2), 1.5, None, 0.25), (Rotations(3), 1.5, None, 0.25)]


@pytest.mark.slow
@pytest.mark.parametrize(("manifold", "distance", "outer", "spread"), CHAINS, ids=str)
def test_with_10_000_records_ball_and_mean_err_at_most_two_and_a_half_times_what_the_best_ball_does(
    manifold: Manifold, distance: float, outer: float | None, spread: float
) -> None:
    """Total epsilon 1, shared as a plan says. The best ball is one that only an oracle could choose."""
    ratios = []
    for seed in range(2):
        x = cluster(manifold, far_point(manifold, distance, seed), spread, 10_000, seed)
        mean = karcher(manifold, x)
        best = best_ball_error(manifold, x, mean, seed)
        start = manifold if outer is None else Ball(manifold, manifold.origin, outer)
        find = plan_chain(start, len(x), epsilon=1.0, spread=spread).find
        for k in range(6):
            found = private_ball(x, start, epsilon=find, then=PureDP(1.0 - find), simulate=np.random.default_rng(100 * seed + k))
            value = private_mean(x, found.ball, epsilon=1.0 - find, simulate=np.random.default_rng(k)).value
            ratios.append(float(manifold.dist(mean, value)) / best)
    assert np.median(ratios) <= 2.5


@pytest.mark.slow
def test_on_the_shipped_tensors_nothing_need_be_known_about_the_ball() -> None:
    import geodp

    x, manifold = geodp.data.load("dti_tensors"), SPD(3)
    mean = karcher(manifold, x)
    best = best_ball_error(manifold, x, mean, 0)
    ratios = []
    for k in range(30):
        release = private_mean(x, manifold, epsilon=1.0, coverage=0.0, simulate=np.random.default_rng(k))
        ratios.append(float(manifold.dist(mean, release.value)) / best)
    assert np.median(ratios) <= 2.5
