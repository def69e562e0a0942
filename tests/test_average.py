"""Ordinary averages: sensitivities, nearest points, values, errors, audits, and every way to ask for them.

Random tests fix their seeds. Frequencies are compared with five standard errors: a false alarm has probability below 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import longer, planned, random_points
from typer.testing import CliRunner

import geodp
from geodp import (
    HPD,
    SPD,
    Ball,
    Correlation,
    Dataset,
    Euclidean,
    GroupedRelease,
    Manifold,
    Release,
    Session,
    Simplex,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    frechet_mean,
    private_average,
)
from geodp.auditing import audit
from geodp.cli import app
from geodp.inputs import Array
from geodp.manifolds import ConvexSet
from geodp.privacy.notions import ApproximateDP, GaussianDP, Privacy, PureDP, ZeroConcentratedDP
from geodp.statistics.average import Average, AverageRelease

#: Every convex set, with a bound where there must be one.
MATRICES = [SPD(1), SPD(2), SPD(3), HPD(1), HPD(2), SPDLogEuclidean(2), SPDLogCholesky(2)]
AVERAGES = [
    *(Average(manifold, 1.7) for manifold in MATRICES),
    *map(Average, (Simplex(2), Simplex(4), Simplex(3, floor=0.2), Correlation(2), Correlation(4), Correlation(4, shrink=0.4))),
]
every_average = pytest.mark.parametrize("average", longer(AVERAGES, AVERAGES[1::3]), ids=lambda each: str(each.manifold))
NOTIONS: list[Privacy] = [PureDP(1.0), ApproximateDP(1.0, 1e-6), ZeroConcentratedDP(0.05), GaussianDP(0.3)]


def convex(average: Average) -> ConvexSet:
    assert isinstance(average.space, ConvexSet)
    return average.space


def record(manifold: Manifold, numbers: Array) -> Array:
    """A point for any numbers, as far out as they are large."""
    if isinstance(manifold, Simplex):
        parts = np.exp(np.clip(numbers, -30.0, 30.0) * 10.0)
        return np.asarray((1.0 + manifold.parts * manifold.floor * 0.999) * parts / parts.sum() - manifold.floor * 0.999)
    if isinstance(manifold, HPD):
        factor = numbers.reshape(manifold.k, manifold.k, 2)
        z = factor[..., 0] + 1j * factor[..., 1]
        return HPD.from_complex(z @ z.conj().T + 1e-9 * np.eye(manifold.k))
    k = manifold.point_shape[0]
    factor = numbers.reshape(k, k)
    if not isinstance(manifold, Correlation):
        return np.asarray(factor @ factor.T + 1e-9 * np.eye(k))
    least, factor = -0.999 * manifold.shrink / (1.0 - manifold.shrink), factor / np.linalg.norm(factor, axis=1, keepdims=True)
    return np.asarray((1.0 - least - 1e-9) * factor @ factor.T + (least + 1e-9) * np.eye(k))


def climb(moved: Callable[[Array], float], start: Array, rng: np.random.Generator, steps: int) -> float:
    best, at, size = moved(start), start, 1.0
    for _ in range(steps):
        tried = at + size * rng.normal(size=at.shape)
        found = moved(tried)
        best, at, size = (found, tried, size * 1.2) if found > best else (best, at, max(size * 0.97, 1e-3))
    return best


# ---------------------------------------------------------------------- how far one record moves them


@every_average
def test_an_adversary_reaches_the_sensitivity_to_two_percent_and_no_more(average: Average) -> None:
    manifold, rng = average.manifold, np.random.default_rng(3)

    def moved(numbers: Array) -> float:
        pair = np.stack([record(manifold, each) for each in numbers])
        assert manifold.valid(pair).all()
        first, second = (average.compute(np.stack([pair[0], last]), 2) for last in pair)
        return float(np.linalg.vector_norm(first - second))

    size = math.prod(manifold.point_shape)
    found = [climb(moved, rng.normal(size=(2, size)), rng, 800) for _ in range(2)]
    assert max(found) <= average.sensitivity(2) + 2.0 * average.tolerance()
    assert max(found) >= 0.98 * average.sensitivity(2)


def odd(manifold: Manifold) -> Array:
    """Records that try to leave the set: no points, huge and tiny ones, and arrays that charts read as coordinates."""
    size, origin = math.prod(manifold.point_shape), manifold.origin.ravel()
    rng = np.random.default_rng(4)
    numbers = [np.full(size, each) for each in (np.nan, np.inf, -np.inf, 0.0, 1e308, -1e308, 5e-324, 1.0, -1.0)]
    numbers += [each * origin for each in (1e308, 2.0**1000, 1e-308, -1.0, 1.0 + 5e-9)]
    numbers += [scale * rng.normal(size=size) for scale in (1.0, 1e3, 1e200)]
    for each in list(numbers):
        numbers.append(each.copy())
        numbers[-1][-1] = 2.0**1000
    return np.stack(numbers).reshape(-1, *manifold.point_shape)


@every_average
def test_no_array_whatever_leaves_the_set(average: Average) -> None:
    x = odd(average.manifold)
    with np.errstate(all="ignore"):
        vectors = np.stack([average.compute(np.stack([x[0], each]), 2) for each in x])
    apart = np.linalg.vector_norm(vectors[:, None] - vectors, axis=-1)
    assert np.isfinite(apart).all()
    assert apart.max() <= average.sensitivity(2) + 2.0 * average.tolerance()


def test_orthogonal_signs_are_as_far_apart_as_correlations_get_and_almost_so_for_odd_sizes() -> None:
    for k in (2, 3, 4, 5, 8):
        signs = np.ones(k), np.where(np.arange(k) < k // 2, -1.0, 1.0)
        first, second = (0.999999 * (np.outer(sign, sign) - np.eye(k)) + np.eye(k) for sign in signs)
        average = Average(Correlation(k))
        apart = np.linalg.vector_norm(np.subtract(*(average.compute(each[None], 1) for each in (first, second))))
        assert apart == pytest.approx(math.sqrt(2.0 * k**2 - (0.0 if k % 2 == 0 else 2.0)), rel=1e-5)
        assert apart <= average.sensitivity(1)


# ---------------------------------------------------------------------- nearest points


def inside(average: Average, count: int, rng: np.random.Generator) -> Array:
    """Vectors of the set, its edges among them."""
    size = math.prod(average.manifold.point_shape)
    scales = rng.choice([0.1, 0.5, 2.0, 10.0], size=count)
    points = [record(average.manifold, scale * rng.normal(size=size)) for scale in scales]
    return convex(average).write(average.manifold.raw_project(np.stack(points)))


@every_average
def test_nearest_points_are_in_the_set_and_the_whole_set_lies_behind_them(average: Average) -> None:
    """Kolmogorov's criterion, which only the nearest point meets; far away it is enough that no point of the set gets farther."""
    space, rng = convex(average), np.random.default_rng(5)
    others = inside(average, 400, rng)
    for size in (0.01, 0.3, 0.6, 5.0, 1e4):
        vector = size * space.diameter * rng.normal(size=space.dim) / math.sqrt(space.dim)
        point = space.nearest(vector)
        written = space.write(point)
        before, after = (np.linalg.vector_norm(others - each, axis=-1) for each in (vector, written))
        assert (after <= before + 1e-9 * space.diameter).all()
        assert np.linalg.vector_norm(written - others, axis=-1).max() <= space.diameter * (1.0 + 1e-9)
        if size < 1.0:
            assert ((vector - written) @ (others - written).T).max() <= 1e-8 * space.diameter**2
        again = space.nearest(written)
        assert np.abs(again - point).max() <= 1e-8 * max(1.0, np.abs(point).max())


