"""The fast evaluators of the mean do what the general one does, within the rounding both are allowed."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

import mpmath
import numpy as np
import pytest
from cases import longer, random_points

import geodp
from geodp import SPD, Ball, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, SPDLogEuclidean, Sphere, frechet_mean
from geodp.inputs import EPSILON
from geodp.manifolds.functions import vector_from_symmetric
from geodp.solver import compiling, lane_kernels, lanes, passes, round_kernels, small_spd_kernels, spd_kernel
from geodp.solver.compiling import reproducible
from geodp.solver.groups import CompiledGroups, best_group_evaluator
from geodp.solver.records import read_block

FAST = [
    (SPD(2), passes.SmallSPD),
    (SPD(3), passes.SmallSPD),
    (SPD(2), passes.SPDLarge),
    (SPD(3), passes.SPDLarge),
    (SPD(4), passes.SPDLarge),
    (SPD(9), passes.SPDLarge),
    (SPD(4), passes.SPDCompiled),
    (SPD(9), passes.SPDCompiled),
    (SPD(25), passes.SPDCompiled),
    (Sphere(2), passes.Spheres),
    (Rotations(3), passes.Rotations3),
    (Sphere(2), passes.RankOne),
    (Sphere(3, curvature=4.0), passes.RankOne),
    (Sphere(3, curvature=4.0), passes.Spheres),
    (Sphere(40), passes.Spheres),
    (Hyperbolic(2), passes.HyperbolicCompiled),
    (Hyperbolic(5), passes.HyperbolicCompiled),
    (PlanarShapes(3), passes.ShapesCompiled),
    (PlanarShapes(20), passes.ShapesCompiled),
    (Grassmann(1, 3), passes.GrassmannCompiled),
    (Grassmann(2, 5), passes.GrassmannCompiled),
    (Grassmann(3, 10), passes.GrassmannCompiled),
]
every_fast_one = pytest.mark.parametrize(("manifold", "kind"), FAST, ids=lambda case: getattr(case, "__name__", repr(case)))


def unit_of(manifold: Manifold) -> float:
    """A length that is 1 on the unit sphere, and shorter where space is curved more or closes up sooner."""
    return 1.0 / np.sqrt(max(manifold.curvature, (np.pi / manifold.injectivity_radius) ** 2, 1.0))


def setting(manifold: Manifold, count: int = 1000) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(manifold.dim)
    spread = 0.9 * unit_of(manifold)
    return random_points(manifold, count, rng, spread), random_points(manifold, 1, rng, 0.3 * spread)[0], rng


def allowed(manifold: Manifold, p: np.ndarray, result: passes.Pass) -> float:
    """Twice what either evaluator may be off by, a unit of weight."""
    return 4.0 * (manifold.log_rounding(p, result.reach) + passes.sum_rounding(result.reach))


@every_fast_one
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fast_pass_equals_the_general_one(manifold: Manifold, kind: type[passes.Evaluator], weighted: bool) -> None:
    x, p, rng = setting(manifold)
    weights = rng.uniform(size=len(x)) if weighted else None
    fast, general = kind(manifold).evaluate(p, x, weights), passes.GeneralEvaluator(manifold).evaluate(p, x, weights)
    mass = len(x) if weights is None else weights.sum()
    assert 0.0 < fast.seen <= (1.0 + 1e-12) * mass  # it was the fast path that answered
    assert np.abs(fast.log + fast.log_low - general.log - general.log_low).max() <= mass * allowed(manifold, p, general)
    assert fast.square == pytest.approx(general.square, rel=1e-9)
    assert fast.reach == pytest.approx(general.reach, rel=1e-6)
    assert fast.count == general.count == len(x)


@every_fast_one
def test_the_hessian_predicts_how_the_gradient_changes(manifold: Manifold, kind: type[passes.Evaluator]) -> None:
    # the step from a point near the mean must land much closer to it; a wrong Hessian would not
    x, _, _ = setting(manifold)
    ball = Ball(manifold, manifold.origin, 1.2 * unit_of(manifold))
    mean = frechet_mean(x, ball).point
    direction = np.linspace(-1.0, 1.0, manifold.dim) if manifold.dim > 1 else np.ones(1)
    p = manifold.exp(mean, manifold.tangent(mean, 1e-3 * direction / np.linalg.norm(direction)))
    evaluator = kind(manifold)
    result = evaluator.evaluate(p, x, None)
    moved = manifold.exp(p, manifold.tangent(p, evaluator.step(p, result.log / len(x), result.hessian / result.seen)))
    newton = evaluator.hessian == "full"
    assert manifold.dist(moved, mean) < (2e-6 if newton else 1.5e-4)


def assert_clipped(manifold: Manifold, ball: Ball, kept: np.ndarray, records: np.ndarray) -> None:
    """These are the records that the ball makes of them, up to rounding, and none is outside."""
    rounding = 4.0 * manifold.log_rounding(ball.center, ball.reach)
    assert manifold.raw_dist(ball.center, kept).max() <= ball.reach
    assert manifold.raw_dist(ball.clip(records), kept).max() <= rounding


def ball_of(manifold: Manifold, radius: float = 1.2) -> Ball:
    return Ball(manifold, manifold.origin, radius * unit_of(manifold))


def outside_by(ball: Ball, times: float) -> np.ndarray:
    manifold = ball.manifold
    return manifold.exp(ball.center, manifold.tangent(ball.center, times * ball.radius * np.eye(manifold.dim)[0]))


@every_fast_one
@pytest.mark.parametrize("weighted", longer([False, True], [True]))
def test_clipping_equals_the_ball_and_makes_the_pass_at_the_centre(
    manifold: Manifold, kind: type[passes.Evaluator], weighted: bool
) -> None:
    x, _, rng = setting(manifold)
    ball = ball_of(manifold)
    weights = rng.uniform(size=len(x)) if weighted else None
    x[5], x[-1], x[300:310] = np.nan, outside_by(ball, 1.1), outside_by(ball, 1.01)
    kept = x.copy()
    result = kind(manifold).clip(ball, kept, weights)
    assert_clipped(manifold, ball, kept, x)
    assert np.array_equal(kept[5], ball.center)
    general = passes.GeneralEvaluator(manifold).evaluate(ball.center, ball.clip(x), weights)
    mass = len(x) if weights is None else weights.sum()
    assert np.abs(result.log + result.log_low - general.log - general.log_low).max() <= mass * allowed(
        manifold, ball.center, general
    )
    assert result.square == pytest.approx(general.square, rel=1e-9)
    assert result.reach == pytest.approx(general.reach, rel=1e-6)


@every_fast_one
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0, 1e308, 1e-308])
def test_no_record_that_is_off_gets_past_the_fast_path(manifold: Manifold, kind: type[passes.Evaluator], bad: float) -> None:
    x, _, _ = setting(manifold, 300)
    x[7] = bad
    x[8] *= 1.01
    x[9, 0] += 1e-4
    x[10].flat[1] = bad
    ball = ball_of(manifold)
    kept = x.copy()
    kind(manifold).clip(ball, kept, None)
    assert_clipped(manifold, ball, kept, x)


@pytest.mark.parametrize(("manifold", "kind"), [case for case in FAST if isinstance(case[0], Sphere)], ids=repr)
@pytest.mark.parametrize("share", [1e-7, 1e-3, 0.05, 0.3, 0.999])
def test_records_next_to_the_antipode_are_brought_into_the_ball(
    manifold: Sphere, kind: type[passes.Evaluator], share: float
) -> None:
    """The way from the antipode to the centre has no direction; that from a point beside it hardly one."""
    rng = np.random.default_rng(1)
    ball = Ball(manifold, random_points(manifold, 1, rng)[0], share * 0.5 * np.pi * manifold.radius)
    directions = rng.normal(size=(400, manifold.dim))
    directions /= np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    lengths = manifold.diameter - ball.radius * np.geomspace(1e-18, 0.9, 400)
    x = manifold.raw_exp(ball.center, manifold.raw_tangent(ball.center, directions * lengths[:, None]))
    x[0] = -ball.center
    kind(manifold).clip(ball, x, None)
    assert manifold.raw_dist(ball.center, x).max() <= ball.reach
    assert np.abs(np.linalg.vector_norm(x, axis=-1) - manifold.radius).max() <= 1e-6 * manifold.radius


@pytest.mark.parametrize(
    ("center", "radius"), [([0.0, 0.0], 1e-9), ([0.0, 0.0], 12.0), ([3e3, -4e3], 0.5), ([1e6, 2e6], 5.0), ([1.0, 0.1], 1e-6)]
)
def test_hyperbolic_records_from_everywhere_are_brought_into_the_ball(center: list[float], radius: float) -> None:
    """Inwards, outwards and across, out to a distance of 30 from the origin, where the last digits are worth much."""
    manifold, rng = Hyperbolic(2), np.random.default_rng(5)
    ball = Ball(manifold, manifold.project([0.0, *center]), radius)
    directions = rng.normal(size=(500, 2))
    directions /= np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    x = manifold.raw_project(np.insert(directions * np.sinh(np.linspace(0.0, 30.0, 500))[:, None], 0, 0.0, axis=1))
    kept = x.copy()
    passes.HyperbolicCompiled(manifold).clip(ball, kept, None)
    assert manifold.raw_dist(ball.center, kept).max() <= ball.reach
    assert manifold.raw_dist(ball.clip(x), kept).max() <= 4.0 * manifold.log_rounding_in_ball(ball.center, ball.reach)


@pytest.mark.parametrize("manifold", [PlanarShapes(3), PlanarShapes(9), Grassmann(1, 4), Grassmann(3, 7)], ids=repr)
@pytest.mark.parametrize("share", [1e-7, 0.3, 0.99])
def test_records_next_to_the_cut_locus_are_brought_into_the_ball(manifold: Manifold, share: float) -> None:
    """At the cut locus a record has no unique geodesic to the centre, and next to it one that rounding can turn far."""
    rng = np.random.default_rng(2)
    center = random_points(manifold, 1, rng)[0]
    ball = Ball(manifold, center, share * Ball(manifold, center, 0.01).max_radius)
    velocities = rng.normal(size=(300, manifold.dim))
    velocities = manifold.raw_tangent(center, velocities)
    fastest = np.linalg.norm(velocities, ord=2 if isinstance(manifold, Grassmann) else None, axis=(-2, -1))
    lengths = 0.5 * np.pi - np.append(0.0, np.geomspace(1e-17, 0.5, 299))
    x = manifold.raw_exp(center, (lengths / fastest)[:, None, None] * velocities)
    kind = passes.GrassmannCompiled if isinstance(manifold, Grassmann) else passes.ShapesCompiled
    kind(manifold).clip(ball, x, None)
    assert manifold.valid(x).all()
    assert manifold.raw_dist(center, x).max() <= ball.reach


@pytest.mark.parametrize(("manifold", "kind"), FAST[:9], ids=repr)
def test_matrices_whose_eigenvalues_spread_far_are_treated_as_accurately_as_by_the_general_path(
    manifold: SPD, kind: type[passes.Evaluator]
) -> None:
    x, p, rng = setting(manifold, 300)
    turns = np.linalg.qr(rng.normal(size=(20, manifold.k, manifold.k)))[0]
    spread = np.exp(np.linspace(-7.0, 7.0, manifold.k) * rng.uniform(0.8, 1.0, size=(20, 1)))
    x[::15] = (turns * spread[:, None, :]) @ turns.transpose(0, 2, 1)
    x[::15] = 0.5 * (x[::15] + x[::15].transpose(0, 2, 1))
    fast, general = kind(manifold).evaluate(p, x, None), passes.GeneralEvaluator(manifold).evaluate(p, x, None)
    assert np.abs(fast.log + fast.log_low - general.log - general.log_low).max() <= len(x) * allowed(manifold, p, general)
    assert fast.reach == pytest.approx(general.reach, rel=1e-6)
    ball = ball_of(manifold)
    kept = x.copy()
    kind(manifold).clip(ball, kept, None)
    assert manifold.raw_dist(ball.center, kept).max() <= ball.reach
    assert manifold.raw_dist(ball.clip(x), kept).max() <= 4.0 * manifold.log_rounding(ball.center, general.reach)


@every_fast_one
def test_a_block_of_another_length_than_its_weights_is_refused(manifold: Manifold, kind: type[passes.Evaluator]) -> None:
    # compiled code has no bounds checks and would read what lies behind the weights
    x, p, _ = setting(manifold, 100)
    ball = Ball(manifold, manifold.origin, 1.2 * unit_of(manifold))
    with pytest.raises(ValueError, match="holds 100 records but was declared to hold 60"):
        read_block(kind(manifold), ball, p, x, np.ones(60), np.ones(4 + 2 * x[0].size, dtype=np.uint64))


KERNELS: dict[type[passes.Evaluator], Callable[[], Any]] = {
    passes.SmallSPD: lambda: small_spd_kernels.small_spd,
    passes.SPDCompiled: lambda: spd_kernel.spd,
    passes.Spheres: lambda: round_kernels.sphere,
    passes.Rotations3: lambda: round_kernels.rotations3,
    passes.HyperbolicCompiled: lambda: lane_kernels.hyperbolic,
    passes.ShapesCompiled: lambda: lane_kernels.shapes,
    passes.GrassmannCompiled: lambda: lane_kernels.subspaces,
}


@pytest.mark.parametrize(("manifold", "kind"), [case for case in FAST if case[1] in KERNELS], ids=repr)
def test_nothing_is_compiled_because_a_record_was_moved(manifold: Manifold, kind: type[passes.Evaluator]) -> None:
    """Compiled code stays on disk, one piece for each type of argument: clipped records must be of the type of the others."""
    x, p, _ = setting(manifold)
    evaluator, kernel = kind(manifold), KERNELS[kind]()
    evaluator.clip(ball_of(manifold), x.copy(), None)
    before = list(kernel.signatures)
    assert before
    x.flags.writeable = False  # as a file mapped into memory is
    evaluator.evaluate(p, x, None)
    evaluator.evaluate(p, x.copy(), None)
    clipped = x.copy()
    evaluator.clip(ball_of(manifold, 0.2), clipped, None)
    assert not np.array_equal(clipped, x)
    evaluator.evaluate(p, clipped, None)
    assert kernel.signatures == before


def test_compiled_passes_are_used_by_size_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what the process did before: that would change last bits."""
    monkeypatch.delenv("GEODP_COMPILE", raising=False)
    for _ in range(2):
        assert type(passes.best_evaluator(SPD(2), 24_999)) is passes.SPDLarge
        assert type(passes.best_evaluator(SPD(2), 25_000)) is passes.SmallSPD
        assert type(passes.best_evaluator(SPD(3), None)) is passes.SmallSPD
        assert type(passes.best_evaluator(Sphere(2), 10**6)) is passes.Spheres
        assert type(passes.best_evaluator(Sphere(2), 10)) is passes.RankOne
        assert type(passes.best_evaluator(Sphere(1000), 10**4)) is passes.Spheres
        assert type(passes.best_evaluator(SPD(10), 10)) is passes.SPDLarge
        assert type(passes.best_evaluator(SPD(10), 10**5)) is passes.SPDCompiled
        assert type(passes.best_evaluator(Hyperbolic(5), 10**6)) is passes.HyperbolicCompiled
        assert type(passes.best_evaluator(PlanarShapes(20), 10**5)) is passes.ShapesCompiled
        assert type(passes.best_evaluator(Grassmann(3, 10), 10**5)) is passes.GrassmannCompiled
        assert type(passes.best_evaluator(Grassmann(3, 10), 10)) is passes.GeneralEvaluator


