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

if TYPE_CHECKING:
    from geodp import data as data
    from geodp import files as files
    from geodp.auditing import AuditResult, audit
    from geodp.manifolds import (
        HPD,
        SPD,
        Correlation,
        Euclidean,
        Grassmann,
        Hyperbolic,
        Manifold,
        PlanarShapes,
        Poses,
        Product,
        Rotations,
        Simplex,
        SPDLogCholesky,
        SPDLogEuclidean,
        Sphere,
        Torus,
    )
    from geodp.manifolds.ball import Ball
    from geodp.noise.families import Gaussian, Laplace
    from geodp.planning import plan
    from geodp.privacy.ledger import BudgetExhausted, Ledger, LedgerError, LedgerLocked
    from geodp.privacy.notions import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
    from geodp.privacy.risk import Risk, risk
    from geodp.programs.ball import private_ball
    from geodp.programs.chain import ChainPlan, plan_chain
    from geodp.programs.kmeans import private_kmeans
    from geodp.receipt import GroupedRelease, Release
    from geodp.records.dask_files import read_dask
    from geodp.records.dataset import Dataset
    from geodp.regions import compare, confidence_region
    from geodp.request import Plan, Request
    from geodp.session import Session
    from geodp.solver.compiling import compile
    from geodp.solver.many import MeanResults, frechet_means
    from geodp.solver.mean import MeanResult, frechet_mean
    from geodp.statistics.average import private_average, private_projected_mean
    from geodp.statistics.covariance import private_covariance
    from geodp.statistics.coverage import private_coverage
    from geodp.statistics.mean import private_mean
    from geodp.statistics.sensitivity import sensitivity
    from geodp.statistics.summary import private_summary
    from geodp.statistics.variance import private_variance

__all__ = [
    "HPD",
    "SPD",
    "ApproximateDP",
    "AuditResult",
    "Ball",
    "BudgetExhausted",
    "ChainPlan",
    "Correlation",
    "Dataset",
    "Euclidean",
    "Gaussian",
    "GaussianDP",
    "Grassmann",
    "GroupedRelease",
    "Hyperbolic",
    "Laplace",
    "Ledger",
    "LedgerError",
    "LedgerLocked",
    "Manifold",
    "MeanResult",
    "MeanResults",
    "Plan",
    "PlanarShapes",
    "Poses",
    "Product",
    "PureDP",
    "Release",
    "Request",
    "Risk",
    "Rotations",
    "SPDLogCholesky",
    "SPDLogEuclidean",
    "Session",
    "Simplex",
    "Sphere",
    "Torus",
    "ZeroConcentratedDP",
    "__version__",
    "audit",
    "compare",
    "compile",
    "confidence_region",
    "frechet_mean",
    "frechet_means",
    "plan",
    "plan_chain",
    "private_average",
    "private_ball",
    "private_covariance",
    "private_coverage",
    "private_kmeans",
    "private_mean",
    "private_median",
    "private_projected_mean",
    "private_summary",
    "private_variance",
    "read_dask",
    "risk",
    "sensitivity",
]

#: The module of each name. It is imported on first use, because some modules import slow libraries such as NumPy.
_LATER = {
    **dict.fromkeys(
        (
            "HPD",
            "SPD",
            "Correlation",
            "Euclidean",
            "Grassmann",
            "Hyperbolic",
            "Manifold",
            "PlanarShapes",
            "Poses",
            "Product",
            "Rotations",
            "SPDLogCholesky",
            "SPDLogEuclidean",
            "Simplex",
            "Sphere",
            "Torus",
        ),
        "geodp.manifolds",
    ),
    "Ball": "geodp.manifolds.ball",
    "sensitivity": "geodp.statistics.sensitivity",
    "AuditResult": "geodp.auditing",
    "audit": "geodp.auditing",
    "Gaussian": "geodp.noise.families",
    "Laplace": "geodp.noise.families",
    "BudgetExhausted": "geodp.privacy.ledger",
    "Ledger": "geodp.privacy.ledger",
    "LedgerError": "geodp.privacy.ledger",
    "LedgerLocked": "geodp.privacy.ledger",
    "MeanResult": "geodp.solver.mean",
    "frechet_mean": "geodp.solver.mean",
    "MeanResults": "geodp.solver.many",
    "frechet_means": "geodp.solver.many",
    **dict.fromkeys(("ChainPlan", "plan_chain"), "geodp.programs.chain"),
    **dict.fromkeys(("Plan", "Request"), "geodp.request"),
    "plan": "geodp.planning",
    **dict.fromkeys(("Release", "GroupedRelease"), "geodp.receipt"),
    "Dataset": "geodp.records.dataset",
    "private_ball": "geodp.programs.ball",
    "private_mean": "geodp.statistics.mean",
    "private_median": "geodp.programs.median",
    "private_summary": "geodp.statistics.summary",
    "private_coverage": "geodp.statistics.coverage",
    **dict.fromkeys(("private_average", "private_projected_mean"), "geodp.statistics.average"),
    "private_variance": "geodp.statistics.variance",
    "private_covariance": "geodp.statistics.covariance",
    "private_kmeans": "geodp.programs.kmeans",
    **dict.fromkeys(("compare", "confidence_region"), "geodp.regions"),
    **dict.fromkeys(("PureDP", "ApproximateDP", "ZeroConcentratedDP", "GaussianDP"), "geodp.privacy.notions"),
    **dict.fromkeys(("Risk", "risk"), "geodp.privacy.risk"),
    "Session": "geodp.session",
    "read_dask": "geodp.records.dask_files",
    "compile": "geodp.solver.compiling",
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
