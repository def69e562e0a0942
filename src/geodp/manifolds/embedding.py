"""Sets in Euclidean spaces in which points are averaged: points as vectors, and the nearest point to a vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from geodp.inputs import Array


@final
@dataclass(frozen=True)
class Embedding:
    """A compact manifold in the space ``R^dim``, such that every isometry of the manifold is an isometry of the space.

    ``diameter`` is the largest distance between two points in the space, so one record moves a sum of vectors by at most that.
    ``write`` gives points as vectors, ``(..., dim)``, for every array that represents a point. ``nearest`` is the point nearest
    to one vector: a function of the vector alone that never fails, even if several are equally near. ``turn(vector, q)`` bounds
    how far, in geodesic distance, the nearest point may be from that of any vector within ``q``; infinite if it may be anywhere.
    """

    dim: int
    diameter: float
    write: Callable[[Array], Array]
    nearest: Callable[[Array], Array]
    turn: Callable[[Array, float], float]


#: Far below the noise of any release, and above the rounding of a singular matrix.
INSIDE = 1e-10


@final
@dataclass(frozen=True)
class ConvexSet:
    """A bounded convex set in ``R^dim``. It holds every average of the points of a manifold, which need not be such a point.

    ``inside`` moves arrays by a part of ``INSIDE`` towards an inner point, so that the edge of the set is on the manifold
    too: singular matrices, shares of zero. ``write`` gives points as vectors in the set; points outside of it are moved into it,
    each by itself. ``diameter`` is the largest distance between two vectors in it. ``nearest`` is a point of the set for any
    vector, as an array. It is no farther from any point of the set than the vector is, as the nearest point is (Kolmogorov's
    criterion: the set lies behind the plane through the nearest point). ``norm`` is the name of the norm of ``R^dim``.
    """

    dim: int
    diameter: float
    inside: Callable[[Array], Array]
    write: Callable[[Array], Array]
    nearest: Callable[[Array], Array]
    norm: str = "Frobenius norm"


def turn_across_gap(gap: float, q: float, speed: float) -> float:
    """How far a shift by ``q`` may turn an eigenspace or polar factor that is separated from the others by ``gap``.

    The projector onto the leading eigenvectors of a matrix with a gap ``g`` after them moves at a speed of at most ``1/(sqrt(2)
    g)`` in geodesic distance, because only the off-diagonal block counts, twice. The gap shrinks by at most ``sqrt(2)`` times the
    distance. So the projector moves by at most ``log(g/(g - sqrt(2) q))/2``: ``speed`` is one half. The rotation nearest to a
    matrix whose two smallest signed singular values add up to ``g`` moves by at most twice as much, by the same argument with
    ``sqrt(2)/g``.
    """
    left = gap - math.sqrt(2.0) * q
    return speed * math.log(gap / left) if left > 0.0 else math.inf
