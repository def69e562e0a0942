"""Differential privacy on curved spaces.

>>> import numpy as np, geodp
>>> ball = geodp.Ball(geodp.SPD(2), center=np.eye(2), radius=1.0)
>>> release = geodp.private_mean(np.tile(np.eye(2), (1000, 1, 1)), ball, epsilon=1.0)
>>> release.epsilon, release.private
(1.0, True)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from geodp._version import __version__
from geodp.manifolds import (
    HPD,
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
    Torus,
)
from geodp.manifolds.ball import Ball
from geodp.statistics.sensitivity import sensitivity

if TYPE_CHECKING:
    from geodp import data as data
    from geodp import files as files
    from geodp.auditing import AuditResult, audit
    from geodp.laws.families import Gaussian, Laplace
    from geodp.planning import Plan, plan
    from geodp.privacy.ledger import Ledger
    from geodp.records.dask_files import read_dask
    from geodp.release import Release, private_mean
    from geodp.statistics.mean import MeanResult, frechet_mean

__all__ = [
    "HPD",
    "SPD",
    "AuditResult",
    "Ball",
    "Euclidean",
    "Gaussian",
    "Grassmann",
    "Hyperbolic",
    "Laplace",
    "Ledger",
    "Manifold",
    "MeanResult",
    "Plan",
    "PlanarShapes",
    "Product",
    "Release",
    "Rotations",
    "SPDLogEuclidean",
    "Sphere",
    "Torus",
    "__version__",
    "audit",
    "frechet_mean",
    "plan",
    "private_mean",
    "read_dask",
    "sensitivity",
]

#: Names whose modules need heavier libraries: they are loaded when first used.
_LATER = {
    "AuditResult": "geodp.auditing",
    "audit": "geodp.auditing",
    "Gaussian": "geodp.laws.families",
    "Laplace": "geodp.laws.families",
    "Ledger": "geodp.privacy.ledger",
    "MeanResult": "geodp.statistics.mean",
    "frechet_mean": "geodp.statistics.mean",
    "Plan": "geodp.planning",
    "plan": "geodp.planning",
    "Release": "geodp.release",
    "private_mean": "geodp.release",
    "read_dask": "geodp.records.dask_files",
}


def __getattr__(name: str) -> object:
    if name in ("data", "files"):
        return import_module(f"geodp.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'geodp' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
