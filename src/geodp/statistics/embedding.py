r"""Compact manifolds in Euclidean spaces: points as vectors, and the nearest point to a vector.

=================  ==========================================  ==================================  ============================
manifold           vector                                      diameter                            nearest point
=================  ==========================================  ==================================  ============================
sphere             Cartesian coordinates                       twice the radius                    direction
rotations          all entries                                 ``2 sqrt(n)``, odd n: ``n - 1``     polar factor, orientation kept
subspaces          projector                                   ``sqrt(2 min(p, m - p))``           leading eigenvectors
shapes             projector ``z z*``                          ``sqrt(2)``                         leading eigenvector
angles, products   one after another                           root of the sum of squares          factor by factor
=================  ==========================================  ==================================  ============================

Symmetric and Hermitian matrices are written isometrically: off-diagonal entries times the root of two.

*How far the nearest point moves.* Let a vector be moved by at most ``q``. On a sphere the direction of a vector of length ``l
> q`` turns by at most ``arcsin(q/l)``. The projector onto the leading eigenvectors of a matrix with a gap ``g`` after them
moves at a speed of at most ``1/(sqrt(2) g)`` in geodesic distance, for only the off-diagonal block counts, twice; and the gap
shrinks by at most ``sqrt(2)`` times the distance: so it moves by at most ``log(g/(g - sqrt(2) q))/2``. The rotation next to a
matrix whose two smallest signed singular values add up to ``g`` moves by at most ``log(g/(g - sqrt(2) q))``, by the same
argument with the speed ``sqrt(2)/g``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import final

import numpy as np
from numpy.typing import NDArray

from geodp.inputs import Array
from geodp.manifolds import Grassmann, Manifold, PlanarShapes, Product, Rotations, Sphere, Torus


class Embedding(ABC):
    """A compact manifold in a Euclidean space."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension of the space."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """The largest distance of two points in the space."""

    @abstractmethod
    def write(self, points: Array) -> Array:
        """Points as vectors, a row each."""

    @abstractmethod
    def nearest(self, vector: Array) -> Array:
        """The point next to one vector: a function of the vector alone, also where several are equally near."""

    @abstractmethod
    def turn(self, vector: Array, q: float) -> float:
        """How far, in geodesic distance, the nearest point may be from that of any vector within ``q``; infinite if anywhere."""


@singledispatch
def embedding_of(manifold: Manifold) -> Embedding:
    """The embedding of a manifold, or a sentence if there is none."""
    raise ValueError(f"there is no projected mean on {manifold}: it is for compact spaces; give a wide ball instead")


def _integrated(gap: float, q: float, speed: float) -> float:
    left = gap - math.sqrt(2.0) * q
    return speed * math.log(gap / left) if left > 0.0 else math.inf


@embedding_of.register(Sphere)
@final
@dataclass(frozen=True)
class _Sphere(Embedding):
    manifold: Sphere

    @property
    def dim(self) -> int:
        return self.manifold.d + 1

    @property
    def diameter(self) -> float:
        return 2.0 * self.manifold.radius

    def write(self, points: Array) -> Array:
        return points

    def nearest(self, vector: Array) -> Array:
        return self.manifold.raw_project(vector) if np.any(vector) else self.manifold.origin

    def turn(self, vector: Array, q: float) -> float:
        length = float(np.linalg.vector_norm(vector))
        return self.manifold.radius * math.asin(q / length) if q < length else math.inf


@embedding_of.register(Rotations)
@final
@dataclass(frozen=True)
class _Rotations(Embedding):
    manifold: Rotations

    @property
    def dim(self) -> int:
        return self.manifold.n**2

    @property
    def diameter(self) -> float:
        return 2.0 * math.sqrt(self.manifold.n - self.manifold.n % 2)

    def write(self, points: Array) -> Array:
        return points.reshape(*points.shape[:-2], -1)

    def nearest(self, vector: Array) -> Array:
        n = self.manifold.n
        left, _, right = np.linalg.svd(vector.reshape(n, n))
        left[:, -1] *= np.sign(np.linalg.det(left @ right))
        return self.manifold.raw_project(left @ right)

    def turn(self, vector: Array, q: float) -> float:
        matrix = vector.reshape(self.manifold.n, self.manifold.n)
        *_, second, least = np.linalg.svd(matrix, compute_uv=False)
        return _integrated(float(second + least * np.sign(np.linalg.det(matrix))), q, 1.0)


