"""Differential privacy on curved spaces."""

from geodp.ball import Ball
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
from geodp.mean import MeanResult, frechet_mean
from geodp.sensitivity import sensitivity

__version__ = "0.1.0"

__all__ = [
    "SPD",
    "Ball",
    "Euclidean",
    "Grassmann",
    "Hyperbolic",
    "Manifold",
    "MeanResult",
    "PlanarShapes",
    "Product",
    "Rotations",
    "SPDLogEuclidean",
    "Sphere",
    "frechet_mean",
    "sensitivity",
]
