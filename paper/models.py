"""The paper's random data, and the noise about many means at once."""

from __future__ import annotations

import math

import numpy as np

from geodp import SPD, Ball, Laplace, Sphere, frechet_mean, frechet_means, plan
from geodp.auditing import worst_case_pair
from geodp.inputs import Array
from geodp.noise.families import Law

NORTH = np.array([0.0, 0.0, 1.0])
#: The public balls of the paper's two examples.
MATRICES = Ball(SPD(2), np.eye(2), 1.5)
CAP = Ball(Sphere(2), NORTH, math.pi / 8.0)


def laplace_for(ball: Ball, n: int, epsilon: float) -> Laplace:
    """The Laplace law that makes the mean of ``n`` records in the ball private with pure ``epsilon``."""
    return Laplace(ball.manifold, plan(ball, n, epsilon, mechanism="intrinsic", law="laplace").scale)


def wishart_records(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """2x2 Wishart matrices with scale I/2 and two degrees of freedom, drawn again until within 1.5 of the identity."""
    wanted = math.prod(shape)
    kept: list[Array] = []
    while (have := sum(map(len, kept))) < wanted:
        # the two rows of the factor f of x = f f'
        p, q, s, t = rng.standard_normal((4, 3 * (wanted - have) + 64)) * math.sqrt(0.5)
        half_trace, determinant = 0.5 * (p * p + q * q + s * s + t * t), (p * t - q * s) ** 2
        large = half_trace + np.sqrt(np.maximum(half_trace**2 - determinant, 0.0))
        near = np.hypot(np.log(large), np.log(determinant / large)) < MATRICES.radius
        p, q, s, t = p[near], q[near], s[near], t[near]
        across = p * s + q * t
        kept.append(np.stack([p * p + q * q, across, across, s * s + t * t], axis=-1))
    return np.concatenate(kept)[:wanted].reshape(*shape, 2, 2)


def cap_records(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Directions with a polar angle uniform on [0, pi/8] and a uniform azimuth."""
    polar, azimuth = rng.uniform(0.0, CAP.radius, shape), rng.uniform(0.0, 2.0 * math.pi, shape)
    return np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=-1)


#: The paper's two examples: the public ball, and the function that draws records in it.
EXAMPLES = {"SPD(2)": (MATRICES, wishart_records), "S^2": (CAP, cap_records)}


def ball_records(ball: Ball, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Records on any manifold: distance to the centre uniform on [0, r], uniform direction."""
    manifold = ball.manifold
    coordinates = rng.standard_normal((*shape, manifold.dim))
    coordinates *= rng.uniform(0.0, ball.radius, (*shape, 1)) / np.linalg.vector_norm(coordinates, axis=-1, keepdims=True)
    return manifold.raw_exp(ball.center, manifold.raw_tangent(ball.center, coordinates))


def means(ball: Ball, records: Array) -> Array:
    """The Fréchet means of many data sets in the ball: ``(sets, n, *point_shape)`` to ``(sets, *point_shape)``."""
    sets, n = records.shape[:2]
    return frechet_means(records.reshape(sets * n, *records.shape[2:]), ball, by=np.repeat(np.arange(sets), n)).points


def worst_means(ball: Ball, n: int) -> tuple[Array, Array]:
    """The means of neighbours that are as far apart as one record can move them."""
    first, second = (frechet_mean(side, ball).point for side in worst_case_pair(ball, n))
    return first, second


def noisy(law: Law, centers: Array, draws: int, rng: np.random.Generator) -> Array:
    """``draws`` draws about each of many centres, shape ``(centers, draws, *point_shape)``.

    The law is the same in every direction, so any isometry may carry draws about the origin to a centre.
    """
    manifold = law.manifold
    about_origin = law.sample(manifold.origin, (len(centers), draws), rng)
    return manifold.raw_move_origin(centers[:, None], about_origin)