def test_a_server_may_choose_compiled_passes_for_all_sizes_or_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEODP_COMPILE", "never")
    assert type(passes.best_evaluator(SPD(3), 10**9)) is passes.SPDLarge
    geodp.compile("Sphere(2)", SPD(3))
    assert os.environ["GEODP_COMPILE"] == "always"  # which the processes that this one starts inherit
    assert type(passes.best_evaluator(SPD(3), 1)) is passes.SmallSPD
    assert type(best_group_evaluator(ball_of(SPD(3)), 1)) is CompiledGroups
    with reproducible():
        assert type(passes.best_evaluator(SPD(3), 1)) is passes.SPDLarge
    monkeypatch.setenv("GEODP_COMPILE", "sometimes")
    with pytest.raises(ValueError, match="GEODP_COMPILE is 'sometimes' but must be one of always, never, by size"):
        passes.best_evaluator(SPD(3), 1)


def test_without_numba_everything_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_numba_is_there", lambda: False)
    x, _, _ = setting(SPD(2), 40_000)
    ball = Ball(SPD(2), np.eye(2), 2.0)
    slow = frechet_mean(x, ball)
    monkeypatch.undo()
    fast = frechet_mean(x, ball)
    assert SPD(2).dist(slow.point, fast.point) <= slow.error_bound + fast.error_bound


