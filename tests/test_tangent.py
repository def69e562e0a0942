"""Noise in the tangent space: its law, its errors, the Lipschitz constant and the rounding it is calibrated for.

False alarms: every statistical test states its level, the chance of rejecting a correct program were its seed drawn afresh. Each
also rejects a law whose scale is wrong by 3%, or a claim that is a little too strong.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from cases import MANIFOLDS, every_manifold, longer, planned, random_points
from scipy import stats

from geodp import SPD, Ball, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere
from geodp.inputs import Array
from geodp.noise import exact
from geodp.noise.flat import Family
from geodp.noise.tangent import TangentMechanism, stretch_of_log, tangent_cost
from geodp.privacy.notions import PureDP
from geodp.statistics.mean import Mean

FAMILIES: tuple[Family, ...] = ("laplace", "gaussian")
every_family = pytest.mark.parametrize("family", FAMILIES)
one_of_each = pytest.mark.parametrize("manifold", longer(MANIFOLDS), ids=repr)
#: Level of a family of tests over all manifolds and both laws.
LEVEL = 1e-4 / (2 * len(MANIFOLDS))

HADAMARD = (Euclidean, Hyperbolic, SPD, SPDLogEuclidean)


def ball_of(manifold: Manifold, part: float = 0.5) -> Ball:
    return Ball(manifold, manifold.origin, part * min(1.0, Ball(manifold, manifold.origin, 1e-3).max_radius))


def noise_of(ball: Ball, scale: float, family: Family, into_ball: bool = False) -> TangentMechanism:
    return TangentMechanism(scale, family, tangent_cost(ball.manifold.dim, family, 1.0), ball, into_ball)


def at(ball: Ball, coordinates: Array) -> Array:
    """The points with these normal coordinates, by the public functions."""
    manifold = ball.manifold
    base = np.broadcast_to(ball.center, (*coordinates.shape[:-1], *manifold.point_shape))
    return np.asarray(manifold.exp(base, manifold.tangent(base, coordinates)))


def coordinates_of(ball: Ball, points: Array) -> Array:
    manifold = ball.manifold
    return np.asarray(manifold.coordinates(ball.center, manifold.log(ball.center, points)))


def some_direction(dim: int) -> Array:
    direction = np.linspace(1.0, 2.0, dim) * np.where(np.arange(dim) % 2, -1.0, 1.0)
    return direction / np.linalg.vector_norm(direction)


def small_scale(ball: Ball) -> float:
    """So small that no draw gets near the cut locus, where logarithms would not give the draw back."""
    return 0.1 * ball.radius / (ball.manifold.dim + 12.0)


def length_law(dim: int, scale: float, family: Family) -> Any:
    return stats.gamma(dim, scale=scale) if family == "laplace" else stats.chi(dim, scale=scale)


def is_uniform_direction(z: Array) -> float:
    """A p-value: the mean direction, whose square times ``n d`` is chi-square with ``d`` degrees of freedom, nearly."""
    unit = z / np.linalg.vector_norm(z, axis=-1, keepdims=True)
    n, d = unit.shape
    return float(stats.chi2(d).sf(n * d * (unit.mean(axis=0) ** 2).sum()))


# ---------------------------------------------------------------------- the law


@one_of_each
@every_family
def test_simulated_draws_have_the_law_of_the_flat_noise_in_normal_coordinates(manifold: Manifold, family: Family) -> None:
    """Kolmogorov and Smirnov's test of 20,000 lengths or more; a scale that is wrong by 3% is rejected."""
    ball = ball_of(manifold)
    center = 0.5 * ball.radius * some_direction(manifold.dim)
    noise = noise_of(ball, small_scale(ball), family)
    draws = 60_000 if manifold.dim == 1 else 20_000
    y = noise.simulate(at(ball, center[None])[0], draws, np.random.default_rng(3))
    z = coordinates_of(ball, y) - center
    lengths = np.linalg.vector_norm(z, axis=-1)
    assert stats.kstest(lengths, length_law(manifold.dim, noise.scale, family).cdf).pvalue > LEVEL
    assert is_uniform_direction(z) > LEVEL
    # the mean of so many lengths resolves 3% of the scale in every dimension: one standard error is at most 0.5%
    law, wrong = (length_law(manifold.dim, factor * noise.scale, family) for factor in (1.0, 1.03))
    deviations = [(lengths.mean() - each.mean()) / each.std() * math.sqrt(len(lengths)) for each in (law, wrong)]
    assert abs(deviations[0]) < 5.5
    assert deviations[1] < -3.0


