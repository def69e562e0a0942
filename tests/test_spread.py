"""Variances, covariances and principal geodesics: sensitivities, values, errors, the level of the noise, and audits.

Random tests fix their seeds. Frequencies are compared with five standard errors: a false alarm has probability below 1e-6.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import every_manifold, longer, planned, random_points
from typer.testing import CliRunner

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Hyperbolic,
    Ledger,
    Manifold,
    PlanarShapes,
    Product,
    Release,
    Rotations,
    Sphere,
    confidence_region,
    private_covariance,
    private_mean,
    private_variance,
)
from geodp.auditing import audit
from geodp.cli import app
from geodp.inputs import Array
from geodp.manifolds.functions import vector_from_symmetric
from geodp.plots import confidence_regions, principal_geodesics
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP
from geodp.receipt import SIMULATION
from geodp.statistics.counts import NormalCoordinates
from geodp.statistics.covariance import WEIGHT, Covariance, CovarianceRelease, SecondMoment
from geodp.statistics.variance import FrechetVariance, Variance, VarianceRelease

STATISTICS = [Variance, FrechetVariance, SecondMoment, Covariance]
every_statistic = pytest.mark.parametrize("kind", STATISTICS, ids=lambda kind: kind.__name__)
SPACES: list[Manifold] = [Euclidean(1), Euclidean(3), Sphere(1), Sphere(2), Hyperbolic(2), SPD(2), SPD(3), Rotations(3)]
every_space = pytest.mark.parametrize("manifold", longer(SPACES, [Euclidean(3), Sphere(2)]), ids=str)
NOTIONS: list[Privacy] = [PureDP(1.0), ApproximateDP(1.0, 1e-6), ZeroConcentratedDP(0.05), GaussianDP(0.3)]


def ball_of(manifold: Manifold, share: float = 0.9) -> Ball:
    small = Ball(manifold, manifold.origin, 1e-3)
    return Ball(manifold, manifold.origin, min(1.3, share * small.max_radius))


def placed(ball: Ball, coordinates: Array) -> Array:
    """Records with these normal coordinates at the centre."""
    return ball.manifold.exp(ball.center, ball.manifold.tangent(ball.center, coordinates))


def spread_out(ball: Ball, n: int, deviations: Any, mean: Any = 0.0, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return placed(ball, mean + rng.normal(size=(n, ball.manifold.dim)) * deviations)


# ---------------------------------------------------------------------- how far one record moves them


def climb(moved: Callable[[Array], float], start: Array, radius: float, rng: np.random.Generator, steps: int = 400) -> float:
    """The largest value found by random steps among rows of length at most ``radius``, which shrink where none leads up."""

    def inside(rows: Array) -> Array:
        return rows * np.minimum(1.0, radius / np.maximum(np.linalg.vector_norm(rows, axis=-1, keepdims=True), 1e-300))

    best, at, size = moved(inside(start)), inside(start), radius
    for _ in range(steps):
        tried = inside(at + size * rng.normal(size=at.shape))
        found = moved(tried)
        best, at, size = (found, tried, size * 1.2) if found > best else (best, at, max(size * 0.97, 1e-4 * radius))
    return best


@pytest.mark.parametrize("kind", longer(STATISTICS, [FrechetVariance, Covariance]), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("manifold", longer(SPACES, [Euclidean(3)]), ids=str)
def test_an_adversary_reaches_the_sensitivity_to_one_percent_and_no_more(manifold: Manifold, kind: Any) -> None:
    """The others are part of the search for the Fréchet variance alone: the sums do not depend on them."""
    ball, rng = ball_of(manifold), np.random.default_rng(5)
    statistic = kind(ball)
    n = 250 if kind is FrechetVariance else 2

    def moved(rows: Array) -> float:
        others = np.repeat(placed(ball, rows[2:]), n - 1, axis=0)
        first, second = (np.concatenate([others, placed(ball, row[None])]) for row in rows[:2])
        return float(np.linalg.vector_norm(statistic.compute(first, n) - statistic.compute(second, n)))

    most = statistic.sensitivity(n) + 2.0 * statistic.tolerance()
    steps = 60 if kind is FrechetVariance else 400
    starts = [rng.normal(size=(3, manifold.dim)) for _ in range(2)]
    if kind is FrechetVariance:
        along = 10.0 * np.eye(manifold.dim)[0]
        starts = [np.stack([-along, along, along]) + 0.1 * rng.normal(size=(3, manifold.dim))]
    found = max(climb(moved, start, ball.radius, rng, steps) for start in starts)
    assert found <= most
    assert found >= 0.99 * most


def test_the_joint_sensitivity_in_closed_form_is_the_largest_over_a_fine_grid() -> None:
    r = 1.7
    for dim, points in ((1, 4001), (2, 401)):
        angles = np.linspace(0.0, 2.0 * np.pi, points) if dim == 2 else np.zeros(1)
        lengths = np.linspace(-1.0, 1.0, points if dim == 1 else 41)
        first = np.array([r, 0.0])
        second = r * (lengths[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)).reshape(-1, 2)
        outer = np.outer(first, first) - second[:, :, None] * second[:, None, :]
        squares = np.square(outer).sum(axis=(1, 2)) + (WEIGHT * r) ** 2 * np.square(first - second).sum(axis=1)
        claimed = Covariance(Ball(Euclidean(dim), np.zeros(dim), r)).sensitivity(1)
        assert np.sqrt(squares.max()) == pytest.approx(claimed, rel=1e-3)
        assert np.sqrt(squares.max()) <= claimed


# ---------------------------------------------------------------------- what they are


@every_manifold
def test_they_are_what_their_definitions_say(manifold: Manifold) -> None:
    """Definitions by the manifold's public maps, record by record."""
    ball = ball_of(manifold, 0.8)
    x = random_points(manifold, 40, np.random.default_rng(1), 0.7 * ball.radius)
    x[3] = np.nan
    clipped = ball.clip(x)
    u = np.array([manifold.coordinates(ball.center, manifold.log(ball.center, point)) for point in clipped])
    second, mean = sum(np.outer(row, row) for row in u) / 40, u.mean(axis=0)
    assert float(Variance(ball).compute(x, 40)[0]) == pytest.approx(np.mean(manifold.dist(ball.center, clipped) ** 2), rel=1e-9)
    moment = SecondMoment(ball)
    assert np.allclose(moment.covariance(moment.compute(x, 40)), second, rtol=0.0, atol=1e-9)
    joint = Covariance(ball)
    vector = joint.compute(x, 40)
    assert np.allclose(joint.mean(vector), mean, rtol=0.0, atol=1e-9)
    assert np.allclose(joint.covariance(vector), second - np.outer(mean, mean), rtol=0.0, atol=1e-9)
    frechet = float(FrechetVariance(ball).compute(x, 40)[0])
    near = manifold.exp(
        ball.center, manifold.tangent(ball.center, mean + 0.05 * np.random.default_rng(2).normal(size=(60, manifold.dim)))
    )
    assert all(frechet <= np.mean(manifold.dist(point, clipped) ** 2) + 1e-9 for point in near)  # it is the least
    point = manifold.exp(ball.center, manifold.tangent(ball.center, mean))
    assert frechet <= float(np.mean(manifold.dist(point, clipped) ** 2)) + 1e-9


