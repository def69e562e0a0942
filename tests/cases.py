"""The one list of manifolds that every property test runs over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import geodp
from geodp import (
    SPD,
    Ball,
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
from geodp.noise.choice import MechanismName
from geodp.noise.flat import Family
from geodp.privacy.notions import Privacy, PureDP
from geodp.request import Plan, Request, Statistic
from geodp.statistics.mean import Mean
from geodp.statistics.sensitivity import Bound
from geodp.testing import random_points, random_tangents

__all__ = [
    "MANIFOLDS",
    "ONE_OF_EACH",
    "USUAL",
    "every_manifold",
    "longer",
    "measured",
    "planned",
    "random_points",
    "random_tangents",
]


def planned(
    statistic: Statistic, n: int, privacy: Privacy, mechanism: MechanismName = "auto", law: Family | None = None, **more: Any
) -> Plan:
    """The plan of a statistic of ``n`` records."""
    return Request(statistic, privacy, mechanism=mechanism, law=law, **more).plan(n)


def measured(ball: Ball, n: int, epsilon: float, bound: Bound = "sharp") -> Plan:
    """The mean of ``n`` records in the ball with the paper's noise: intrinsic Laplace at pure ``epsilon``."""
    return planned(Mean(ball, bound), n, PureDP(epsilon), "intrinsic", "laplace")


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
    *map(geodp.HPD, (1, 2, 3)),
    *map(geodp.Torus, (1, 2, 4)),
    *map(geodp.SPDLogCholesky, (1, 2, 4)),
    *map(geodp.Correlation, (2, 3, 5)),
    geodp.Correlation(3, shrink=0.1),
    *map(geodp.Simplex, (2, 3, 5)),
    geodp.Simplex(3, floor=0.01),
    geodp.Poses(),
    geodp.Poses(length=0.3),
    Product(geodp.Correlation(3), Sphere(2)),
]

#: One manifold of every family, for what takes seconds each; the others have the same checks behind the marker ``slow``.
ONE_OF_EACH: list[Manifold] = [
    Euclidean(4),
    Sphere(2),
    Hyperbolic(2),
    SPD(3),
    SPDLogEuclidean(2),
    Grassmann(2, 4),
    Rotations(4),
    PlanarShapes(4),
    Product(Sphere(2), Euclidean(3)),
    geodp.HPD(2),
    geodp.Torus(2),
    geodp.SPDLogCholesky(2),
    geodp.Correlation(3),
    geodp.Simplex(3),
    geodp.Poses(),
]

#: Those, and two of one dimension: what the normal suite tries.
USUAL: list[Manifold] = [
    *ONE_OF_EACH,
    Euclidean(1),
    Sphere(1),
]


def longer(cases: Iterable[Any], quick: Iterable[Any] = ONE_OF_EACH) -> list[Any]:
    """The cases, of which only the quick ones are in the normal suite; the others are behind the marker."""
    kept = list(quick)
    each = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    return [case if case in kept else pytest.param(*values, marks=pytest.mark.slow) for case, values in each]


#: For tests of every manifold: the usual ones in the normal suite, all of them behind the marker.
every_manifold = pytest.mark.parametrize("manifold", longer(MANIFOLDS, USUAL), ids=repr)