def test_the_nearest_correlation_matrix_is_the_published_one() -> None:
    """Higham (2002), section 4."""
    matrix = 2.0 * np.eye(4) - np.eye(4, k=1) - np.eye(4, k=-1)
    space = convex(Average(Correlation(4)))
    found = space.nearest(Correlation(4).raw_coordinates(np.eye(4), matrix))
    assert found[0] == pytest.approx([1.0, -0.8084, 0.1916, 0.1068], abs=5e-5)
    assert found[1, 2] == pytest.approx(-0.6562, abs=5e-5)
    assert np.linalg.eigvalsh(found)[0] == pytest.approx(0.0, abs=1e-9)


# ---------------------------------------------------------------------- what they are


def test_it_is_the_average_of_shortened_records_and_no_point_counts_as_the_origin() -> None:
    x = random_points(SPD(3), 50, np.random.default_rng(6), 1.5)
    x[3], x[7] = np.nan, -np.eye(3)
    shortened = [(np.eye(3) if i in (3, 7) else each) for i, each in enumerate(x)]
    shortened = [each * min(1.0, 2.0 / float(np.linalg.norm(each))) for each in shortened]
    average = Average(SPD(3), 2.0)
    assert average.value(average.compute(x, 50)) == pytest.approx(np.mean(shortened, axis=0), abs=1e-9)
    shares = np.random.default_rng(7).dirichlet([3.0, 2.0, 1.0], size=40)
    assert (each := Average(Simplex(3))).value(each.compute(shares, 40)) == pytest.approx(shares.mean(axis=0), abs=1e-9)
    matrices = random_points(Correlation(4), 30, np.random.default_rng(8), 1.0)
    assert (each := Average(Correlation(4))).value(each.compute(matrices, 30)) == pytest.approx(matrices.mean(axis=0), abs=1e-9)


