"""Differential privacy on curved spaces."""

from geodp.manifolds import (
    SPD,
    Euclidean,
    Grassmann,
    Hyperbolic,
    Manifold,
    PlanarShapes,
    Product,
    Rotations,
    SPDLogEuclidean,
    Sphere,
)

__version__ = "0.1.0"

__all__ = [
    "SPD",
    "Euclidean",
    "Grassmann",
    "Hyperbolic",
    "Manifold",
    "PlanarShapes",
    "Product",
    "Rotations",
    "SPDLogEuclidean",
    "Sphere",
]
