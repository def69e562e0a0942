r"""The ambient baselines of Reimherr, Bharath and Soto (2021): Euclidean noise on the coordinates of the mean.

*Public*, *private* and *neighbours* are as in ``geodp.noise.intrinsic``. A point is written as a vector of an ambient
space (a matrix by its upper triangle, a direction by its Cartesian coordinates) and noise with density proportional to
``exp(-|y - mean|/sigma)`` is added. The records lie in a Euclidean ball of radius ``r_E`` about the centre: ``e^r - 1`` for
positive-definite matrices about the identity, ``2 R sin(r/(2 R))`` for a sphere of radius ``R``. The scale is
``sigma = 2 r_E/(n epsilon)``.

*What is private.* The **arithmetic** mean of the coordinates: replacing one record moves it by at most ``2 r_E/n``, so by the
triangle inequality the densities differ by a factor of at most ``exp(epsilon)``.

*What is not.* The paper adds the same noise to the coordinates of the **Fréchet** mean, and so do we when we compare. That mean
can move further. On ``S^2`` with ``r = pi/8`` it moves by up to ``0.828/n`` against ``2 r_E/n = 0.780/n``. On ``SPD(2)`` with
``r = 1.5``, let all records be ``diag(e^r, 1)`` and one of them become ``diag(e^-r, 1)``: the mean moves by
``e^r (1 - e^(-2 r/n))``, about ``13.4/n`` against ``7.0/n``. So the baseline has less noise than its epsilon requires. With
``statistic="frechet"`` the noise is enough for the Fréchet mean: the sensitivity is ``geodp.sensitivity``'s sharp bound times
the largest stretch of the coordinates in the ball, along whose geodesics the means move.

Draws are floating point and seeded. They are for studies, never for a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from geodp.inputs import Array, whole_number
from geodp.manifolds import SPD, Grassmann, Hyperbolic, Manifold, PlanarShapes, Rotations, Sphere
from geodp.manifolds.ball import Ball
from geodp.noise.flat import FlatNoise
from geodp.statistics.sensitivity import sensitivity


@final
@dataclass(frozen=True)
class AmbientLaplace:
    """Euclidean Laplace noise on ambient coordinates. The module says what it makes private.

    Symmetric positive-definite matrices, subspaces (their projectors) and shapes (their projectors ``z z*``) are written by their
    upper triangles, rotations by all their entries, directions by Cartesian coordinates, points of hyperbolic space by the
    coordinates that determine the others.

    >>> from geodp import Ball, Sphere
    >>> noise = AmbientLaplace(Ball(Sphere(2), [0.0, 0.0, 1.0], np.pi / 8), n=100, epsilon=1.0)
    >>> noise.dimension, round(noise.scale, 6)
    (3, 0.007804)
    """

    ball: Ball
    n: int
    epsilon: float
    statistic: Literal["arithmetic", "frechet"] = "arithmetic"

    def __post_init__(self) -> None:
        whole_number(self.n, 1, "the number of records n")
        if self.statistic not in ("arithmetic", "frechet"):
            raise ValueError(f"the statistic must be arithmetic or frechet but is {self.statistic!r}")
        if not 0.0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon must be positive and finite but is {self.epsilon}")
        _embedding(self.ball.manifold).radius(self.ball)

    @property
    def dimension(self) -> int:
        """The number of coordinates that get noise."""
        return _embedding(self.ball.manifold).dimension

    @property
    def sensitivity(self) -> float:
        """How far one record moves the coordinates of the mean: ``2 r_E/n`` for the arithmetic one."""
        embedding = _embedding(self.ball.manifold)
        if self.statistic == "frechet":
            return embedding.stretch(self.ball) * sensitivity(self.ball, self.n)
        return 2.0 * embedding.radius(self.ball) / self.n

    @property
    def scale(self) -> float:
        return self.sensitivity / self.epsilon

    def coordinates(self, x: ArrayLike) -> Array:
        """Points as vectors of the ambient space, shape ``(..., dimension)``."""
        return _embedding(self.ball.manifold).write(np.asarray(x, dtype=np.float64))

    def sample(self, means: ArrayLike, rng: np.random.Generator) -> Array:
        """Noisy coordinates, one draw for each of the points ``means``. For study only: the arithmetic is float64."""
        exact = self.coordinates(means)
        size = math.prod(exact.shape[:-1])
        return exact + FlatNoise(self.dimension, self.scale, "laplace").sample(size, rng).reshape(exact.shape)

    def nearest(self, coordinates: ArrayLike) -> Array:
        """The points of the manifold that belong to noisy coordinates; NaN if there is none.

        This is the nearest point, except on hyperbolic space, where the coordinates are a chart. Positive-definite matrices are
        an open set, so a matrix outside has no nearest one.
        """
        return _embedding(self.ball.manifold).read(np.asarray(coordinates, dtype=np.float64))


# ---------------------------------------------------------------------- how points are written


class _Embedding(NamedTuple):
    """Ambient coordinates.

    Their number; for a geodesic ball, the radius of a Euclidean ball that contains it, and a bound on how much the coordinates
    stretch lengths in it; and the map to coordinates and back.
    """

    dimension: int
    radius: Callable[[Ball], float]
    stretch: Callable[[Ball], float]
    write: Callable[[Array], Array]
    read: Callable[[Array], Array]


@singledispatch
def _embedding(manifold: Manifold) -> _Embedding:
    raise ValueError(f"there is no ambient baseline on {manifold}")


@_embedding.register
def _(manifold: Sphere) -> _Embedding:
    def chord(ball: Ball) -> float:
        return 2.0 * manifold.radius * math.sin(ball.radius / (2.0 * manifold.radius))

    return _Embedding(manifold.d + 1, chord, lambda _: 1.0, np.asarray, manifold.raw_project)


@_embedding.register
def _(manifold: Hyperbolic) -> _Embedding:
    def chord(ball: Ball) -> float:
        if not np.array_equal(ball.center, manifold.origin):
            raise ValueError(f"the ambient baseline on {manifold} needs a ball about the origin")
        return math.sinh(ball.radius)

    def read(coordinates: Array) -> Array:
        return manifold.raw_project(np.concatenate([np.ones_like(coordinates[..., :1]), coordinates], axis=-1))

    return _Embedding(manifold.d, chord, lambda ball: math.cosh(ball.radius), lambda x: x[..., 1:], read)


@_embedding.register
def _(manifold: SPD) -> _Embedding:
    def chord(ball: Ball) -> float:
        # x = c^(1/2) y c^(1/2) with y about the identity: the farthest y is stretched along the longest axis of c
        return float(np.linalg.eigvalsh(ball.center)[-1]) * math.expm1(ball.radius)

    def stretch(ball: Ball) -> float:
        # x^(1/2) w x^(1/2) is at most as long as w times the largest eigenvalue of x, which is largest at the boundary
        return float(np.linalg.eigvalsh(ball.center)[-1]) * math.exp(ball.radius)

    def read(coordinates: Array) -> Array:
        matrices = _symmetric(coordinates, manifold.k)
        definite = np.linalg.eigvalsh(matrices)[..., 0] > 0.0
        return np.where(definite[..., None, None], matrices, np.nan)

    return _Embedding(manifold.dim, chord, stretch, _upper, read)


@_embedding.register
def _(manifold: Rotations) -> _Embedding:
    def chord(ball: Ball) -> float:
        # |R - 1|^2 = 8 sum sin^2(angle/2) with sum angle^2 = r^2; sin^2 is concave in the squared angle: equal ones are farthest
        planes = manifold.n // 2
        return math.sqrt(8.0 * planes) * math.sin(ball.radius / (2.0 * math.sqrt(planes)))

    def read(coordinates: Array) -> Array:
        return manifold.raw_project(coordinates.reshape(*coordinates.shape[:-1], manifold.n, manifold.n))

    return _Embedding(manifold.n**2, chord, _root_two, lambda x: x.reshape(*x.shape[:-2], -1), read)


@_embedding.register
def _(manifold: Grassmann) -> _Embedding:
    def chord(ball: Ball) -> float:
        # |P - Q|^2 = 2 sum sin^2(angle) over the principal angles, farthest again when they are equal
        return math.sqrt(2.0 * manifold.p) * math.sin(ball.radius / math.sqrt(manifold.p))

    def read(coordinates: Array) -> Array:
        return np.linalg.eigh(_symmetric(coordinates, manifold.m))[1][..., -manifold.p :]

    size = manifold.m * (manifold.m + 1) // 2
    return _Embedding(size, chord, _root_two, lambda x: _upper(x @ np.swapaxes(x, -1, -2)), read)


@_embedding.register
def _(manifold: PlanarShapes) -> _Embedding:
    # an orthonormal basis of the configurations with mean zero, so that no noise goes into the translation
    k = manifold.landmarks
    basis = np.linalg.qr(np.eye(k) - 1.0 / k)[0][:, : k - 1]
    pairs = np.triu_indices(k - 1, 1)

    def write(x: Array) -> Array:
        z = (x[..., 0] + 1j * x[..., 1]) @ basis
        projector = z[..., :, None] * z[..., None, :].conj()
        return np.concatenate([_upper(projector.real), projector.imag[..., *pairs]], axis=-1)

    def read(coordinates: Array) -> Array:
        half = k * (k - 1) // 2
        imaginary = np.zeros((*coordinates.shape[:-1], k - 1, k - 1))
        imaginary[..., *pairs] = coordinates[..., half:]
        hermitian = _symmetric(coordinates[..., :half], k - 1) + 1j * (imaginary - np.swapaxes(imaginary, -1, -2))
        z = np.linalg.eigh(hermitian)[1][..., -1] @ basis.T
        return np.stack([z.real, z.imag], axis=-1)

    return _Embedding((k - 1) ** 2, lambda ball: math.sqrt(2.0) * math.sin(ball.radius), _root_two, write, read)


def _root_two(_: Ball) -> float:
    """For rotations and projectors, in the metrics of the library: a small angle moves the matrix by root two times it."""
    return math.sqrt(2.0)


def _upper(matrices: Array) -> Array:
    return matrices[..., *np.triu_indices(matrices.shape[-1])]


def _symmetric(coordinates: Array, size: int) -> Array:
    rows, columns = np.triu_indices(size)
    matrices = np.empty((*coordinates.shape[:-1], size, size))
    matrices[..., rows, columns] = coordinates
    matrices[..., columns, rows] = coordinates
    return matrices
