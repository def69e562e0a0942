"""Manifolds: one contract, nine families."""

from geodp.manifolds.euclidean import Euclidean
from geodp.manifolds.grassmann import Grassmann
from geodp.manifolds.hyperbolic import Hyperbolic
from geodp.manifolds.manifold import Manifold, Requirement
from geodp.manifolds.product import Product
from geodp.manifolds.roots import Roots, VolumeBound
from geodp.manifolds.rotations import Rotations
from geodp.manifolds.shapes import PlanarShapes
from geodp.manifolds.spd import SPD, SPDLogEuclidean
from geodp.manifolds.sphere import Sphere

__all__ = [
    "SPD",
    "Euclidean",
    "Grassmann",
    "Hyperbolic",
    "Manifold",
    "PlanarShapes",
    "Product",
    "Requirement",
    "Roots",
    "Rotations",
    "SPDLogEuclidean",
    "Sphere",
    "VolumeBound",
]