def test_singular_matrices_and_zero_shares_are_records_like_any_others() -> None:
    signals = np.random.default_rng(16).normal(size=(40, 5, 3))
    shares = np.random.default_rng(17).dirichlet([1.0, 1.0, 1.0], size=40) * [1.0, 1.0, 0.0]
    cases: list[tuple[Average, Array]] = [
        (Average(SPD(5), 1e3), signals @ signals.mT),
        (Average(SPD(5), 1e-9), 1e-12 * signals @ signals.mT),
        (Average(SPDLogCholesky(5), 1e3), signals @ signals.mT),
        (Average(Simplex(3)), shares / shares.sum(axis=1, keepdims=True)),
        (Average(Correlation(5)), np.stack([np.corrcoef(each) for each in signals])),
    ]
    for average, x in cases:
        assert not average.manifold.valid(x).all()
        found = average.value(average.compute(x, 40))
        assert np.linalg.norm(found - x.mean(axis=0)) <= average.tolerance()
    assert np.array_equal(Average(SPD(2), 1.0).compute(np.zeros((3, 2, 2)), 3).round(9), np.zeros(3))


def test_the_metric_does_not_matter() -> None:
    x = random_points(SPD(2), 30, np.random.default_rng(9), 1.0)
    first, *others = (Average(kind(2), 3.0).compute(x, 30) for kind in (SPD, SPDLogEuclidean, SPDLogCholesky))
    assert all(np.array_equal(first, other) for other in others)


def test_the_frechet_mean_is_another_and_smaller_one() -> None:
    """By the inequality of arithmetic and geometric means, for numbers; for shipped tensors it is seen."""
    x = geodp.data.load("dti_tensors")
    mean = frechet_mean(x, Ball(SPD(3), np.eye(3), 10.0)).point
    average = Average(SPD(3), 10.0)
    found = average.value(average.compute(x, len(x)))
    assert found == pytest.approx(x.mean(axis=0), abs=1e-9)
    assert np.linalg.eigvalsh(found - mean)[0] > 0.0


# ---------------------------------------------------------------------- releases


CASES = [
    (Average(SPD(2), 3.0), lambda rng: random_points(SPD(2), 300, rng, 0.7)),
    (Average(Simplex(4)), lambda rng: rng.dirichlet([8.0, 1.0, 0.2, 0.1], size=300)),
    (Average(Correlation(3)), lambda rng: random_points(Correlation(3), 300, rng, 1.5)),
]


