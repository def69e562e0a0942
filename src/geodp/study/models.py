"""The paper's random data, and means of many data sets at once."""

from __future__ import annotations

import math

import numpy as np

from geodp.inputs import Array
from geodp.manifolds import SPD, Manifold, Sphere
from geodp.manifolds.ball import Ball
from geodp.manifolds.functions import angle_over_sine
from geodp.measurement import Measurement
from geodp.noise.families import Laplace, Law
from geodp.privacy.notions import PureDP
from geodp.statistics.mean import FrechetMean


def laplace_for(ball: Ball, n: int, epsilon: float) -> Laplace:
    """The Laplace law that makes the mean of ``n`` records in the ball private with pure ``epsilon``."""
    return Laplace(ball.manifold, Measurement(FrechetMean(ball), n, PureDP(epsilon), "intrinsic", "laplace").noise.scale)


NORTH = np.array([0.0, 0.0, 1.0])
#: The public balls of the paper's two examples.
MATRICES = Ball(SPD(2), np.eye(2), 1.5)
CAP = Ball(Sphere(2), NORTH, math.pi / 8.0)


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
    """The Fréchet means of many data sets in the ball: ``(sets, n, *point_shape)`` to ``(sets, *point_shape)``.

    Accurate to about 1e-12, for simulations only: :func:`geodp.frechet_mean` has a proven error bound.
    """
    if isinstance(ball.manifold, SPD) and ball.manifold.k == 2:
        return _matrix_means(records)
    if isinstance(ball.manifold, Sphere):
        return _quadric_means(records, np.ones(ball.manifold.d + 1))
    return _gradient_means(ball.manifold, records)


def _matrix_means(records: Array) -> Array:
    """SPD(2) is a line (the logarithm of the determinant) times a hyperbolic plane (the matrices of determinant one)."""
    a, b, c = records[..., 0, 0], records[..., 1, 1], records[..., 0, 1]
    root = np.sqrt(a * b - c * c)
    plane = np.stack([0.5 * (a + b), 0.5 * (a - b), c], axis=-1) / root[..., None]
    t, x, y = np.moveaxis(_quadric_means(plane, np.array([1.0, -1.0, -1.0])), -1, 0)
    unit = np.stack([t + x, y, y, t - x], axis=-1).reshape(*t.shape, 2, 2)
    return np.exp(np.log(root).mean(axis=-1))[..., None, None] * unit


def _quadric_means(records: Array, signature: Array) -> Array:
    """Means on the unit sphere or hyperboloid: ``p`` is proportional to the sum of ``w x`` with ``w = angle/sin(angle)``."""
    point = _normalised(records.sum(axis=-2), signature)
    for _ in range(200):
        cosine = np.maximum((records @ (signature * point)[..., None])[..., 0], -1.0)
        weights = angle_over_sine(cosine) if signature[-1] > 0.0 else _length_over_sinh(cosine)
        moved = _normalised((weights[..., None, :] @ records)[..., 0, :], signature)
        change = float(np.abs(moved - point).max())
        point = moved
        if change < 1e-13:
            break
    return point


def _normalised(x: Array, signature: Array) -> Array:
    return x / np.sqrt((signature * x * x).sum(axis=-1, keepdims=True))


def _length_over_sinh(cosh: Array) -> Array:
    excess = np.maximum(cosh - 1.0, 0.0)
    safe = np.maximum(excess, 1e-8)
    return np.where(excess > 1e-8, np.arccosh(1.0 + safe) / np.sqrt(safe * (2.0 + safe)), 1.0 - excess / 3.0)


def _gradient_means(manifold: Manifold, records: Array) -> Array:
    """Gradient descent along the mean logarithm, with shorter steps where the curvature is negative."""
    point = records[:, 0]
    for _ in range(500):
        step = manifold.raw_log(point[:, None], records).mean(axis=1)
        size = manifold.raw_norm(point, step)
        point = manifold.raw_exp(point, step if manifold.lowest_curvature == 0.0 else 0.7 * step)
        if float(size.max()) < 1e-12:
            break
    return manifold.raw_project(point)


def noisy(law: Law, centers: Array, draws: int, rng: np.random.Generator) -> Array:
    """``draws`` draws about each of many centres, shape ``(centers, draws, *point_shape)``.

    The law is the same in every direction, so any isometry may carry draws about the origin to a centre.
    """
    manifold = law.manifold
    about_origin = law.sample(manifold.origin, (len(centers), draws), rng)
    return manifold.raw_move_origin(centers[:, None], about_origin)


def standard_error(values: Array) -> float:
    """The standard error of the mean of independent values."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))
