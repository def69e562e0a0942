"""Manifolds: one contract, and one file for each manifold."""

from geodp.manifolds.correlation import Correlation
from geodp.manifolds.embedding import Embedding
from geodp.manifolds.euclidean import Euclidean
from geodp.manifolds.flat import FlatChart
from geodp.manifolds.grassmann import Grassmann
from geodp.manifolds.hpd import HPD
from geodp.manifolds.hyperbolic import Hyperbolic
from geodp.manifolds.layout import Layout
from geodp.manifolds.manifold import Manifold, Requirement
from geodp.manifolds.poses import Poses
from geodp.manifolds.product import Product
from geodp.manifolds.registry import register
from geodp.manifolds.roots import Roots, VolumeBound
from geodp.manifolds.rotations import Rotations
from geodp.manifolds.shapes import PlanarShapes
from geodp.manifolds.simplex import Simplex
from geodp.manifolds.spd import SPD
from geodp.manifolds.spd_flat import SPDLogCholesky, SPDLogEuclidean
from geodp.manifolds.sphere import Sphere
from geodp.manifolds.torus import Torus

__all__ = [
    "HPD",
    "SPD",
    "Correlation",
    "Embedding",
    "Euclidean",
    "FlatChart",
    "Grassmann",
    "Hyperbolic",
    "Layout",
    "Manifold",
    "PlanarShapes",
    "Poses",
    "Product",
    "Requirement",
    "Roots",
    "Rotations",
    "SPDLogCholesky",
    "SPDLogEuclidean",
    "Simplex",
    "Sphere",
    "Torus",
    "VolumeBound",
    "register",
]