@pytest.mark.parametrize(("average", "records"), CASES, ids=lambda each: str(getattr(each, "manifold", "")))
@pytest.mark.parametrize("privacy", longer(NOTIONS, NOTIONS[:1]), ids=str)
def test_the_truth_is_within_the_error_as_often_as_said(average: Average, records: Any, privacy: Privacy) -> None:
    rng = np.random.default_rng(10)
    x, runs = records(rng), 200
    truth = average.value(average.compute(x, 300))
    made = [
        private_average(x, average.manifold, **privacy.parameters(), bound=average.bound, simulate=rng, anyway=True)
        for _ in range(runs)
    ]
    errors = np.array([float(np.linalg.norm(each.value - truth)) for each in made])
    for q in (0.5, 0.95):
        within = np.mean([error <= each.error_quantile(q) for error, each in zip(errors, made, strict=True)])
        assert within >= q - 5.0 * math.sqrt(q * (1.0 - q) / runs)
    assert errors.mean() <= made[0].expected_error() + 5.0 * errors.std() / math.sqrt(runs)


def test_where_nothing_is_moved_the_error_is_the_length_of_the_noise() -> None:
    rng = np.random.default_rng(11)
    x = np.tile(np.eye(2), (2000, 1, 1))
    made = [private_average(x, SPD(2), epsilon=1.0, bound=10.0, simulate=rng) for _ in range(400)]
    errors = np.array([float(np.linalg.norm(each.value - np.eye(2))) for each in made])
    assert errors.mean() == pytest.approx(made[0].expected_error(), abs=5.0 * errors.std() / 20.0)
    assert np.mean(errors <= made[0].error_quantile(0.5)) == pytest.approx(0.5, abs=5.0 * 0.5 / 20.0)


@pytest.mark.parametrize(("average", "records"), CASES, ids=lambda each: str(getattr(each, "manifold", "")))
def test_receipts_read_back_and_say_what_was_done(average: Average, records: Any) -> None:
    x = records(np.random.default_rng(12))
    release = private_average(x, average.manifold, epsilon=2.0, bound=average.bound)
    assert isinstance(release, AverageRelease)
    again = Release.from_json(release.to_json())
    assert again == release
    assert "not the Fréchet mean" in str(release)
    assert convex(average).norm in str(release)
    assert ("were shortened to it; how many were is unknown" in str(release)) == (average.bound is not None)
    assert "precise" not in release.verdict() or average.bound is None