@embedding_of.register(Grassmann)
@final
@dataclass(frozen=True)
class _Grassmann(Embedding):
    manifold: Grassmann

    @property
    def dim(self) -> int:
        return self.manifold.m * (self.manifold.m + 1) // 2

    @property
    def diameter(self) -> float:
        p, m = self.manifold.p, self.manifold.m
        return math.sqrt(2.0 * min(p, m - p))

    def write(self, points: Array) -> Array:
        projectors = points @ np.swapaxes(points, -1, -2)
        i, j = np.triu_indices(self.manifold.m)
        return projectors[..., i, j] * np.where(i == j, 1.0, math.sqrt(2.0))

    def _matrix(self, vector: Array) -> Array:
        i, j = np.triu_indices(self.manifold.m)
        matrix = np.zeros((self.manifold.m, self.manifold.m))
        matrix[i, j] = matrix[j, i] = vector * np.where(i == j, 1.0, math.sqrt(0.5))
        return matrix

    def nearest(self, vector: Array) -> Array:
        vectors = np.linalg.eigh(self._matrix(vector))[1][:, self.manifold.m - self.manifold.p :]
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None, :], axis=0)
        return np.ascontiguousarray(vectors * np.sign(largest))

    def turn(self, vector: Array, q: float) -> float:
        values = np.linalg.eigvalsh(self._matrix(vector))
        p = self.manifold.p
        return _integrated(float(values[-p] - values[-p - 1]), q, 0.5)


@embedding_of.register(PlanarShapes)
@final
@dataclass(frozen=True)
class _PlanarShapes(Embedding):
    manifold: PlanarShapes

    @property
    def dim(self) -> int:
        return self.manifold.landmarks**2

    @property
    def diameter(self) -> float:
        return math.sqrt(2.0)

    def write(self, points: Array) -> Array:
        z = points[..., 0] + 1j * points[..., 1]
        outer = z[..., :, None] * z[..., None, :].conj()
        i, j = np.triu_indices(self.manifold.landmarks, 1)
        diagonal = np.diagonal(outer.real, axis1=-2, axis2=-1)
        above = math.sqrt(2.0) * outer[..., i, j]
        return np.concatenate([diagonal, above.real, above.imag], axis=-1)

    def _matrix(self, vector: Array) -> NDArray[np.complex128]:
        k = self.manifold.landmarks
        i, j = np.triu_indices(k, 1)
        above = math.sqrt(0.5) * (vector[k : k + len(i)] + 1j * vector[k + len(i) :])
        matrix = np.zeros((k, k), dtype=np.complex128)
        matrix[i, j], matrix[j, i] = above, above.conj()
        matrix[np.arange(k), np.arange(k)] = vector[:k]
        centred = np.eye(k) - 1.0 / k  # noise has no business in the translations
        return centred @ matrix @ centred

    def nearest(self, vector: Array) -> Array:
        z = np.linalg.eigh(self._matrix(vector))[1][:, -1]
        largest = z[np.abs(z).argmax()]
        z = z * (np.conj(largest) / np.abs(largest))
        return self.manifold.raw_project(np.stack([z.real, z.imag], axis=-1))

    def turn(self, vector: Array, q: float) -> float:
        # the translation is an eigenvector of value 0 by construction: it is no part of the space
        values = np.sort(np.linalg.eigvalsh(self._matrix(vector) - np.full((1, 1), 1e3 / self.manifold.landmarks)))
        return _integrated(float(values[-1] - values[-2]), q, 0.5)


@embedding_of.register(Torus)
@final
@dataclass(frozen=True)
class _Torus(Embedding):
    manifold: Torus

    @property
    def dim(self) -> int:
        return 2 * self.manifold.d

    @property
    def diameter(self) -> float:
        return 2.0 * math.sqrt(self.manifold.d)

    def write(self, points: Array) -> Array:
        return points.reshape(*points.shape[:-2], -1)

    def nearest(self, vector: Array) -> Array:
        rows = vector.reshape(self.manifold.d, 2)
        return self.manifold.raw_project(np.where(rows.any(axis=-1, keepdims=True), rows, self.manifold.origin))

    def turn(self, vector: Array, q: float) -> float:
        lengths = np.linalg.vector_norm(vector.reshape(self.manifold.d, 2), axis=-1)
        return math.sqrt(sum(math.asin(q / length) ** 2 for length in lengths)) if q < lengths.min() else math.inf


@embedding_of.register(Product)
@final
@dataclass(frozen=True)
class _Product(Embedding):
    manifold: Product

    @property
    def _factors(self) -> list[Embedding]:
        return [embedding_of(factor) for factor in self.manifold.factors]

    @property
    def dim(self) -> int:
        return sum(factor.dim for factor in self._factors)

    @property
    def diameter(self) -> float:
        return math.sqrt(sum(factor.diameter**2 for factor in self._factors))

    def write(self, points: Array) -> Array:
        parts = zip(self._factors, self.manifold.raw_split(points), strict=True)
        return np.concatenate([factor.write(part) for factor, part in parts], axis=-1)

    def _parts(self, vector: Array) -> list[tuple[Embedding, Array]]:
        ends = np.cumsum([factor.dim for factor in self._factors])[:-1]
        return list(zip(self._factors, np.split(vector, ends), strict=True))

    def nearest(self, vector: Array) -> Array:
        return np.concatenate([factor.nearest(part).ravel() for factor, part in self._parts(vector)])

    def turn(self, vector: Array, q: float) -> float:
        return math.sqrt(sum(factor.turn(part, q) ** 2 for factor, part in self._parts(vector)))
