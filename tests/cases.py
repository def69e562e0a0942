"""The one list of manifolds that every property test runs over."""

from __future__ import annotations

import numpy as np

from geodp import SPD, Euclidean, Grassmann, Hyperbolic, Manifold, PlanarShapes, Product, Rotations, SPDLogEuclidean, Sphere
from geodp.manifolds._functions import Array

MANIFOLDS: list[Manifold] = [
    Euclidean(1),
    Euclidean(4),
    Sphere(1),
    Sphere(2),
    Sphere(5),
    Sphere(2, curvature=4.0),
    Sphere(3, curvature=0.3),
    Hyperbolic(1),
    Hyperbolic(2),
    Hyperbolic(5),
    SPD(1),
    SPD(2),
    SPD(3),
    SPD(5),
    SPDLogEuclidean(1),
    SPDLogEuclidean(2),
    SPDLogEuclidean(4),
    Grassmann(1, 2),
    Grassmann(1, 4),
    Grassmann(2, 4),
    Grassmann(2, 5),
    Grassmann(3, 7),
    Rotations(2),
    Rotations(3),
    Rotations(4),
    Rotations(5),
    PlanarShapes(3),
    PlanarShapes(4),
    PlanarShapes(7),
    Product(Sphere(2), Euclidean(3)),
    Product(SPD(2), Sphere(1), Rotations(3)),
    Product(Product(Hyperbolic(2), Grassmann(1, 3)), PlanarShapes(4)),
]


def random_points(manifold: Manifold, size: int, rng: np.random.Generator, spread: float = 1.0) -> Array:
    """Points at distances of the order of ``spread`` (at most 0.9 of the diameter) from the origin, all directions."""
    return manifold.exp(
        manifold.origin, random_tangents(manifold, np.broadcast_to(manifold.origin, (size, *manifold.point_shape)), rng, spread)
    )


def random_tangents(manifold: Manifold, p: Array, rng: np.random.Generator, spread: float = 1.0) -> Array:
    """Tangent vectors at each point of ``p``, uniform in direction, of length up to ``spread`` and inside the cut locus."""
    size = p.shape[: p.ndim - len(manifold.point_shape)]
    directions = rng.normal(size=(*size, manifold.dim))
    directions /= np.linalg.vector_norm(directions, axis=-1, keepdims=True)
    reach = min(spread, 0.98 * manifold.injectivity_radius)
    lengths = reach * rng.uniform(0.05, 1.0, size=(*size, 1))
    return manifold.tangent(p, directions * lengths)