def test_noise_that_hides_everything_is_refused_before_anything_is_spent() -> None:
    x = np.tile(np.eye(3), (10, 1, 1))
    with pytest.raises(ValueError, match="nothing was released or charged"):
        private_average(x, SPD(3), epsilon=0.01, bound=2.0)
    release = private_average(x, SPD(3), epsilon=0.01, bound=2.0, anyway=True)
    assert release.says_nothing
    assert "as large as the set of all averages" in release.verdict()
    assert release.error_quantile(0.95) == release.expected_error() == math.sqrt(2.0) * 2.0


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda x: private_average(x, SPD(2), 1.0), "needs a bound on the Frobenius norm of a record, such as bound=10"),
        (lambda x: private_average(x, SPD(2), 1.0, bound=-1.0), "the bound must be between"),
        (lambda x: private_average(x, Correlation(2), 1.0, bound=1.0), "bounded by themselves: leave out the bound"),
        (lambda x: private_average(x, Sphere(2), 1.0, bound=1.0), "bounded by themselves: leave out the bound"),
        (lambda x: private_average(x, Euclidean(2), 1.0), "has no average but the Fréchet mean: private_mean"),
    ],
)
def test_bad_input_gets_one_sentence(ask: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ask(np.tile(np.eye(2), (40, 1, 1)))


def test_persons_groups_private_numbers_and_sessions() -> None:
    x = random_points(SPD(2), 600, np.random.default_rng(13), 0.5)
    people = np.repeat(np.arange(300), 2)
    release = private_average(x, SPD(2), 5.0, bound=4.0, unit=people)
    own = np.stack([x[people == each].mean(axis=0) for each in range(300)]).mean(axis=0)
    assert release.n == 300
    assert np.linalg.norm(release.value - own) <= release.error_quantile(1.0 - 1e-9)
    assert "the persons' averages" in str(release)
    hidden = private_average(x, SPD(2), 5.0, bound=4.0, neighbours="add-remove")
    assert hidden.count is not None
    assert Release.from_json(hidden.to_json()) == hidden
    groups = private_average(x, SPD(2), 5.0, bound=4.0, by=["a", "b", "b"] * 200)
    assert {name: each.n for name, each in groups.items()} == {"a": 200, "b": 400}
    assert GroupedRelease.from_json(groups.to_json()) == groups
    session = Session(x, SPD(2), epsilon=3)
    assert session.average(epsilon=1.0, bound=4.0) == session.releases[0]
    assert session.left == 2


def test_files_and_dask_give_what_an_array_gives(tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    x = random_points(SPD(2), 5_000, np.random.default_rng(14), 0.5)
    average = Average(SPD(2), 3.0)
    whole = average.compute(x, len(x))
    np.savetxt(tmp_path / "x.csv", x[:, [0, 0, 1], [0, 1, 1]], delimiter=",", header="xx,xy,yy", comments="", fmt="%.17g")
    file = Dataset.read(tmp_path / "x.csv", SPD(2)).open(SPD(2)).source
    blocks = da.from_array(x, chunks=(700, 2, 2))
    for source in (file, blocks, da.concatenate([blocks[:0], blocks])):
        assert np.linalg.vector_norm(average.compute(source, len(x)) - whole) <= 2.0 * average.tolerance()


def test_the_command_releases_what_the_function_does(tmp_path: Path) -> None:
    x = random_points(SPD(2), 500, np.random.default_rng(15), 0.5)
    np.savetxt(tmp_path / "x.csv", x[:, [0, 0, 1], [0, 1, 1]], delimiter=",", header="xx,xy,yy", comments="")
    given = ["average", str(tmp_path / "x.csv"), "--manifold", "SPD(2)", "--epsilon", "1"]
    refused = CliRunner().invoke(app, given)
    assert refused.exit_code == 2
    assert "--bound" in refused.stderr
    done = CliRunner().invoke(
        app, [*given, "--bound", "3", "--out", str(tmp_path / "average.json"), "--plot", str(tmp_path / "x.png")]
    )
    assert done.exit_code == 0, done.output
    assert "PRIVATE AVERAGE" in done.output
    stored = Release.from_json((tmp_path / "average.json").read_text())
    assert stored.bound == 3.0
    assert np.linalg.norm(stored.value - x.mean(axis=0)) <= stored.error_quantile(1.0 - 1e-9)


def test_plans_show_the_error_beforehand() -> None:
    plan = planned(Average(SPD(3), 2.0), 1000, PureDP(1.0))
    assert plan.sensitivity == pytest.approx(math.sqrt(2.0) * 2.0 / 1000)
    assert plan.expected_error == pytest.approx(6.0 * plan.scale)  # a Gamma law of shape 6
    assert "expected error" in str(plan)
    assert plan.to_dict()["radius"] is None


# ---------------------------------------------------------------------- audits


@pytest.mark.parametrize("privacy", longer(NOTIONS, NOTIONS[:1]), ids=str)
@pytest.mark.parametrize("half", [False, True], ids=["as claimed", "half the noise"])
def test_audits_acquit_the_average_and_convict_half_the_noise(privacy: Privacy, half: bool) -> None:
    """The values of the worst pair are audited as means of one record each, in the ball that has them at opposite ends."""
    average, n = Average(SPD(2), 2.0), 20
    ends = [np.diag(each) for each in ([2.0, 1e-12], [1e-12, 2.0])]
    values = [average.compute(np.stack([*[ends[0]] * (n - 1), end]), n) for end in ends]
    distance = float(np.linalg.vector_norm(values[0] - values[1]))
    assert 0.98 <= distance / average.sensitivity(n) <= 1.0
    noise = planned(average, n, privacy).noise
    noise = replace(noise, scale=0.5 * noise.scale) if half else noise

    def mechanism(x: Array, size: int, rng: np.random.Generator) -> Array:
        return noise.simulate(x[0], size, rng)

    flat = Ball(Euclidean(3), 0.5 * (values[0] + values[1]), 0.5 * distance * (1.0 + 1e-9))
    result = audit(
        flat, mechanism=mechanism, pair=(values[0][None], values[1][None]), **privacy.parameters(), draws=100_000, seed=3,
        confidence=1.0 - 1e-6, events=("law", "array", "atoms"),
    )  # fmt: skip
    assert result.consistent == (not half)