@one_of_each
@every_family
def test_exact_draws_have_the_law_of_the_flat_noise_in_normal_coordinates(manifold: Manifold, family: Family) -> None:
    """60 seeded draws a manifold and law; all of them together reject a scale that is wrong by 3% in the next test."""
    lengths, z = exact_lengths(manifold, family, 60)
    assert stats.kstest(lengths, length_law(manifold.dim, 1.0, family).cdf).pvalue > LEVEL
    assert is_uniform_direction(z) > LEVEL


def exact_lengths(manifold: Manifold, family: Family, size: int) -> tuple[Array, Array]:
    """Lengths of the noise of exact draws, in scales, and the noise."""
    ball = ball_of(manifold)
    center = 0.5 * ball.radius * some_direction(manifold.dim)
    noise, entropy = noise_of(ball, small_scale(ball), family), exact.NotPrivate(7)
    value = at(ball, center[None])[0]
    y = np.array([noise.draw(value, entropy).value for _ in range(size)])
    z = coordinates_of(ball, y) - center
    return np.linalg.vector_norm(z, axis=-1) / noise.scale, z


@pytest.mark.slow
@pytest.mark.parametrize("family", longer(FAMILIES, ["gaussian"]))
def test_exact_draws_reject_a_scale_that_is_wrong_by_three_percent(family: Family) -> None:
    """In 36 dimensions, where lengths vary little: 3% is 6 standard errors of the mean of 1,200 draws. False-alarm rate 1e-4."""
    manifold = SPD(8)
    lengths, z = exact_lengths(manifold, family, 1200)
    for factor in (0.97, 1.0, 1.03):
        law = length_law(manifold.dim, factor, family)
        deviation = abs(lengths.mean() - law.mean()) / law.std() * math.sqrt(len(lengths))
        assert (deviation < 3.9) == (factor == 1.0)
    assert stats.kstest(lengths, length_law(manifold.dim, 1.0, family).cdf).pvalue > 1e-4
    assert is_uniform_direction(z) > 1e-4


# ---------------------------------------------------------------------- into the ball


@every_manifold
@every_family
def test_moving_into_the_ball_keeps_the_direction_and_shortens_to_the_radius(manifold: Manifold, family: Family) -> None:
    ball = ball_of(manifold)
    center = 0.9 * ball.radius * some_direction(manifold.dim)
    value = at(ball, center[None])[0]
    scale = 0.3 * ball.radius / (manifold.dim if family == "laplace" else math.sqrt(manifold.dim))
    free, moved = (
        noise_of(ball, scale, family, into_ball).simulate(value, 400, np.random.default_rng(4)) for into_ball in (False, True)
    )
    if isinstance(manifold, HADAMARD):
        np.testing.assert_allclose(ball.clip(free), moved, rtol=1e-9, atol=1e-11)
    lengths = np.linalg.vector_norm(coordinates_of(ball, moved), axis=-1)
    assert lengths.max() <= ball.reach * (1.0 + 1e-12)
    assert (np.abs(lengths - ball.radius) < 1e-9 * ball.radius).mean() > 0.1, "the test would prove nothing"
    # where exp is one to one on what was drawn, so that the logarithm gives the draw back
    u, v = coordinates_of(ball, free), coordinates_of(ball, moved)
    long = np.linalg.vector_norm(u, axis=-1, keepdims=True)
    near = long[:, 0] < 1.5 * ball.radius
    np.testing.assert_allclose(v[near], (u * np.minimum(1.0, ball.radius / long))[near], atol=1e-7 * ball.radius)


def test_floats_that_cannot_hold_a_far_point_give_the_farthest_they_can_in_that_direction() -> None:
    """Without moving into the ball a wide law on hyperbolic space reaches points with coordinates past the floats."""
    ball = Ball(Hyperbolic(2), [1.0, 0.0, 0.0], 1.0)
    y = noise_of(ball, 500.0, "laplace").simulate(ball.center, 200, np.random.default_rng(1))
    assert Hyperbolic(2).check_point(y) is None
    drawn = noise_of(ball, 500.0, "laplace").draw(ball.center, exact.NotPrivate(1)).value
    assert Hyperbolic(2).check_point(drawn) is None
    assert Hyperbolic(2).dist(ball.center, y).max() > 100.0