def matrix_with_logs(
    k: int, logs: np.ndarray, rng: np.random.Generator, near: np.ndarray | None = None
) -> tuple[mpmath.matrix, np.ndarray]:
    """A positive-definite matrix with these logarithms of its eigenvalues and a random basis, and that basis."""
    basis = rng.normal(size=(k, k)) if near is None else near + np.exp(-rng.uniform(0.0, 12.0)) * rng.normal(size=(k, k))
    orthogonal = mpmath.qr(mpmath.matrix(basis.tolist()))[0]
    return orthogonal * mpmath.diag([mpmath.exp(mpmath.mpf(float(t))) for t in logs]) * orthogonal.T, np.array(
        orthogonal.tolist(), dtype=float
    )


def exact_log(x: np.ndarray | mpmath.matrix) -> mpmath.matrix:
    values, vectors = mpmath.eigsy(mpmath.matrix(x.tolist()))
    return vectors * mpmath.diag([mpmath.log(t) for t in values]) * vectors.T


def nearest_floats(x: mpmath.matrix) -> np.ndarray:
    rounded = np.array(x.tolist(), dtype=float)
    return 0.5 * (rounded + rounded.T)


@pytest.mark.parametrize("reach", [0.2, 0.9, 2.1, 4.5])
@pytest.mark.parametrize("k", [4, 7])
def test_compiled_logarithms_are_right_to_rounding(k: int, reach: float) -> None:
    """Against 40 digits, one matrix a block, eigenvalues out to ``exp(+-reach)``; the error may be a third of the bound."""
    rng = np.random.default_rng(k)
    with mpmath.workdps(40):
        for _ in range(5):
            q = mpmath.matrix(np.linalg.qr(rng.normal(size=(k, k)))[0].tolist())
            q = mpmath.qr(q)[0]
            logs = [mpmath.mpf(float(t)) for t in np.append(rng.uniform(-reach, reach, size=k - 2), [reach, -reach])]
            x = np.array((q * mpmath.diag([mpmath.exp(t) for t in logs]) * q.T).tolist(), dtype=np.float64)
            log = np.array(exact_log(0.5 * (x + x.T)).tolist(), dtype=np.float64)
            result = passes.SPDCompiled(SPD(k)).evaluate(np.eye(k), x[None], None)
            assert result.seen == 1.0
            error = np.linalg.norm(result.log + result.log_low - vector_from_symmetric(log))
            assert error <= SPD(k).log_rounding(np.eye(k), result.reach) / 3.0
            assert result.reach == pytest.approx(np.linalg.norm(log), rel=1e-12)