@pytest.mark.parametrize("count", [11_111 + 7, 60_000])
def test_compiled_coordinates_are_those_of_the_manifold(count: int) -> None:
    """Points inside and outside, far ones, nearly singular ones and what is no point; in no case longer than the radius."""
    rng = np.random.default_rng(3)
    center = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
    ball = Ball(SPD(3), center, 1.1)
    x = random_points(SPD(3), count, rng, 0.6)
    kinds = np.arange(count) % 101
    for kind, odd in enumerate((center, np.diag([1e-9, 1.0, 1e9]), 4.0 * center, np.full((3, 3), np.nan), -np.eye(3))):
        x[kinds == kind] = odd
    x[kinds == 5] = center * (1.0 + 1e-13 * rng.normal(size=(3, 3)))
    fast = NormalCoordinates(ball, len(x))(x.copy())
    general = np.concatenate([NormalCoordinates(ball, len(part))(part.copy()) for part in np.array_split(x, count // 500)])
    assert np.abs(fast - general).max() < 1e-10
    assert np.linalg.vector_norm(fast, axis=-1).max() <= ball.radius * (1.0 + 1e-14)
    assert not fast[(kinds == 3) | (kinds == 4)].any()


@every_statistic
def test_chunks_and_dask_arrays_give_what_an_array_gives(kind: Any) -> None:
    da = pytest.importorskip("dask.array")
    ball = Ball(SPD(3), np.eye(3), 1.2)
    x = random_points(SPD(3), 30_000, np.random.default_rng(4), 0.5)
    statistic = kind(ball)
    whole = statistic.compute(x, len(x))
    chunked = statistic.compute(lambda: iter(np.array_split(x, 7)), len(x))
    blocks = statistic.compute(da.from_array(x, chunks=(4_000, 3, 3)), len(x))
    for other in (chunked, blocks):
        assert np.linalg.vector_norm(other - whole) <= 2.0 * statistic.tolerance()


@every_statistic
def test_rounding_stays_far_below_the_tolerance(kind: Any) -> None:
    """The exact sum of the same vectors, in rational arithmetic by math.fsum, against the sum that a release would hide."""
    ball = Ball(Euclidean(2), np.zeros(2), 1.0)
    x = np.random.default_rng(5).normal(size=(200_000, 2)) * 0.4
    u = ball.clip(x)
    mean = np.array([math.fsum(u[:, i]) / len(u) for i in range(2)])
    square = math.fsum((u**2).ravel()) / len(u)
    truth: dict[Any, Array] = {
        Variance: np.array([square]),
        FrechetVariance: np.array([square - float(mean @ mean)]),
        SecondMoment: vector_from_symmetric(
            np.array([[math.fsum(u[:, i] * u[:, j]) for j in range(2)] for i in range(2)]) / len(u)
        ),
    }
    truth[Covariance] = np.concatenate([truth[SecondMoment], WEIGHT * mean])
    found = kind(ball).compute(x, len(x))
    assert np.linalg.vector_norm(found - truth[kind]) <= 0.01 * kind(ball).tolerance()


# ---------------------------------------------------------------------- releases


@every_statistic
@pytest.mark.parametrize(
    ("privacy", "runs"), [(NOTIONS[0], 100), *(pytest.param(notion, 400, marks=pytest.mark.slow) for notion in NOTIONS)], ids=str
)
def test_the_truth_is_within_the_error_as_often_as_said_and_errors_on_average_as_much_as_said(
    kind: Any, privacy: Privacy, runs: int
) -> None:
    ball = Ball(Sphere(2), Sphere(2).origin, 1.0)
    x, n = spread_out(ball, 400, [0.4, 0.1], [0.2, 0.1]), 400
    release = private_variance if kind in (Variance, FrechetVariance) else private_covariance
    about = "center" if kind in (Variance, SecondMoment) else "mean"
    vector, rng = kind(ball).compute(x, n), np.random.default_rng(6)
    truth = np.asarray(vector[0]) if kind in (Variance, FrechetVariance) else kind(ball).covariance(vector)
    made = [release(x, ball, **privacy.parameters(), about=about, simulate=rng) for _ in range(runs)]
    errors = np.array([float(np.linalg.norm(np.atleast_1d(each.value - truth))) for each in made])
    for q in (0.5, 0.95):
        within = np.mean([error <= each.error_quantile(q) for error, each in zip(errors, made, strict=True)])
        assert within >= q - 5.0 * math.sqrt(q * (1.0 - q) / runs)
    assert errors.mean() <= np.mean([each.expected_error() for each in made]) + 5.0 * errors.std() / math.sqrt(runs)
    if kind is Variance:
        # nothing is removed here, so the bound is the truth
        assert errors.mean() == pytest.approx(made[0].expected_error(), abs=5.0 * errors.std() / math.sqrt(runs))


@pytest.mark.slow
@pytest.mark.parametrize("runs", longer([100, 400], [100]))
@pytest.mark.parametrize("about", ["center", "mean"])
def test_one_sided_bounds_hold_as_often_as_said(about: Any, runs: int) -> None:
    ball, rng = Ball(SPD(2), np.eye(2), 1.5), np.random.default_rng(7)
    x = spread_out(ball, 300, [0.5, 0.2, 0.1], [0.2, 0.3, 0.0])
    q = 0.9
    variance = (Variance if about == "center" else FrechetVariance)(ball).compute(x, 300)[0]
    kind = (SecondMoment if about == "center" else Covariance)(ball)
    trace = float(np.trace(kind.covariance(kind.compute(x, 300))))
    above = [private_variance(x, ball, 1.0, about=about, simulate=rng).upper(q) >= variance for _ in range(runs)]
    assert np.mean(above) >= q - 5.0 * math.sqrt(q * (1.0 - q) / runs)
    traces = [private_covariance(x, ball, 1.0, about=about, simulate=rng).upper_traces(q)[1] >= trace for _ in range(runs)]
    assert np.mean(traces) >= q - 5.0 * math.sqrt(q * (1.0 - q) / runs)
    if about == "center":  # both are quantiles then, not bounds
        assert max(np.mean(above), np.mean(traces)) <= q + 5.0 * math.sqrt(q * (1.0 - q) / runs)


@pytest.mark.parametrize("manifold", [Sphere(2), SPD(2), SPD(3), SPD(6), Rotations(4)], ids=str)
def test_at_one_and_a_millionth_the_covariance_errs_less_than_with_gaussian_noise(manifold: Manifold) -> None:
    """The Gaussian mechanism with the exact scale of Balle and Wang (2018), for the same sensitivity."""
    for kind in (SecondMoment, Covariance):
        statistic = kind(ball_of(manifold))
        asked = ApproximateDP(1.0, 1e-6)
        ours = planned(statistic, 1000, asked).noise.expected_error()
        assert ours < planned(statistic, 1000, asked, law="gaussian").noise.expected_error()


@every_statistic
def test_a_receipt_is_read_back_and_one_that_contradicts_itself_is_refused(kind: Any, tmp_path: Any) -> None:
    ball = Ball(SPD(2), np.eye(2), 1.5)
    x = spread_out(ball, 300, 0.3)
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("data", epsilon="2")
    release = private_variance if kind in (Variance, FrechetVariance) else private_covariance
    about = "center" if kind in (Variance, SecondMoment) else "mean"
    made = release(x, ball, 0.5, about=about, ledger=ledger, dataset="data")
    assert ledger.check_receipt(made.to_json()) is None
    assert str(ledger.remaining("data")) == "1.5"
    again = Release.from_json(made.to_json())
    assert type(again) is type(made)
    assert isinstance(again, VarianceRelease | CovarianceRelease)
    assert np.array_equal(again.value, made.value)
    assert again.about == about
    assert str(again) == str(made)
    stored = json.loads(made.to_json())
    wrong = {
        "sensitivity": 0.5 * made.sensitivity,
        "value": (1.5 * made.value + 0.1).tolist(),
        "scale": 0.5 * made.scale,
        "radius": None,
    }
    for name, value in wrong.items():
        with pytest.raises(ValueError, match="this is not the JSON text of a release"):
            Release.from_json(json.dumps(stored | {name: value}))


@pytest.mark.parametrize("release", [private_variance, private_covariance])
def test_bad_input_gets_one_sentence(release: Callable[..., Any]) -> None:
    ball = Ball(Sphere(2), Sphere(2).origin, 1.0)
    x = spread_out(ball, 10, 0.1)
    with pytest.raises(ValueError, match=r"^about must be one of center, mean but is 'median'$"):
        release(x, ball, 1.0, about="median")
    with pytest.raises(TypeError, match="the ball must be a Ball but is of type Sphere"):
        release(x, Sphere(2), 1.0)
    with pytest.raises(ValueError, match="x has shape"):
        release(x[:, :2], ball, 1.0)
    with pytest.raises(ValueError, match="exactly one of epsilon"):
        release(x, ball, 1.0, rho=1.0)
    made = private_covariance(x, ball, 1.0)
    with pytest.raises(ValueError, match=r"^there are only 2 components on Sphere\(2\), but k is 3$"):
        made.components(3)
    for bound in (made.upper_traces, private_variance(x, ball, 1.0).upper):
        for q in (0.4, 1.0, 2.0, math.nan):
            with pytest.raises(ValueError, match=f"^the probability q of an upper bound must be at least 0.5 .* but is {q:g}: "):
                bound(q)
        with pytest.raises(ValueError, match=r"^the probability q must be a number"):
            bound("a")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- components


@pytest.mark.slow
@pytest.mark.parametrize("about", longer(["center", "mean"], ["center"]))
@pytest.mark.parametrize("privacy", longer([PureDP(1.0), GaussianDP(0.3)], [PureDP(1.0)]), ids=str)
@pytest.mark.parametrize("runs", longer([500, 1500], [500]))
def test_noise_alone_exceeds_its_level_as_rarely_as_said(about: Any, privacy: Privacy, runs: int) -> None:
    """All records are the centre, so that every eigenvalue is noise: about the centre one in twenty exceeds the level."""
    ball, rng = Ball(SPD(2), np.eye(2), 1.0), np.random.default_rng(8)
    x = np.tile(np.eye(2), (50, 1, 1))
    made = [private_covariance(x, ball, **privacy.parameters(), about=about, simulate=rng) for _ in range(runs)]
    raw = np.array([each.statistic.covariance(each.vector) for each in made])
    exceeded = np.mean(np.abs(np.linalg.eigvalsh(raw)).max(axis=-1) > [each.level for each in made])
    error = 5.0 * math.sqrt(0.05 * 0.95 / runs)
    assert exceeded <= 0.05 + error
    if about == "center":
        assert exceeded >= 0.05 - error
    meaningful = np.mean([each.components().meaningful.any() for each in made])
    assert meaningful <= 0.05 + error


def test_the_law_of_the_largest_eigenvalue_is_that_of_drawn_noise() -> None:
    """The quantile by the product of a length and a random direction, against matrices of noise drawn in full."""
    from geodp.manifolds.functions import symmetric_from_vector
    from geodp.noise.flat import FlatNoise
    from geodp.noise.parts import norm_quantile, part_quantile

    for family in ("laplace", "gaussian"):
        noise = FlatNoise(6 + 3, 0.7, family)  # both are families
        drawn = noise.sample(40_000, np.random.default_rng(9))
        norms = np.abs(np.linalg.eigvalsh(symmetric_from_vector(drawn[:, :6], 3))).max(axis=-1)
        lengths = np.linalg.vector_norm(drawn[:, 6:], axis=-1)
        for q in (0.5, 0.95):
            # four thousand spectra: a standard error of 0.005 in the median, which the tolerance is five times
            assert np.mean(norms <= norm_quantile(noise, 3, q)) == pytest.approx(q, abs=0.02)
            assert np.mean(lengths <= part_quantile(noise, 3, q)) == pytest.approx(q, abs=0.02)


@pytest.mark.parametrize("manifold", [Euclidean(3), Sphere(3), SPD(2), Hyperbolic(3)], ids=str)
def test_principal_geodesics_are_those_of_the_population(manifold: Manifold) -> None:
    """With hardly any noise: directions, deviations and shares of a normal law in the tangent space at the mean."""
    ball = Ball(manifold, manifold.origin, 1.5)
    turn = np.linalg.qr(np.random.default_rng(10).normal(size=(3, 3)))[0]
    deviations = np.array([0.3, 0.15, 0.05])
    u = np.random.default_rng(11).normal(size=(60_000, 3)) * deviations @ turn.T
    release = private_covariance(placed(ball, u), ball, 1000.0, about="mean", simulate=np.random.default_rng(0))
    found = release.components(2)
    assert len(found) == 2
    assert found.standard_deviations == pytest.approx(deviations[:2], rel=0.02)
    assert found.shares == pytest.approx(deviations[:2] ** 2 / (deviations**2).sum(), abs=0.01)
    assert np.abs(np.vecdot(found.coordinates, turn.T[:2])) == pytest.approx(1.0, abs=1e-3)
    assert found.meaningful.all()
    for i in range(2):
        ends = found.geodesic(i, [-1.0, 0.0, 2.0])
        assert np.allclose(ends[1], release.base, atol=1e-12)
        assert manifold.dist(ends[0], release.base) == pytest.approx(deviations[i], rel=0.02)
        assert manifold.dist(ends[0], ends[2]) == pytest.approx(3.0 * manifold.dist(ends[0], release.base), rel=1e-6)


def test_about_a_mean_away_from_the_centre_directions_are_carried_by_the_differential_of_exp() -> None:
    """On the plane nothing changes; on the sphere a step across a way of length a becomes shorter by sin(a)/a."""
    for manifold, shrunk in ((Euclidean(2), 1.0), (Sphere(2), math.sin(0.8) / 0.8)):
        ball = Ball(manifold, manifold.origin, 1.4)
        u = np.array([[0.8, 0.2], [0.8, -0.2]] * 500)
        release = private_covariance(placed(ball, u), ball, 1e6, about="mean", simulate=np.random.default_rng(0))
        found = release.components(1)
        assert np.allclose(release.mean, [0.8, 0.0], atol=1e-3)
        assert float(manifold.norm(found.base, found.tangents[0])) == pytest.approx(0.2 * shrunk, rel=1e-2)


# ---------------------------------------------------------------------- audits


def two_data_sets(ball: Ball, n: int) -> tuple[Array, Array]:
    """Neighbours as far apart as can be: half of the others lie along one axis, half along another, and the last one turns."""
    r, axes = ball.radius, np.eye(ball.manifold.dim)[:2]
    rows = np.repeat(r * axes, (n - 1) // 2, axis=0)
    first, second = (placed(ball, np.concatenate([rows, r * axes[i : i + 1]])) for i in range(2))
    return first, second


def run(
    statistic: SecondMoment, n: int, privacy: Privacy, fault: str | None, exact: bool,
    pair: tuple[Array, Array], vectors: tuple[Array, Array], x: Array, size: int, rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Runs of the release on one of the data sets of the pair, whose records as vectors are ``x``."""
    noise = planned(statistic, n, privacy).noise
    records = pair[0] if np.array_equal(x, vectors[0]) else pair[1]
    value = statistic.compute(records, n)
    if fault is not None:
        noise = replace(
            noise, scale=noise.scale * {"half the noise": 0.5, "the sensitivity of one dimension": math.sqrt(0.5)}[fault]
        )
    if not exact:
        return noise.simulate(value, size, rng)
    from geodp.arithmetic.entropy import NotPrivate

    entropy = NotPrivate(int(rng.integers(2**62)))
    return np.stack([noise.draw(value, entropy).value for _ in range(size)])


@pytest.mark.parametrize(
    "privacy", longer([PureDP(1.0), ApproximateDP(1.0, 1e-3), GaussianDP(0.8), ZeroConcentratedDP(0.5)], [PureDP(1.0)]), ids=str
)
@pytest.mark.parametrize("fault", [None, "half the noise", "the sensitivity of one dimension"])
def test_audits_acquit_the_covariance_and_convict_its_broken_twins(privacy: Privacy, fault: str | None) -> None:
    """A covariance is a mean of vectors of outer products, in a ball that holds those of the pair: so the audit of means serves.

    Each audit is wrong with probability below 1e-6; that faults are found is certain for these seeds.
    """
    ball, n = Ball(Sphere(2), Sphere(2).origin, 1.2), 21
    statistic, pair = SecondMoment(ball), two_data_sets(ball, 21)
    u = [ball.manifold.coordinates(ball.center, ball.manifold.log(ball.center, x)) for x in pair]
    vectors = tuple(vector_from_symmetric(rows[:, :, None] * rows[:, None, :]) for rows in u)
    middle = 0.5 * (vectors[0][-1] + vectors[1][-1])
    flat = Ball(Euclidean(3), middle, ball.radius**2 / math.sqrt(2.0) * (1.0 + 1e-9))
    mechanism = partial(run, statistic, n, privacy, fault, False, pair, vectors)
    result = audit(
        flat, mechanism=mechanism, pair=vectors, **privacy.parameters(), draws=100_000, seed=3, confidence=1.0 - 1e-6,
        events=("law", "array", "atoms"),
    )  # fmt: skip
    assert result.distance == pytest.approx(statistic.sensitivity(n), rel=1e-9)
    assert result.consistent == (fault is None)


@pytest.mark.slow
def test_the_exact_draws_of_a_covariance_hide_their_last_bits() -> None:
    ball, n, privacy = Ball(Sphere(2), Sphere(2).origin, 1.2), 21, PureDP(1.0)
    statistic, pair = SecondMoment(ball), two_data_sets(ball, 21)
    u = [ball.manifold.coordinates(ball.center, ball.manifold.log(ball.center, x)) for x in pair]
    vectors = tuple(vector_from_symmetric(rows[:, :, None] * rows[:, None, :]) for rows in u)
    flat = Ball(Euclidean(3), 0.5 * (vectors[0][-1] + vectors[1][-1]), ball.radius**2 / math.sqrt(2.0) * (1.0 + 1e-9))
    mechanism = partial(run, statistic, n, privacy, None, True, pair, vectors)
    result = audit(flat, mechanism=mechanism, pair=vectors, epsilon=1.0, draws=6_000, seed=3, confidence=1.0 - 1e-6)
    assert result.consistent


def worst_pair(kind: Any, ball: Ball, n: int) -> tuple[Array, Array]:
    """Neighbours about as far apart as can be, for each statistic."""
    first, second = np.zeros((n, 2)), np.zeros((n, 2))
    cosine = -0.5 * WEIGHT**2
    first[-1] = ball.radius * np.eye(2)[0]
    if kind is FrechetVariance:
        first[:-1] = second[:] = -first[-1]
    elif kind is Covariance:
        second[-1] = ball.radius * np.array([cosine, math.sqrt(1.0 - cosine**2)])
    return placed(ball, first), placed(ball, second)


@pytest.mark.parametrize(
    "kind", longer([Variance, FrechetVariance, Covariance], [FrechetVariance]), ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("half", [False, True], ids=["as claimed", "half the noise"])
def test_audits_acquit_the_others_too_and_convict_half_the_noise(kind: Any, half: bool) -> None:
    """Their two values are audited as means of one record each, in the ball that has them at opposite ends."""
    ball, n, privacy = Ball(Hyperbolic(2), Hyperbolic(2).origin, 1.2), 101, PureDP(1.0)
    pair = worst_pair(kind, ball, n)
    values = [kind(ball).compute(x, n) for x in pair]
    distance = float(np.linalg.vector_norm(values[0] - values[1]))
    assert 0.98 <= distance / kind(ball).sensitivity(n) <= 1.0
    noise = planned(kind(ball), n, privacy).noise
    noise = replace(noise, scale=0.5 * noise.scale) if half else noise

    def mechanism(x: Array, size: int, rng: np.random.Generator) -> Array:
        return noise.simulate(x[0], size, rng)

    flat = Ball(Euclidean(len(values[0])), 0.5 * (values[0] + values[1]), 0.5 * distance * (1.0 + 1e-9))
    result = audit(
        flat, mechanism=mechanism, pair=(values[0][None], values[1][None]), epsilon=1.0, draws=100_000, seed=3,
        confidence=1.0 - 1e-6, events=("law", "array", "atoms"),
    )  # fmt: skip
    assert result.consistent == (not half)


# ---------------------------------------------------------------------- nothing else leaves


@every_statistic
def test_one_odd_record_changes_nothing_but_the_value(kind: Any) -> None:
    ball = Ball(Product(SPD(2), PlanarShapes(4)), Product(SPD(2), PlanarShapes(4)).origin, 0.7)
    x = random_points(ball.manifold, 200, np.random.default_rng(12), 0.3)
    release = private_variance if kind in (Variance, FrechetVariance) else private_covariance
    about = "center" if kind in (Variance, SecondMoment) else "mean"
    odd = [np.nan, np.inf, 1e300, 0.0]
    kept = json.loads(release(x, ball, 1.0, about=about).to_json())
    for value in odd:
        y = x.copy()
        y[7] = value
        made = json.loads(release(y, ball, 1.0, about=about).to_json())
        # the value, and what is computed from it
        for name in set(kept) - {"value", "draws", "error", "verdict", "in_units"}:
            assert made[name] == kept[name]


@every_statistic
def test_a_record_that_is_no_point_counts_as_the_centre(kind: Any) -> None:
    ball = Ball(SPD(3), 2.0 * np.eye(3), 1.0)
    x = random_points(SPD(3), 60, np.random.default_rng(13), 0.4)
    invalid, center = x.copy(), x.copy()
    invalid[5], center[5] = np.nan, ball.center
    assert np.allclose(kind(ball).compute(invalid, 60), kind(ball).compute(center, 60), rtol=0.0, atol=1e-13)


def test_a_mean_and_a_spread_are_charged_one_by_one(tmp_path: Any) -> None:
    ball = Ball(Sphere(2), Sphere(2).origin, 1.0)
    x = spread_out(ball, 200, 0.2)
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.open("data", rho="0.1")
    private_mean(x, ball, rho=0.04, ledger=ledger, dataset="data")
    private_covariance(x, ball, rho=0.04, about="mean", ledger=ledger, dataset="data")
    with pytest.raises(Exception, match="left"):
        private_variance(x, ball, rho=0.04, ledger=ledger, dataset="data")


# ---------------------------------------------------------------------- persons, private numbers, groups


@every_statistic
def test_of_persons_it_is_the_spread_of_their_means(kind: Any) -> None:
    """In flat space a person's mean is a plain average, so that the statistic of averages is the same."""
    ball = Ball(Euclidean(2), np.zeros(2), 2.0)
    x, ids = np.random.default_rng(14).normal(size=(300, 2)) * 0.3, np.repeat(np.arange(100), 3)
    release = private_variance if kind in (Variance, FrechetVariance) else private_covariance
    about: Any = "center" if kind in (Variance, SecondMoment) else "mean"
    made = release(x, ball, 1e9, about=about, unit=ids, simulate=np.random.default_rng(0))
    assert (made.n, made.unit, made.neighbours) == (100, "person", "replace one person")
    averages = x.reshape(100, 3, 2).mean(axis=1)
    expected = kind(ball).compute(averages, 100)
    assert made.vector == pytest.approx(expected, abs=1e-6)
    assert made.sensitivity == kind(ball).sensitivity(100)
    assert np.array_equal(Release.from_json(made.to_json()).value, made.value)


def test_groups_and_private_numbers_are_released_like_those_of_means() -> None:
    ball = Ball(Sphere(2), Sphere(2).origin, 1.0)
    x = spread_out(ball, 900, 0.2)
    groups = private_covariance(x, ball, 1.0, by=np.repeat(["a", "b", "c"], 300))
    assert {name: release.n for name, release in groups.items()} == {"a": 300, "b": 300, "c": 300}
    assert groups.cost.epsilon == pytest.approx(1.0)
    counted = private_variance(x, ball, 1.0, neighbours="add-remove", about="mean")
    assert counted.count is not None
    assert counted.standard_deviation == pytest.approx(0.28, abs=0.1)
    assert Release.from_json(counted.to_json()).count is not None


# ---------------------------------------------------------------------- the command line


def run_command(*arguments: object) -> Any:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(argument) for argument in arguments])


def test_the_commands_print_store_and_draw(tmp_path: Path) -> None:
    ball = Ball(SPD(2), np.eye(2), 1.5)
    np.save(tmp_path / "x.npy", spread_out(ball, 400, [0.4, 0.2, 0.1]))
    where = (tmp_path / "x.npy", "-m", "SPD(2)", "-r", 1.5)
    for command, head in (("variance", "PRIVATE VARIANCE"), ("covariance", "PRIVATE COVARIANCE")):
        plain = run_command(command, *where, "-e", 1)
        assert plain.exit_code == 0
        assert plain.stdout.startswith(f"{head} ABOUT THE CENTRE\n")
        stored = run_command(command, *where, "--rho", 0.1, "--about", "mean", "--json", "--out", tmp_path / f"{command}.json")
        assert json.loads(stored.stdout)["rho"] == 0.1
        assert (tmp_path / f"{command}.json").read_text() == stored.stdout
        assert run_command("receipt", tmp_path / f"{command}.json").stdout.startswith(f"{head}\n")
        assert "about must be one of" in run_command(command, *where, "-e", 1, "--about", "median").stderr
    drawn = run_command("covariance", *where, "-e", 1, "--plot", tmp_path / "geodesics.png")
    assert drawn.exit_code == 0
    assert (tmp_path / "geodesics.png").read_bytes().startswith(b"\x89PNG")
    refused = run_command("covariance", *where, "-e", 1, "--by", "group", "--plot", tmp_path / "other.png")
    assert "leave out --by" in refused.stderr


def test_two_stored_means_are_compared(tmp_path: Path) -> None:
    ball = Ball(SPD(2), np.eye(2), 1.5)
    for name, mean in (("a", 0.0), ("b", 0.5)):
        x = spread_out(ball, 500, 0.2, mean)
        (tmp_path / f"{name}.json").write_text(private_mean(x, ball, 1.0).to_json())
        (tmp_path / f"{name}-spread.json").write_text(private_covariance(x, ball, 1.0).to_json())
    files = tmp_path / "a.json", tmp_path / "b.json"
    spreads = "--first-spread", tmp_path / "a-spread.json", "--second-spread", tmp_path / "b-spread.json"
    said = json.loads(run_command("compare", *files, *spreads, "--json").stdout)
    assert said["p_value"] < 0.001
    assert said["spread_known"] == [True, True]
    assert run_command("compare", *files).stdout.startswith("COMPARISON OF TWO PRIVATE MEANS\n")
    wrong = run_command("compare", tmp_path / "a.json", tmp_path / "a-spread.json")
    assert wrong.exit_code == 2
    assert "must be a release of private_mean but is of a covariance about the centre" in wrong.stderr
    assert run_command("compare", tmp_path / "a.json", tmp_path / "none.json").exit_code == 2


@pytest.mark.parametrize("release", [private_variance, private_covariance])
@pytest.mark.parametrize("radius", [1e100, 1e99, 1e-99, 1e-100])
def test_a_radius_whose_square_floats_cannot_hide_is_named_as_the_cause(release: Any, radius: float) -> None:
    with pytest.raises(
        ValueError, match=rf"^the radius must be between 1e-60 and 1e\+60 for .* but is {re.escape(f'{radius:g}')}:"
    ):
        release(np.zeros((50, 2)), Ball(Euclidean(2), [0.0, 0.0], radius), 1.0)
    for limit in (1e-60, 1e60):
        release(np.zeros((50, 2)), Ball(Euclidean(2), [0.0, 0.0], limit), 1.0)


# ---------------------------------------------------------------------- pictures


@pytest.mark.parametrize("manifold", longer([SPD(2), SPD(3), Sphere(2), PlanarShapes(4), Rotations(3)], [Sphere(2)]), ids=str)
def test_every_kind_of_principal_geodesic_can_be_drawn(manifold: Manifold, tmp_path: Path) -> None:
    ball = ball_of(manifold, 0.8)
    x, rng = spread_out(ball, 300, 0.1), np.random.default_rng(0)
    covariance = private_covariance(x, ball, 1.0, about="mean", simulate=rng)
    principal_geodesics(covariance.components(), tmp_path / "geodesics.svg")
    region = confidence_region(private_mean(x, ball, 1.0, simulate=rng), covariance)
    confidence_regions({"all": region}, tmp_path / "region.svg")
    assert str(covariance.components()).startswith(SIMULATION)
    assert not str(private_covariance(x, ball, 1.0).components()).startswith(SIMULATION)
    for name in ("geodesics", "region"):
        assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()