# ---------------------------------------------------------------------- errors


WORST = [
    Ball(SPD(2), np.eye(2), 2.0),
    Ball(SPD(3), np.diag([1.0, 10.0, 0.1]), 1.0),
    Ball(Hyperbolic(3), [1.0, 0.0, 0.0, 0.0], 2.0),
    Ball(Sphere(2), [0.0, 0.0, 1.0], 1.4),
    Ball(Rotations(3), np.eye(3), 1.5),
    Ball(Grassmann(2, 5), np.eye(5, 2), 0.7),
    Ball(PlanarShapes(4), PlanarShapes(4).origin, 0.7),
    Ball(Product(SPD(2), Sphere(2)), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0], 1.0),
    Ball(Euclidean(3), np.zeros(3), 1.0),
    Ball(SPDLogEuclidean(2), np.eye(2), 1.0),
]


@pytest.mark.parametrize("into_ball", [False, True])
@pytest.mark.parametrize("ball", longer(WORST, WORST[1:4:2]), ids=lambda ball: repr(ball.manifold))
@every_family
def test_no_value_in_the_ball_errs_more_than_the_bounds_say(ball: Ball, family: Family, into_ball: bool) -> None:
    """Values at the rim, where exp stretches most, in six directions: 4,000 draws each. False-alarm rate 1e-5 a value."""
    generator, draws = np.random.default_rng(8), 4000
    for scale in (0.03 * ball.radius, 0.4 * ball.radius):
        noise = noise_of(ball, scale, family, into_ball)
        for _ in range(6):
            direction = generator.normal(size=ball.manifold.dim)
            value = at(ball, (ball.radius * direction / np.linalg.vector_norm(direction))[None])[0]
            errors = np.asarray(ball.manifold.dist(value, noise.simulate(value, draws, generator)))
            assert errors.mean() - 4.3 * errors.std() / math.sqrt(draws) <= noise.expected_error()
            for q in (0.5, 0.9, 0.99):
                assert (errors <= noise.error_quantile(q) * (1.0 + 1e-9)).sum() >= stats.binom.ppf(1e-5, draws, q)
            if into_ball:
                assert errors.max() <= 2.0 * ball.reach


@pytest.mark.parametrize(
    "ball",
    [Ball(Euclidean(5), np.zeros(5), 1.0), Ball(SPDLogEuclidean(2), np.eye(2), 1.0), Ball(SPD(1), np.eye(1), 1.0)],
    ids=lambda ball: repr(ball.manifold),
)
@every_family
def test_on_flat_spaces_the_bounds_are_the_errors_themselves(ball: Ball, family: Family) -> None:
    """40,000 draws: the mean within 2%, and the share below a quantile within five standard errors."""
    noise = noise_of(ball, 0.01, family)
    errors = np.asarray(ball.manifold.dist(ball.center, noise.simulate(ball.center, 40_000, np.random.default_rng(9))))
    mean = length_law(ball.manifold.dim, 0.01, family).mean()
    assert mean <= noise.expected_error() <= 1.0002 * mean, "rounded up by what a quadrature may err"
    assert noise_of(ball, 0.01, family, into_ball=True).expected_error() == pytest.approx(mean, rel=1e-9), "a closed form"
    assert errors.mean() == pytest.approx(noise.expected_error(), rel=0.02)
    for q in (0.5, 0.9, 0.99):
        assert abs((errors <= noise.error_quantile(q)).mean() - q) < 5.0 * math.sqrt(q * (1.0 - q) / 40_000)
    wrong = noise_of(ball, 0.0103, family)
    assert errors.mean() < wrong.expected_error() * 0.985, "3% more noise would err more"


# ---------------------------------------------------------------------- the Lipschitz constant of log


CURVED: list[Manifold] = [
    Sphere(2),
    Sphere(5),
    Sphere(2, curvature=4.0),
    Grassmann(1, 4),
    Grassmann(2, 5),
    Rotations(3),
    Rotations(4),
    PlanarShapes(4),
    Product(Sphere(2), Euclidean(3)),
]