@pytest.mark.parametrize("radius", [0.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize(
    ("k", "kind"), [(2, passes.SmallSPD), (3, passes.SmallSPD), (5, passes.SPDCompiled), (5, passes.SPDLarge)]
)
def test_logarithms_across_a_ball_err_less_than_its_bound_says(k: int, kind: type[passes.Evaluator], radius: float) -> None:
    """Pairs on opposite sides of a ball, nearly in one basis, against fifty digits; centres with condition 1 and 400.

    The largest error of these was 0.03 of the bound. Without its conditions, the bound would be exceeded.
    """
    rng = np.random.default_rng(100 * k + int(10 * radius))
    direction = np.zeros(k)
    direction[[0, -1]] = 1.0, -1.0
    direction *= radius / np.sqrt(2.0)
    worst = 0.0
    with mpmath.workdps(50):
        for spread in [0.0, 6.0] * 4:
            center = nearest_floats(matrix_with_logs(k, np.linspace(-0.5 * spread, 0.5 * spread, k), rng)[0])
            root = mpmath.cholesky(mpmath.matrix(center.tolist()))
            first, basis = matrix_with_logs(k, direction, rng)
            p = nearest_floats(root * first * root.T)
            q = nearest_floats(root * matrix_with_logs(k, -direction, rng, near=basis)[0] * root.T)
            inverse = mpmath.cholesky(mpmath.matrix(p.tolist())) ** -1
            log = nearest_floats(exact_log(inverse * mpmath.matrix(q.tolist()) * inverse.T))
            bound = SPD(k).log_rounding_in_ball(center, radius)
            for evaluator in (kind(SPD(k)), passes.GeneralEvaluator(SPD(k))):
                result = evaluator.evaluate(p, q[None], None)
                error = np.linalg.norm(result.log + result.log_low - vector_from_symmetric(log))
                assert error <= 0.2 * bound
                worst = max(worst, error)
    assert worst > EPSILON * 4.0 * (k + 4) or radius < 2.0


@pytest.mark.parametrize(
    ("first", "length", "degree"),
    [(1, length, degree) for degree, length in passes.ARTANH.items()]
    + [(2, length, degree) for degree, length in passes.ARCS.items()],
)
def test_polynomials_are_exact_to_rounding_where_they_are_used(first: int, length: float, degree: int) -> None:
    """Against forty digits; the floats of the coefficients leave up to two units in the last place."""
    end = passes.ENDS[first](length)
    coefficients, middle = lanes.polynomial(first, end, degree)
    fewer, _ = lanes.polynomial(first, end, degree - 4)
    with mpmath.workdps(40):
        for t in np.linspace(0.0, (1.0 + 1e-6) * length, 60):
            s = mpmath.tanh(mpmath.mpf(t) / 2) ** 2 if first == 1 else mpmath.sin(mpmath.mpf(t) / 2) ** 2
            exact = mpmath.mpf(1)
            if t > 0.0:
                exact = t / (2 * mpmath.tanh(mpmath.mpf(t) / 2)) if first == 1 else t / mpmath.sin(mpmath.mpf(t))
            found = reduce(lambda value, c: value * (s - middle) + float(c), coefficients, mpmath.mpf(0))
            assert abs(found / exact - 1) <= 1.2 * EPSILON
        found = reduce(lambda value, c: value * (s - middle) + float(c), fewer, mpmath.mpf(0))
        assert abs(found / exact - 1) > 0.1 * EPSILON  # so many are needed


@pytest.mark.parametrize("length", [0.35, 1.0, 1.5, 2.0, 2.5, 3.0])
@pytest.mark.parametrize("condition", [1.0, 10.0, 1e4])
@pytest.mark.parametrize("k", [2, 3])
def test_logarithms_by_polynomials_keep_their_digits(k: int, condition: float, length: float) -> None:
    """Against fifty digits, at records of all lengths, with distant, equal and nearly equal eigenvalues.

    The error is relative to the length of the logarithm: at most 7.2 epsilons times the condition of the point were seen.
    """
    if k == 2 and length > 2.0:
        pytest.skip("eigenvalues are as quick there")
    rng = np.random.default_rng(int(1000 * k + 10 * length + condition))
    evaluator = passes.SmallSPD(SPD(k), length)
    with mpmath.workdps(50):
        for trial in range(9):
            p = nearest_floats(matrix_with_logs(k, 0.5 * math.log(condition) * np.linspace(-1.0, 1.0, k), rng)[0])
            root = mpmath.cholesky(mpmath.matrix(p.tolist()))
            logs = (rng.normal(size=3), np.array([1.0, -1.0, 0.0]), np.array([1.0, 1.0 + 1e-9, -0.5]))[trial % 3][:k]
            logs *= (1.0 - 1e-9) * length / np.linalg.norm(logs) * (1.0 if trial % 2 else 10.0 ** -rng.uniform(0.0, 6.0))
            q = nearest_floats(root * matrix_with_logs(k, logs, rng)[0] * root.T)
            exact = vector_from_symmetric(nearest_floats(exact_log(root**-1 * mpmath.matrix(q.tolist()) * root.T**-1)))
            result = evaluator.evaluate(p, q[None], None)
            error = np.linalg.norm(result.log - exact)
            assert error <= 16.0 * EPSILON * condition * np.linalg.norm(exact)
            assert error <= SPD(k).log_rounding(p, result.reach) / 6.0
            assert result.reach == pytest.approx(np.linalg.norm(exact), rel=1e-15 * 16.0 * condition)


@pytest.mark.parametrize("angle", [0.4, 0.9, 1.2, 1.5, 2.0, 2.9])
@pytest.mark.parametrize("d", [2, 5])
def test_logarithms_on_spheres_keep_their_digits(d: int, angle: float) -> None:
    """Against fifty digits; the error is relative to the length of the logarithm for records near the point."""
    rng = np.random.default_rng(int(10 * angle) + d)
    evaluator = passes.Spheres(Sphere(d), angle)
    with mpmath.workdps(50):
        for trial in range(20):
            p = random_points(Sphere(d), 1, rng)[0]
            direction = rng.normal(size=d)
            direction *= angle / np.linalg.norm(direction) * (1.0 if trial % 2 else 10.0 ** -rng.uniform(0.0, 6.0))
            q = Sphere(d).exp(p, Sphere(d).tangent(p, direction))
            # the directions of the floats, which need not have length 1
            a, b = (mpmath.matrix(point.tolist()) / mpmath.norm(mpmath.matrix(point.tolist())) for point in (p, q))
            cosine = (a.T * b)[0]
            across = b - cosine * a
            exact = mpmath.atan2(mpmath.norm(across), cosine) / mpmath.norm(across) * across
            found = Sphere(d).tangent(p, evaluator.evaluate(p, q[None], None).log)
            error = float(mpmath.norm(mpmath.matrix(found.tolist()) - exact))
            assert error <= Sphere(d).log_rounding(p, angle) / 4.0


@pytest.mark.parametrize(
    "manifold", [SPD(2), SPD(3), Sphere(2), Sphere(6, curvature=0.25), Rotations(3), Hyperbolic(3)], ids=repr
)
@pytest.mark.parametrize("radius", [0.2, 0.6, 0.9, 1.4])
def test_passes_in_narrow_balls_equal_the_general_one(manifold: Manifold, radius: float) -> None:
    rng = np.random.default_rng(3)
    ball = Ball(manifold, manifold.origin, radius)
    x, p = (ball.clip(random_points(manifold, count, rng, radius)) for count in (700, 1))
    weights = rng.uniform(size=700)
    evaluator = passes.best_evaluator(manifold, None, 2.0 * ball.reach)
    wide = passes.best_evaluator(manifold, None)
    fast, slow, general = (each.evaluate(p[0], x, weights) for each in (evaluator, wide, passes.GeneralEvaluator(manifold)))
    assert np.abs(fast.log + fast.log_low - general.log - general.log_low).max() <= weights.sum() * allowed(
        manifold, p[0], general
    )
    assert (fast.square, fast.reach) == pytest.approx((general.square, general.reach), rel=1e-12)
    assert fast.hessian == pytest.approx(slow.hessian, rel=1e-7, abs=1e-7 * weights.sum())
    assert fast.seen == pytest.approx(slow.seen)


def small_turns(k: int, rng: np.random.Generator) -> mpmath.matrix:
    """A product of rotations of all coordinate planes, by angles of any size or next to a quarter turn."""
    turns = mpmath.eye(k)
    for i, j in zip(*np.triu_indices(k, 1), strict=True):
        angle = mpmath.exp(-rng.uniform(0.0, 30.0)) + rng.choice([0.0, 1.0]) * mpmath.pi / 2
        plane = mpmath.eye(k)
        plane[i, i] = plane[j, j] = mpmath.cos(angle)
        plane[i, j], plane[j, i] = -mpmath.sin(angle), mpmath.sin(angle)
        turns = turns * plane
    return turns


@pytest.mark.parametrize("radius", longer([4.0, 8.0, 12.0, 15.0], [15.0]))
@pytest.mark.parametrize(
    ("k", "kind"), [(2, passes.SmallSPD), (3, passes.SmallSPD), (4, passes.SPDCompiled), (4, passes.SPDLarge)]
)
def test_logarithms_across_a_wide_ball_cost_no_more_digits_than_storing_a_mean_does(
    k: int, kind: type[passes.Evaluator], radius: float
) -> None:
    """Pairs anywhere on the sphere around the ball, in bases of every kind, against sixty digits.

    To write a point in floats moves it by epsilon times its condition number, and no computation can do better in the worst case:
    the bound must exceed what is seen of either, and by no more than a constant.
    """
    rng = np.random.default_rng(int(100 * radius) + k)
    growth = np.exp(np.sqrt(2.0) * radius)
    bound = SPD(k).log_rounding_in_ball(np.eye(k), radius)
    error = stored = 0.0
    with mpmath.workdps(60):
        for _ in range(40):
            ends = []
            for basis in (small_turns(k, rng), small_turns(k, rng)):
                logs = np.append([1.0, -1.0], rng.choice([0.0, 0.3]) * rng.normal(size=k - 2))
                logs *= radius / np.linalg.norm(logs)
                ends.append(basis * mpmath.diag([mpmath.exp(mpmath.mpf(float(t))) for t in rng.permutation(logs)]) * basis.T)
            p, q = map(nearest_floats, ends)
            if not SPD(k).valid(np.stack([p, q])).all():
                continue
            inverse = mpmath.cholesky(mpmath.matrix(p.tolist())) ** -1
            stored = max(stored, np.linalg.norm(nearest_floats(exact_log(inverse * ends[0] * inverse.T))))
            log = nearest_floats(exact_log(inverse * mpmath.matrix(q.tolist()) * inverse.T))
            for evaluator in (kind(SPD(k)), passes.GeneralEvaluator(SPD(k))):
                result = evaluator.evaluate(p, q[None], None)
                error = max(error, np.linalg.norm(result.log + result.log_low - vector_from_symmetric(log)))
    assert max(error, stored) <= 0.2 * bound
    assert max(error, stored) >= 0.01 * EPSILON * growth
    # next to the origin whitening is quicker and loses up to a million epsilons
    assert bound <= 25.0 * (k + 4) * EPSILON * (growth + 1e6)


@pytest.mark.parametrize("radius", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("k", [2, 5])
def test_differences_of_logarithms_across_a_ball_err_less_than_its_bound_says(k: int, radius: float) -> None:
    """The same in the flat metric, whose logarithm is the difference of two of them; the largest error was 0.07 of the bound."""
    rng = np.random.default_rng(10 * k + int(radius))
    direction = np.zeros(k)
    direction[[0, -1]] = radius / np.sqrt(2.0), -radius / np.sqrt(2.0)
    manifold = SPDLogEuclidean(k)
    bound = manifold.log_rounding_in_ball(np.eye(k), radius)
    with mpmath.workdps(50):
        for side in [-1.0, 0.999] * 4:
            first, basis = matrix_with_logs(k, direction, rng)
            p, q = nearest_floats(first), nearest_floats(matrix_with_logs(k, side * direction, rng, near=basis)[0])
            log = nearest_floats(exact_log(q) - exact_log(p))
            result = passes.GeneralEvaluator(manifold).evaluate(p, q[None], None)
            assert np.linalg.norm(result.log + result.log_low - vector_from_symmetric(log)) <= 0.3 * bound


@pytest.mark.slow
def test_the_quadrature_of_the_logarithm_has_the_nodes_it_needs_and_not_many_more() -> None:
    rule = spd_kernel.quadrature()
    with mpmath.workdps(60):
        for reach, count in zip(rule.reaches, rule.counts, strict=True):
            ends = [mpmath.exp(mpmath.mpf(float(reach)) * s) for s in (-1, 1)]

            def error(nodes: int, ends: list[mpmath.mpf] = ends) -> float:
                x, w = polynomial_nodes(nodes)
                return max(
                    float(
                        abs(mpmath.log(end) - mpmath.fsum(b * (end - 1) / (1 + a * (end - 1)) for a, b in zip(x, w, strict=True)))
                    )
                    for end in ends
                )

            assert error(int(count)) < 2e-17
            assert error(int(count) - 3) > 1e-17


def polynomial_nodes(count: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """Gauss and Legendre's rule on (0, 1) to 50 digits: NumPy's nodes, improved by Newton's method."""
    nodes, weights = [], []
    for start in np.polynomial.legendre.leggauss(count)[0]:
        x = mpmath.mpf(float(start))
        for _ in range(3):
            before, here = mpmath.mpf(1), x
            for n in range(2, count + 1):
                before, here = here, ((2 * n - 1) * x * here - (n - 1) * before) / n
            slope = count * (x * here - before) / (x * x - 1)
            x -= here / slope
        nodes.append((1 + x) / 2)
        weights.append(1 / ((1 - x * x) * slope**2))
    return nodes, weights


MEMORY = """
import resource, sys
import numpy as np
import geodp
from geodp import SPD, Ball, frechet_mean
frechet_mean(np.tile(np.eye(3), (40_000, 1, 1)), Ball(SPD(3), np.eye(3), 2.0))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
x = np.load(sys.argv[1], mmap_mode="r")
frechet_mean(x, Ball(SPD(3), np.eye(3), 2.0))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "RUSAGE_SELF"), reason="the system does not tell the peak memory")
def test_a_million_matrices_from_a_memory_map_take_little_memory(tmp_path: object) -> None:
    path = f"{tmp_path}/x.npy"
    x, _, _ = setting(SPD(3), 10_000)
    np.save(path, np.tile(x, (100, 1, 1)))
    grown = subprocess.run([sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True)
    # the pages of the map itself, 69 MB, count as resident
    assert float(grown.stdout) < 300.0
