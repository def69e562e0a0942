"""The ambient baselines: coordinates, radii, noise, and what they make private."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import MANIFOLDS, random_points
from scipy.stats import gamma, kstest

from geodp import (
    SPD,
    Ball,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Rotations,
    Sphere,
    frechet_mean,
    sensitivity,
)
from geodp.inputs import Array
from geodp.noise.flat import FlatNoise
from paper.ambient import AmbientLaplace

EMBEDDED = [m for m in MANIFOLDS if isinstance(m, Sphere | Hyperbolic | SPD | Rotations | Grassmann | PlanarShapes)]


def ball_of(manifold: Manifold) -> Ball:
    limit = Ball(manifold, manifold.origin, 1e-3).max_radius
    return Ball(manifold, manifold.origin, min(1.0, 0.8 * limit))


def boundary(ball: Ball, size: int, rng: np.random.Generator) -> Array:
    coordinates = rng.normal(size=(size, ball.manifold.dim))
    coordinates *= ball.radius / np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
    return ball.manifold.exp(ball.center, ball.manifold.tangent(ball.center, coordinates))


@pytest.mark.parametrize("dimension", [1, 2, 3, 10])
def test_the_noise_has_the_density_of_the_mechanism(dimension: int) -> None:
    """Gamma radius and isotropic direction. False alarms: 1e-4 a test and 6e-5 a coordinate; a scale 3% off is rejected."""
    y = FlatNoise(dimension, 0.7, "laplace").sample(40_000, np.random.default_rng(1))
    radius = np.linalg.vector_norm(y, axis=-1)
    assert kstest(radius, gamma(dimension, scale=0.7).cdf).pvalue > 1e-4
    assert kstest(radius, gamma(dimension, scale=0.7 * 1.03).cdf).pvalue < 1e-4
    directions = y / radius[:, None]
    assert (np.abs(directions.mean(axis=0)) < 4.0 / math.sqrt(dimension * 40_000)).all()


@pytest.mark.parametrize("manifold", EMBEDDED, ids=repr)
def test_points_come_back_from_their_coordinates(manifold: Manifold) -> None:
    noise = AmbientLaplace(ball_of(manifold), 10, 1.0)
    x = random_points(manifold, 20, np.random.default_rng(2))
    written = noise.coordinates(x)
    assert written.shape == (20, noise.dimension)
    np.testing.assert_allclose(manifold.raw_dist(x, noise.nearest(written)), 0.0, atol=1e-7)


@pytest.mark.parametrize("manifold", EMBEDDED, ids=repr)
def test_the_euclidean_ball_holds_the_geodesic_one(manifold: Manifold) -> None:
    ball = ball_of(manifold)
    noise = AmbientLaplace(ball, 1, 1.0)
    far = np.linalg.vector_norm(
        noise.coordinates(boundary(ball, 3000, np.random.default_rng(3))) - noise.coordinates(ball.center), axis=-1
    )
    assert far.max() <= 0.5 * noise.sensitivity * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("ball", "farthest"),
    [
        (Ball(SPD(3), np.eye(3), 1.2), np.diag([math.exp(1.2), 1.0, 1.0])),
        (Ball(SPD(2), np.diag([3.0, 0.5]), 0.7), np.diag([3.0 * math.exp(0.7), 0.5])),
        (Ball(Sphere(2, curvature=4.0), [0.0, 0.0, 0.5], 0.3), [0.5 * math.sin(0.6), 0.0, 0.5 * math.cos(0.6)]),
        (Ball(Hyperbolic(2), [1.0, 0.0, 0.0], 0.9), [math.cosh(0.9), math.sinh(0.9), 0.0]),
    ],
    ids=lambda value: repr(value.manifold) if isinstance(value, Ball) else "",
)
def test_the_radius_of_the_euclidean_ball_is_attained(ball: Ball, farthest: Array) -> None:
    noise = AmbientLaplace(ball, 1, 1.0)
    assert ball.manifold.dist(ball.center, farthest) == pytest.approx(ball.radius, rel=1e-12)
    apart = np.linalg.vector_norm(noise.coordinates(farthest) - noise.coordinates(ball.center))
    assert apart == pytest.approx(0.5 * noise.sensitivity, rel=1e-12)


def test_equal_angles_are_farthest_among_rotations_and_subspaces() -> None:
    """Frobenius distances, of which the coordinates of a projector hold each off-diagonal entry once."""
    t = 0.5 / math.sqrt(2.0)
    turn = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
    both = np.block([[turn, np.zeros((2, 2))], [np.zeros((2, 2)), turn]])
    assert Rotations(4).dist(np.eye(4), both) == pytest.approx(0.5)
    assert np.linalg.norm(both - np.eye(4)) == pytest.approx(
        0.5 * AmbientLaplace(Ball(Rotations(4), np.eye(4), 0.5), 1, 1.0).sensitivity
    )
    tilted = np.array([[math.cos(t), 0.0], [0.0, math.cos(t)], [math.sin(t), 0.0], [0.0, math.sin(t)]])
    assert Grassmann(2, 4).dist(np.eye(4, 2), tilted) == pytest.approx(0.5)
    apart = np.linalg.norm(tilted @ tilted.T - np.diag([1.0, 1.0, 0.0, 0.0]))
    assert apart == pytest.approx(0.5 * AmbientLaplace(Ball(Grassmann(2, 4), np.eye(4, 2), 0.5), 1, 1.0).sensitivity)


@pytest.mark.parametrize("manifold", EMBEDDED, ids=repr)
def test_one_record_moves_the_arithmetic_mean_by_no_more_than_the_sensitivity(manifold: Manifold) -> None:
    ball, rng = ball_of(manifold), np.random.default_rng(4)
    noise = AmbientLaplace(ball, 5, 1.0)
    written = noise.coordinates(boundary(ball, 2000, rng))
    # neighbours share four records, so their arithmetic means differ by a fifth of what the fifth records do
    apart = np.linalg.vector_norm(written[:1000] - written[1000:], axis=-1) / 5
    assert apart.max() <= noise.sensitivity * (1.0 + 1e-12)


@pytest.mark.parametrize("manifold", EMBEDDED, ids=repr)
def test_coordinates_stretch_no_length_in_the_ball_more_than_stated(manifold: Manifold) -> None:
    """Difference quotients along short geodesics; their error is far below the slack of 1e-4."""
    ball, rng = ball_of(manifold), np.random.default_rng(5)
    noise = AmbientLaplace(ball, 7, 1.0, "frechet")
    stretch = noise.sensitivity / sensitivity(ball, 7)
    x = np.concatenate([boundary(ball, 300, rng), ball.clip(random_points(manifold, 300, rng))])
    step = rng.normal(size=(600, manifold.dim))
    step *= 1e-5 / np.linalg.vector_norm(step, axis=-1, keepdims=True)
    moved = manifold.raw_exp(x, manifold.raw_tangent(x, step))
    assert (
        np.linalg.vector_norm(noise.coordinates(moved) - noise.coordinates(x), axis=-1) <= 1e-5 * stretch * (1.0 + 1e-4)
    ).all()


def test_the_published_scale_is_too_small_for_the_frechet_mean_and_ours_is_not() -> None:
    ball, n = Ball(SPD(2), np.eye(2), 1.5), 100
    same = np.repeat(np.diag([math.exp(1.5), 1.0])[None], n, axis=0)
    other = np.concatenate([same[1:], np.diag([math.exp(-1.5), 1.0])[None]])
    published, enough = AmbientLaplace(ball, n, 1.0), AmbientLaplace(ball, n, 1.0, "frechet")
    first, second = (published.coordinates(frechet_mean(x, ball).point) for x in (same, other))
    apart = np.linalg.vector_norm(first - second)
    assert apart == pytest.approx(math.exp(1.5) * -math.expm1(-3.0 / n), rel=1e-9)
    assert apart > 1.9 * published.sensitivity
    assert apart <= enough.sensitivity


def mean_length(ball: Ball, n: int, epsilon: float) -> float:
    """The expected length of the noise: Laplace noise has a Gamma radius."""
    noise = AmbientLaplace(ball, n, epsilon)
    return noise.dimension * noise.scale


CAP = Ball(Sphere(2), [0.0, 0.0, 1.0], math.pi / 8)


@pytest.mark.parametrize(("n", "expected"), [(25, 0.09364), (50, 0.04682), (100, 0.02341), (200, 0.01171), (500, 0.00468)])
def test_noise_on_the_sphere_is_that_of_the_paper(n: int, expected: float) -> None:
    assert mean_length(CAP, n, 1.0) == pytest.approx(expected, abs=6e-6)
    assert mean_length(CAP, n, 2.0) == pytest.approx(3 * 4.0 * math.sin(math.pi / 16) / (2.0 * n), rel=1e-12)


def test_noise_on_a_sphere_of_another_size_scales_with_it() -> None:
    small = Ball(Sphere(2, curvature=4.0), [0.0, 0.0, 0.5], math.pi / 16)
    assert mean_length(small, 100, 1.0) == pytest.approx(0.5 * mean_length(CAP, 100, 1.0), rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_noise_on_matrices_is_that_of_the_paper(k: int) -> None:
    found = mean_length(Ball(SPD(k), np.eye(k), 1.0), 90, 1.5)
    assert found == pytest.approx(k * (k + 1) / 2 * 2.0 * (math.e - 1.0) / (90 * 1.5), rel=1e-12)


def test_matrices_that_are_not_positive_definite_have_no_nearest_point() -> None:
    noise = AmbientLaplace(Ball(SPD(2), np.eye(2), 1.0), 10, 1.0)
    read = noise.nearest([[1.0, 2.0, 1.0], [1.0, 0.5, 1.0]])
    assert np.isnan(read[0]).all()
    np.testing.assert_array_equal(read[1], [[1.0, 0.5], [0.5, 1.0]])


def test_draws_are_one_a_mean_and_follow_the_seed() -> None:
    noise = AmbientLaplace(Ball(Rotations(3), np.eye(3), 0.5), 10, 1.0)
    means = np.broadcast_to(np.eye(3), (4, 6, 3, 3))
    first, again = (noise.sample(means, np.random.default_rng(6)) for _ in range(2))
    assert first.shape == (4, 6, 9)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first.reshape(-1, 9), axis=0)) == 24


@pytest.mark.parametrize(
    ("ball", "more", "words"),
    [
        (Ball(Euclidean(2), [0.0, 0.0], 1.0), {}, "no ambient baseline on"),
        (Ball(Hyperbolic(1), [math.cosh(0.1), math.sinh(0.1)], 1.0), {}, "ball about the origin"),
        (Ball(Sphere(2), [0.0, 0.0, 1.0], 0.3), {"epsilon": 0.0}, "epsilon must be positive"),
        (Ball(Sphere(2), [0.0, 0.0, 1.0], 0.3), {"n": 0}, "number of records"),
        (Ball(Sphere(2), [0.0, 0.0, 1.0], 0.3), {"statistic": "median"}, "arithmetic or frechet"),
    ],
)
def test_bad_input_gets_a_sentence(ball: Ball, more: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"n": 10, "epsilon": 1.0, **more}
    with pytest.raises(ValueError, match=words):
        AmbientLaplace(ball, **arguments)