def stretch_of_pairs(ball: Ball, u: Array, v: Array) -> Array:
    """How much longer the difference of normal coordinates is than the distance of the points."""
    different = np.linalg.vector_norm(u - v, axis=-1) > 1e-6 * ball.radius
    u, v = u[different], v[different]
    apart = np.asarray(ball.manifold.dist(at(ball, u), at(ball, v)))
    return np.linalg.vector_norm(u - v, axis=-1) / apart


@pytest.mark.parametrize("part", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("manifold", CURVED, ids=repr)
def test_no_two_points_of_a_ball_have_logarithms_that_are_further_apart_than_the_constant_says(
    manifold: Manifold, part: float
) -> None:
    """Random pairs near the rim, far apart and close together; on the round sphere the constant is nearly attained."""
    ball = Ball(manifold, manifold.origin, part * Ball(manifold, manifold.origin, 1e-3).max_radius)
    generator = np.random.default_rng(10)
    u = generator.normal(size=(3000, manifold.dim))
    u *= ball.radius / np.linalg.vector_norm(u, axis=-1, keepdims=True)
    u[::3] *= generator.random((1000, 1))
    for spread in (1e-3, 0.1, 10.0):
        v = u + spread * ball.radius * generator.normal(size=u.shape) / math.sqrt(manifold.dim)
        v *= np.minimum(1.0, ball.radius / np.linalg.vector_norm(v, axis=-1, keepdims=True))
        stretched = stretch_of_pairs(ball, u, v)
        # distances near 1e-3 are computed to some 1e-13
        assert stretched.max() <= stretch_of_log(ball) * (1.0 + 1e-8)
        if spread == 1e-3 and isinstance(manifold, Sphere):
            assert stretched.max() > 0.97 * stretch_of_log(ball), "a constant 3% smaller is refuted"


@pytest.mark.parametrize("manifold", [m for m in MANIFOLDS if m.curvature == 0.0], ids=repr)
def test_without_positive_curvature_logarithms_never_take_points_apart(manifold: Manifold) -> None:
    ball = ball_of(manifold, 0.9)
    assert stretch_of_log(ball) == 1.0
    generator = np.random.default_rng(11)
    u, v = generator.normal(size=(2, 2000, manifold.dim))
    u, v = (w * ball.radius / np.maximum(np.linalg.vector_norm(w, axis=-1, keepdims=True), 1.0) for w in (u, v))
    assert stretch_of_pairs(ball, u, v).max() <= 1.0 + 1e-9


# ---------------------------------------------------------------------- rounding


def rounding_allowed(ball: Ball) -> float:
    """What a measurement adds to the distance of coordinates for the rounding of either."""
    bound = planned(Mean(ball), 50, PureDP(1.0)).bound
    assert bound.tangent_sensitivity is not None
    return 0.5 * (bound.tangent_sensitivity - min(stretch_of_log(ball) * bound.sensitivity, 2.0 * ball.reach))


def mp_function(matrix: Any, function: Any) -> Any:
    values, vectors = mpmath.eigsy(matrix)
    return vectors * mpmath.diag([function(value) for value in values]) * vectors.T


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("k", [2, 4])
def test_coordinates_of_matrices_about_an_ill_conditioned_centre_are_as_exact_as_is_allowed_for(k: int, condition: float) -> None:
    """Fifty digits: ``c = C^(-1/2) log(C^(-1/2) X C^(-1/2))``, whose norm, and whose distances, do not depend on the frame."""
    generator = np.random.default_rng(12)
    q = np.linalg.qr(generator.normal(size=(k, k)))[0]
    center = (q * np.geomspace(1.0, condition, k)) @ q.T
    ball = Ball(SPD(k), 0.5 * (center + center.T), 1.0)
    noise = noise_of(ball, 0.1, "laplace")
    points = ball.clip(SPD(k).move_origin(ball.center, random_points(SPD(k), 6, generator, 1.0)))
    found = noise.coordinates(points)
    allowed = rounding_allowed(ball)
    errors = []
    with mpmath.workdps(50):
        half = mp_function(mpmath.matrix(ball.center.tolist()), lambda value: 1 / mpmath.sqrt(value))
        logs = []
        for point in points:
            middle = half * mpmath.matrix(point.tolist()) * half
            logs.append(mp_function((middle + middle.T) / 2, mpmath.log))
        for i in range(6):
            errors.append(abs(float(mpmath.mnorm(logs[i], "f")) - np.linalg.vector_norm(found[i])))
            for j in range(i):
                true = float(mpmath.mnorm(logs[i] - logs[j], "f"))
                errors.append(0.5 * abs(true - np.linalg.vector_norm(found[i] - found[j])))
    assert max(errors) <= allowed
    assert max(errors) > 1e-18 * condition**0.5, "floats do round, and more so about an ill-conditioned centre"
    assert allowed < 1e-6, "and no more is allowed for than privacy can afford"


def mp_angles(a: Any, b: Any) -> Any:
    """Principal angles of two subspaces in fifty digits, by the singular values of the part of ``b`` outside of ``a``."""
    inner = a.T * b
    sines = sorted(mpmath.svd_r(b - a * inner, compute_uv=False))
    cosines = sorted(mpmath.svd_r(inner, compute_uv=False), reverse=True)
    return [mpmath.atan2(sine, cosine) for sine, cosine in zip(sines, cosines, strict=True)]


def mp_orthonormal(x: Array) -> Any:
    return mpmath.qr(mpmath.matrix(x.tolist()), mode="skinny")[0]


def test_coordinates_of_subspaces_are_as_exact_as_is_allowed_for() -> None:
    """Their length is the root of the sum of squared principal angles, for subspaces that are exactly those of the floats."""
    manifold = Grassmann(2, 5)
    ball = Ball(manifold, random_points(manifold, 1, np.random.default_rng(1), 0.5)[0], 0.7)
    noise, allowed = noise_of(ball, 0.1, "laplace"), rounding_allowed(ball)
    generator = np.random.default_rng(13)
    for scale in (1e-9, 1e-4, 0.1, 0.69):
        u = generator.normal(size=(4, manifold.dim))
        u *= scale / np.linalg.vector_norm(u, axis=-1, keepdims=True)
        points = at(ball, u)
        found = np.linalg.vector_norm(noise.coordinates(points), axis=-1)
        with mpmath.workdps(50):
            base = mp_orthonormal(ball.center)
            for point, length in zip(points, found, strict=True):
                true = mpmath.norm(mpmath.matrix(mp_angles(base, mp_orthonormal(point))), 2)
                assert abs(float(true) - length) <= allowed
    assert allowed < 1e-9


def test_coordinates_of_rotations_are_as_exact_as_is_allowed_for() -> None:
    """In three dimensions by Rodrigues' formula in fifty digits: the vector part of the relative rotation."""
    manifold = Rotations(3)
    ball = Ball(manifold, random_points(manifold, 1, np.random.default_rng(2), 0.8)[0], 1.5)
    noise, allowed = noise_of(ball, 0.1, "laplace"), rounding_allowed(ball)
    generator = np.random.default_rng(14)
    for scale in (1e-9, 1e-4, 0.1, 1.0, 1.49):
        u = generator.normal(size=(6, 3))
        u *= scale / np.linalg.vector_norm(u, axis=-1, keepdims=True)
        points = at(ball, u)
        found = noise.coordinates(points)
        with mpmath.workdps(50):
            vectors = []
            for point in points:
                relative = mpmath.inverse(mpmath.matrix(ball.center.tolist())) * mpmath.matrix(point.tolist())
                axis = mpmath.matrix([relative[j, i] - relative[i, j] for i, j in ((1, 2), (2, 0), (0, 1))]) / 2
                sine = mpmath.norm(axis, 2)
                cosine = (relative[0, 0] + relative[1, 1] + relative[2, 2] - 1) / 2
                vectors.append(axis * (mpmath.atan2(sine, cosine) / sine))
            for i in range(6):
                assert abs(float(mpmath.norm(vectors[i], 2)) - np.linalg.vector_norm(found[i])) <= allowed
                for j in range(i):
                    apart = float(mpmath.norm(vectors[i] - vectors[j], 2))
                    assert abs(apart - np.linalg.vector_norm(found[i] - found[j])) <= 2.0 * allowed
    assert allowed < 1e-9
